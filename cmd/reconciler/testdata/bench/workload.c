// The workload of the benchmark: it says when it came to be, and waits.
//
//   workload FIFO NAME             says "up", then waits for a signal
//   workload FIFO NAME BYTES SIZE  says "up", writes BYTES to its standard output, SIZE at a time and in lines of 100,
//                                  says "done", then waits for a signal
//
// What it says is one line on the FIFO, "WORD NAME PID NANOSECONDS", with the time of CLOCK_MONOTONIC. It is shorter than
// PIPE_BUF, so that no two are ever mixed.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void say(char **argv, const char *word, struct timespec at)
{
	char line[256];
	int n = snprintf(line, sizeof line, "%s %s %d %lld\n", word, argv[2], (int)getpid(),
			 (long long)at.tv_sec * 1000000000 + at.tv_nsec);
	int fd = open(argv[1], O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, line, n) != n)
		_exit(3);
	close(fd);
}

static void pour(long long bytes, size_t size)
{
	char *text = malloc(size);

	for (size_t i = 0; i < size; i++)
		text[i] = i % 100 == 99 ? '\n' : 'x';
	while (bytes > 0) {
		ssize_t n = write(1, text, size);

		if (n != (ssize_t)size)
			_exit(4);
		bytes -= n;
	}
}

int main(int argc, char **argv)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at); // the first act
	if (argc < 3)
		return 2;
	say(argv, "up", at);
	if (argc == 5) {
		pour(atoll(argv[3]), (size_t)atoll(argv[4]));
		clock_gettime(CLOCK_MONOTONIC, &at);
		say(argv, "done", at);
	}
	for (;;)
		pause();
}
