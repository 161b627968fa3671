package stage

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Spec says what to start. Every descriptor in it is borrowed for the call of [Stager.Hold] and stays the caller's.
type Spec struct {
	// Exec is the opened executable (O_PATH is enough): what was checked is what is executed.
	Exec int
	// Path is the absolute path of the same file when it is to be executed by that: a script's interpreter opens it by
	// name, and some programs find themselves by it. Empty = it is executed by its descriptor and has no name.
	Path  string
	Argv  []string // Argv[0] is the program's name for itself; at least one, none with a NUL
	Env   []string // the whole environment, NAME=value
	Dir   int      // the opened working directory (O_PATH is enough); the workload's user must be allowed to enter it
	Stdio [3]int   // standard input, output, error
	// Terminal makes Stdio[0] the controlling terminal of the session (ioctl_tty(2), TIOCSCTTY); it must be a terminal that no session has.
	Terminal bool
	// Credential is whom the workload runs as; nil is the caller's own.
	Credential *Credential
	// Cgroup is the opened cgroup2 directory that the stage is born in, or moved to before Hold returns; -1 for none.
	// It must be fresh: a cgroup that was killed once kills what is cloned into it.
	Cgroup int
	Limits []Limit // set from outside while the stage waits
}

// Credential is a user, its group and its further groups.
type Credential struct {
	UID, GID uint32
	Groups   []uint32
	// KeepGroups leaves the caller's further groups: an ordinary user may set none, not even its own.
	KeepGroups bool
}

// Limit is one resource limit (RLIMIT_*, setrlimit(2)).
type Limit struct {
	Resource   int
	Soft, Hard uint64
}

// Hold forks a stage that waits at its gate, in a session of its own, in spec's cgroup and under its limits.
func (s *Stager) Hold(spec Spec) (*Held, error) {
	if err := spec.check(); err != nil {
		return nil, err
	}
	h, err := s.fork(spec, s.bornInCgroup())
	if err != nil {
		return nil, err
	}
	if err := s.equip(h, spec); err != nil {
		return nil, errors.Join(err, h.Kill())
	}
	return h, nil
}

// fork makes the stage. The child's end of the gate is closed here in any case, ours belongs to the Held.
func (s *Stager) fork(spec Spec, born bool) (*Held, error) {
	if err := s.fault(StepGate); err != nil {
		return nil, fmt.Errorf("cannot make the gate: %w", err)
	}
	gate, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot make the gate: %w", err)
	}
	defer unix.Close(gate[1])

	pidfd := -1
	attr := &syscall.ProcAttr{
		Env:   spec.Env,
		Files: descriptors(spec, gate[1]),
		Sys:   &syscall.SysProcAttr{Setsid: true, PidFD: &pidfd},
	}
	if spec.Terminal {
		attr.Sys.Setctty, attr.Sys.Ctty = true, 0
	}
	if c := spec.Credential; c != nil {
		attr.Sys.Credential = &syscall.Credential{Uid: c.UID, Gid: c.GID, Groups: c.Groups, NoSetGroups: c.KeepGroups}
	}
	if spec.Cgroup >= 0 && born {
		attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, spec.Cgroup
	}
	pid, err := s.forkExec(spec.Argv, attr)
	if err != nil {
		unix.Close(gate[0])
		return nil, fmt.Errorf("cannot fork the stage: %w", err)
	}
	return &Held{PID: pid, stager: s, pidfd: pidfd, fd: gate[0], word: spec.word()}, nil
}

// forkExec forks with the books kept: from the clone on, Quiet's callers wait or see the child as held.
func (s *Stager) forkExec(argv []string, attr *syscall.ProcAttr) (int, error) {
	if err := s.fault(StepFork); err != nil {
		return 0, err
	}
	s.forks.RLock()
	defer s.forks.RUnlock()
	fork := syscall.ForkExec
	if s.forker != nil {
		fork = s.forker.fork
	}
	pid, err := fork(s.path(attr.Sys.Credential), argv, attr)
	if err != nil {
		return 0, err
	}
	if *attr.Sys.PidFD < 0 {
		// No pidfd, no hold on the child: it is ended through its gate, which the caller closes; reap it here.
		return 0, errors.Join(errors.New("there is no pidfd of it: Linux 5.4 or later is needed, and a free descriptor"), killChild(pid))
	}
	s.hold(pid)
	return pid, nil
}

// killChild ends a child that we have no pidfd of. It is ours and unreaped, so its number is still its own.
func killChild(pid int) error {
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		return err
	}
	_, err := wait(pid)
	return err
}

// equip does from outside what the stage does not do itself.
func (s *Stager) equip(h *Held, spec Spec) error {
	if spec.Cgroup >= 0 && !s.bornInCgroup() {
		if err := s.fault(StepMove); err != nil {
			return fmt.Errorf("cannot move the stage to its cgroup: %w", err)
		}
		if err := move(h.PID, spec.Cgroup); err != nil {
			return fmt.Errorf("cannot move the stage to its cgroup: %w", err)
		}
	}
	for _, l := range spec.Limits {
		err := s.fault(StepLimits)
		if err == nil {
			err = unix.Prlimit(h.PID, l.Resource, &unix.Rlimit{Cur: l.Soft, Max: l.Hard}, nil)
		}
		if err != nil {
			return fmt.Errorf("cannot set resource limit %d to %d (hard %d): %w", l.Resource, l.Soft, l.Hard, err)
		}
	}
	return nil
}

// move writes pid into a cgroup. The child is unreaped: its number is its own.
func move(pid, cgroup int) error {
	fd, err := unix.Openat(cgroup, "cgroup.procs", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.Write(fd, fmt.Append(nil, pid))
	return err
}

// firstFree is the first descriptor that a child is not given. The stage's own program must not lie below it: it is
// executed after the others are in place.
const firstFree = 6

func descriptors(spec Spec, gate int) []uintptr {
	return []uintptr{
		uintptr(spec.Stdio[0]), uintptr(spec.Stdio[1]), uintptr(spec.Stdio[2]),
		uintptr(gate), uintptr(spec.Exec), uintptr(spec.Dir), // 3, 4, 5: elf/amd64.S
	}
}

// word is what the gate says to let the stage go.
func (s Spec) word() []byte {
	if s.Path == "" {
		return []byte("F")
	}
	return append(append([]byte("P"), s.Path...), 0)
}

// check refuses what would be cut short or misread on its way.
func (s Spec) check() error {
	if len(s.Argv) == 0 {
		return errors.New("cannot start without arguments: the first is the program's name")
	}
	for i, v := range s.Argv {
		if strings.ContainsRune(v, 0) {
			return fmt.Errorf("argument %d holds a NUL", i)
		}
	}
	for i, v := range s.Env {
		if strings.ContainsRune(v, 0) || strings.IndexByte(v, '=') < 1 {
			return fmt.Errorf("environment entry %d is not NAME=value without a NUL", i)
		}
	}
	if s.Path != "" && (s.Path[0] != '/' || len(s.Path) >= unix.PathMax || strings.ContainsRune(s.Path, 0)) {
		return fmt.Errorf("the path is not absolute, over %d bytes or holds a NUL", unix.PathMax-1)
	}
	for _, fd := range []int{s.Exec, s.Dir, s.Stdio[0], s.Stdio[1], s.Stdio[2]} {
		if fd < 0 {
			return errors.New("a descriptor for the executable, the directory or the standard files is missing")
		}
	}
	return nil
}

// IsScript reports whether the opened file (O_PATH is enough) starts with "#!". One that may not be read is none: no
// interpreter could read it either.
func IsScript(fd int) (bool, error) {
	f, err := unix.Open(selfFd(fd), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("cannot open the executable: %w", err)
	}
	defer unix.Close(f)
	var magic [2]byte
	n, err := unix.Pread(f, magic[:], 0)
	if err != nil {
		return false, fmt.Errorf("cannot read the executable: %w", err)
	}
	return n == len(magic) && string(magic[:]) == "#!", nil
}
