package faultd

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func renameFlags(fs *flag.FlagSet) func(*process) int {
	comm := fs.String("comm", "innocent", "new `name`, of which the kernel takes 15 bytes")
	argv := fs.String("argv", "", "new arguments, as one `text`, cut to the length of the old ones")
	after := fs.Duration("after", 0, "wait first")
	return func(*process) int {
		stop := caught(syscall.SIGTERM)
		time.Sleep(*after)
		// The file of the process, not of a thread: the kernel renames the main thread, whichever writes.
		if err := os.WriteFile("/proc/self/comm", []byte(*comm), 0); err != nil {
			return fail(err)
		}
		if *argv != "" {
			if err := overwriteArgs(*argv); err != nil {
				return fail(err)
			}
		}
		now, err := os.ReadFile("/proc/self/comm")
		if err != nil {
			return fail(err)
		}
		say("renamed to %s", trimNewline(string(now)))
		<-stop
		return 0
	}
}

// overwriteArgs writes text over the memory that the kernel shows as /proc/PID/cmdline. os.Args lies there too.
func overwriteArgs(text string) error {
	start, end, err := argsRange()
	if err != nil {
		return err
	}
	f, err := os.OpenFile("/proc/self/mem", os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	block := make([]byte, end-start) // what is left over reads as empty
	copy(block[:len(block)-1], text)
	_, err = f.WriteAt(block, start)
	return errors.Join(err, f.Close())
}

// argsRange returns fields 48 and 49 of /proc/self/stat (proc_pid_stat(5): arg_start, arg_end).
func argsRange() (start, end int64, err error) {
	b, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return 0, 0, err
	}
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:])) // from field 3: the name may hold anything
	if len(fields) < 47 {
		return 0, 0, fmt.Errorf("/proc/self/stat has %d fields", len(fields)+2)
	}
	start, err = strconv.ParseInt(fields[45], 10, 64)
	if err == nil {
		end, err = strconv.ParseInt(fields[46], 10, 64)
	}
	if err == nil && end <= start {
		err = errors.New("the kernel does not tell where the arguments are")
	}
	return start, end, err
}

func becomeFlags(fs *flag.FlagSet) func(*process) int {
	program := fs.String("exec", "/bin/sleep 60", "absolute `path and arguments`, split at spaces")
	after := fs.Duration("after", time.Second, "wait first")
	return func(*process) int {
		argv := strings.Fields(*program)
		if len(argv) == 0 {
			return fail(errors.New("-exec is empty"))
		}
		say("becoming %s", argv[0])
		time.Sleep(*after)
		return fail(syscall.Exec(argv[0], argv, os.Environ()))
	}
}
