//go:build crash

package main

import (
	"encoding/binary"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/keeper/pump"
	"reconciler.dev/reconciler/state"
)

// effects are the system calls that change something outside of the process, with how to tell what. All others have to be in harmless.
var effects = map[uint64]struct {
	name string
	what func(*places, *call) string // "" = this one changes nothing
}{
	unix.SYS_WRITE:     {"write", ofFile},
	unix.SYS_PWRITE64:  {"write", ofFile},
	unix.SYS_WRITEV:    {"write", ofFile},
	unix.SYS_PWRITEV:   {"write", ofFile},
	unix.SYS_SENDMSG:   {"send", ofFile},
	unix.SYS_SENDTO:    {"open", func(*places, *call) string { return "the gate of a stage" }},
	unix.SYS_SPLICE:    {"write", func(p *places, c *call) string { return p.class(c.file(2)) }},
	unix.SYS_SENDFILE:  {"write", ofFile},
	unix.SYS_FSYNC:     {"sync", ofFile},
	unix.SYS_FDATASYNC: {"sync", ofFile},
	unix.SYS_FTRUNCATE: {"truncate", ofFile},
	unix.SYS_FALLOCATE: {"allocate", ofFile},
	unix.SYS_FLOCK:     {"lock", ofFile},
	unix.SYS_FCHMOD:    {"chmod", ofFile},
	unix.SYS_OPENAT:    {"create", func(p *places, c *call) string { return created(p, c) }},
	unix.SYS_OPENAT2:   {"create", openedHow},
	unix.SYS_RENAMEAT:  {"rename to", renamed},
	unix.SYS_RENAMEAT2: {"exchange with", renamed},
	unix.SYS_LINKAT:    {"link", func(p *places, c *call) string { return p.class(c.path(2, 3)) }},
	unix.SYS_MKDIRAT:   {"mkdir", ofPath},
	unix.SYS_MKNODAT:   {"mknod", ofPath},
	unix.SYS_UNLINKAT:  {"remove", ofPath},
	unix.SYS_FCHMODAT:  {"chmod", ofPath},
	unix.SYS_FCHOWNAT:  {"chown", ofPath},
	unix.SYS_SYMLINKAT: {"symlink", func(p *places, c *call) string { return p.class(c.path(1, 2)) }},
	unix.SYS_UTIMENSAT: {"touch", ofPath},
	unix.SYS_CLONE:     {"fork", func(_ *places, c *call) string { return forked(c.args[0]) }},
	unix.SYS_CLONE3:    {"fork", func(_ *places, c *call) string { return "a stage" }},
	unix.SYS_KILL:      {"kill", func(_ *places, c *call) string { return "a process number" }},
	unix.SYS_TGKILL:    {"kill", ownThread},
	unix.SYS_PIDFD_SEND_SIGNAL: {"signal", func(_ *places, c *call) string {
		if c.args[1] == 0 {
			return ""
		}
		return "a process"
	}},
	unix.SYS_WAITID: {"wait for", func(_ *places, c *call) string { return reaped(c.args[3]) }},
	unix.SYS_WAIT4:  {"wait for", func(_ *places, c *call) string { return reaped(c.args[2]) }},
	unix.SYS_BIND:   {"bind", func(*places, *call) string { return "a socket" }},
	unix.SYS_PRLIMIT64: {"limit", func(_ *places, c *call) string {
		if c.args[2] == 0 || c.args[0] == 0 {
			return "" // asks, or is about itself
		}
		return "a process"
	}},
}

// harmless are the system calls that change nothing that anybody else sees.
var harmless = map[uint64]bool{
	unix.SYS_READ: true, unix.SYS_PREAD64: true, unix.SYS_READV: true, unix.SYS_CLOSE: true, unix.SYS_FSTAT: true, unix.SYS_NEWFSTATAT: true,
	unix.SYS_STATX: true, unix.SYS_STATFS: true, unix.SYS_FSTATFS: true, unix.SYS_LSEEK: true, unix.SYS_GETDENTS64: true,
	unix.SYS_READLINKAT: true, unix.SYS_FACCESSAT: true, unix.SYS_FACCESSAT2: true, unix.SYS_FCNTL: true, unix.SYS_IOCTL: true,
	unix.SYS_CLOSE_RANGE: true, unix.SYS_DUP: true, unix.SYS_DUP3: true, unix.SYS_PIPE2: true, unix.SYS_EVENTFD2: true, unix.SYS_MEMFD_CREATE: true, unix.SYS_GETCWD: true,
	unix.SYS_EPOLL_CREATE1: true, unix.SYS_EPOLL_CTL: true, unix.SYS_EPOLL_PWAIT: true, unix.SYS_EPOLL_PWAIT2: true, unix.SYS_PPOLL: true,
	unix.SYS_PSELECT6: true, unix.SYS_INOTIFY_INIT1: true, unix.SYS_INOTIFY_ADD_WATCH: true, unix.SYS_INOTIFY_RM_WATCH: true,
	unix.SYS_TIMERFD_CREATE: true, unix.SYS_TIMERFD_SETTIME: true, unix.SYS_MMAP: true, unix.SYS_MUNMAP: true, unix.SYS_MPROTECT: true,
	unix.SYS_MADVISE: true, unix.SYS_MLOCK: true, unix.SYS_MINCORE: true, unix.SYS_BRK: true, unix.SYS_MSYNC: true, unix.SYS_FUTEX: true, unix.SYS_NANOSLEEP: true,
	unix.SYS_CLOCK_NANOSLEEP: true, unix.SYS_CLOCK_GETTIME: true, unix.SYS_SCHED_YIELD: true, unix.SYS_SCHED_GETAFFINITY: true,
	unix.SYS_GETPID: true, unix.SYS_GETPPID: true, unix.SYS_GETTID: true, unix.SYS_GETUID: true, unix.SYS_GETEUID: true, unix.SYS_GETGID: true,
	unix.SYS_GETEGID: true, unix.SYS_GETRANDOM: true, unix.SYS_UNAME: true, unix.SYS_SYSINFO: true, unix.SYS_GETRLIMIT: true, unix.SYS_SETRLIMIT: true,
	unix.SYS_RT_SIGACTION: true, unix.SYS_RT_SIGPROCMASK: true, unix.SYS_RT_SIGRETURN: true, unix.SYS_SIGALTSTACK: true, unix.SYS_RESTART_SYSCALL: true,
	unix.SYS_PRCTL: true, unix.SYS_CAPGET: true, unix.SYS_UMASK: true, unix.SYS_PIDFD_OPEN: true, unix.SYS_SETSID: true, unix.SYS_SET_ROBUST_LIST: true, unix.SYS_RSEQ: true,
	unix.SYS_SOCKET: true, unix.SYS_SOCKETPAIR: true, unix.SYS_CONNECT: true, unix.SYS_LISTEN: true, unix.SYS_ACCEPT4: true,
	unix.SYS_SETSOCKOPT: true, unix.SYS_GETSOCKOPT: true, unix.SYS_GETSOCKNAME: true, unix.SYS_GETPEERNAME: true, unix.SYS_RECVMSG: true,
	unix.SYS_RECVFROM: true, unix.SYS_SHUTDOWN: true, unix.SYS_EXIT: true, unix.SYS_EXIT_GROUP: true, unix.SYS_TIMER_CREATE: true,
	unix.SYS_TIMER_SETTIME: true, unix.SYS_TIMER_DELETE: true, unix.SYS_SETITIMER: true, unix.SYS_FADVISE64: true,
	unix.SYS_ARCH_PRCTL: true, unix.SYS_GETPRIORITY: true, unix.SYS_SETPRIORITY: true,
}

func ofFile(p *places, c *call) string { return p.class(c.file(0)) }
func ofPath(p *places, c *call) string { return p.class(c.path(0, 1)) }

func created(p *places, c *call) string {
	if c.args[2]&(unix.O_CREAT|unix.O_TRUNC) == 0 {
		return ""
	}
	return p.class(c.path(0, 1))
}

// openedHow is created for openat2(2), whose flags begin a struct open_how.
func openedHow(p *places, c *call) string {
	flags := c.bytes(2, 8)
	if len(flags) == 8 && binary.NativeEndian.Uint64(flags)&(unix.O_CREAT|unix.O_TRUNC) == 0 {
		return ""
	}
	return p.class(c.path(0, 1))
}

// renamed is the place that a file comes to. What a record's coming means depends on what it says.
func renamed(p *places, c *call) string {
	to := p.class(c.path(2, 3))
	if to != "KEEPER/records/SCOPE.json" {
		return to
	}
	r, err := state.ReadRecord(c.path(0, 1))
	if err != nil || r.Run == nil {
		return to
	}
	return to + " (" + saying(r.Run) + ")"
}

// saying is what a record says of a run's life, in short.
func saying(run *state.Run) string {
	words := []string{string(run.Phase)}
	if run.Phase == state.Exited {
		return words[0]
	}
	if s := run.Stop; s != nil {
		switch {
		case s.Killed != nil:
			words = append(words, "kill")
		case len(s.Steps) == 0:
			words = append(words, "stop")
		case s.Steps[len(s.Steps)-1].Result != "":
			words = append(words, "step sent")
		case s.Steps[len(s.Steps)-1].Program == nil:
			words = append(words, "step")
		case s.Steps[len(s.Steps)-1].Program.Identity == nil:
			words = append(words, "step, program")
		case s.Steps[len(s.Steps)-1].Program.StartedAt.IsZero():
			words = append(words, "step, program known")
		default:
			words = append(words, "step, program started")
		}
	}
	if run.MainExit != nil {
		words = append(words, "main exit")
	}
	return strings.Join(words, ", ")
}

func forked(flags uint64) string {
	if flags&unix.CLONE_THREAD != 0 {
		return ""
	}
	return "a program"
}

func reaped(flags uint64) string {
	if flags&unix.WNOWAIT != 0 {
		return ""
	}
	return "a process"
}

func ownThread(_ *places, c *call) string {
	if int(c.args[0]) == c.pid {
		return "" // how Go interrupts its own threads
	}
	return "a process number"
}

// places knows what a trial's paths are called.
type places struct{ state.Layout }

// class is a path's place in the words of [state.Layout], without what differs from one time to the next. "" is a place where nothing
// is changed that lasts.
func (p *places) class(path string) string {
	switch {
	case strings.HasPrefix(path, "anon_inode:"), strings.HasPrefix(path, "pipe:"), path == "/dev/null", strings.HasPrefix(path, "/memfd:"):
		return ""
	case strings.HasPrefix(path, "socket:"):
		return "a socket"
	}
	if filepath.Dir(path) == filepath.Dir(p.State) && filepath.Ext(path) == ".log" {
		return "" // where the trial lets them say what they have to say
	}
	if inMemory.MatchString(path) {
		return "CLAIM"
	}
	for _, of := range p.named() {
		if rest, ok := strings.CutPrefix(path, of.dir); ok && (rest == "" || rest[0] == '/') {
			return of.name + general(rest)
		}
	}
	return path
}

// inMemory is a link that says whose a folder in shared memory is.
var inMemory = regexp.MustCompile(`^/dev/shm/reconciler-[^/]*\.in[0-9]*$`)

type namedPlace struct{ name, dir string }

// named are the places of [state.Layout], those within others first.
func (p *places) named() []namedPlace {
	list := []namedPlace{{"RUNS", p.Runs()}, {"LOGS", p.Logs()}, {"CGROUPS", "/sys/fs/cgroup/unified"}, {"CGROUPS", "/sys/fs/cgroup"}}
	if shared := sharedRuns(p.Layout); shared != "" {
		list = append(list, namedPlace{"RUNS", shared})
	}
	for _, dir := range pump.PoolDirs(p.Runtime, p.State) {
		if dir != p.Keeper() {
			list = append(list, namedPlace{"POOL", dir})
		}
	}
	return append(list, namedPlace{"KEEPER", p.Keeper()}, namedPlace{"RECONCILER", p.Reconciler()}, namedPlace{"DATA", p.Data()},
		namedPlace{"RUNTIME", p.Runtime}, namedPlace{"STATE", p.State}, namedPlace{"ABOVE", filepath.Dir(p.State)})
}

// particular is what differs from one time to the next, and the word for it.
var particular = []struct {
	is   *regexp.Regexp
	word string
}{
	{regexp.MustCompile(`/default\.[^/]*@[0-9]+\.json$`), "/SCOPE@SEQ.json"},
	{regexp.MustCompile(`/\.default\.[^/]*\.json\.tmp$`), "/.SCOPE.json.tmp"},
	{regexp.MustCompile(`/default\.[^/]*\.json$`), "/SCOPE.json"},
	{regexp.MustCompile(`/default\.[^/]*`), "/SCOPE"},
	{regexp.MustCompile(`/cmd-[0-9]+(/|$)`), "/cmd-N$1"},
	{regexp.MustCompile(`/probe-(readiness|liveness)(/|$)`), "/probe-X$2"},
	{regexp.MustCompile(`/[a-z2-7]{26}-(readiness|liveness)(/|$)`), "/RUN-PROBE$2"},
	{regexp.MustCompile(`/[0-9]+\.log(\.[0-9]+)?$`), "/N.log"},
	{regexp.MustCompile(`/[a-z2-7]{26}(/|$)`), "/RUN$1"},
	{regexp.MustCompile(`^/(steady|flood|family|ender|held|edited|gone)$`), "/SERVER"},
	{regexp.MustCompile(`/selftest-[A-Z0-9]+`), "/SELFTEST"},
	{regexp.MustCompile(`/\.new-[0-9a-f]{32,64}`), "/.new-HASH"},
	{regexp.MustCompile(`/[0-9a-f]{32,64}`), "/HASH"},
}

// general puts general words for particular names.
func general(path string) string {
	for _, p := range particular {
		path = p.is.ReplaceAllString(path, p.word)
	}
	return path
}

// point is the name of what a call does, "" = nothing that matters. known is false for a call of which nobody has said what it does.
func (p *places) point(c *call) (name string, known bool) {
	e, ok := effects[c.nr]
	if !ok {
		return "", harmless[c.nr]
	}
	what := e.what(p, c)
	if what == "" {
		return "", true
	}
	name = e.name + " " + what
	_, known = points[name]
	return name, known
}
