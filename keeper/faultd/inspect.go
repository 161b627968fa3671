package faultd

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Inspection is what inspect prints: all that whoever started a process hands down to it.
type Inspection struct {
	PID    int      `json:"pid"`
	PPID   int      `json:"ppid"`
	PGID   int      `json:"pgid"`
	SID    int      `json:"sid"`
	UID    int      `json:"uid"` // effective
	GID    int      `json:"gid"` // effective
	Groups []int    `json:"groups"`
	Umask  string   `json:"umask"` // octal, four digits
	Cwd    string   `json:"cwd"`
	Argv   []string `json:"argv"`
	Env    []string `json:"env"` // sorted
	// FDs are the open descriptors and what /proc says of them, without those of Go's runtime and of the look itself.
	FDs map[string]string `json:"fds"`
	// Status holds lines of /proc/self/status: SigBlk, SigIgn, SigCgt, NoNewPrivs, CapEff, CapBnd, Seccomp. Go handles all signals
	// but those ignored HUP and INT that it finds, so SigIgn shows only these.
	Status map[string]string `json:"status"`
	// Limits holds core, nofile, fsize, stack, nproc and memlock. Go has raised the soft limit of nofile to the hard one.
	Limits      map[string]Limit `json:"limits"`
	Nice        int              `json:"nice"`
	OOMScoreAdj int              `json:"oom_score_adj"`
	Cgroup      string           `json:"cgroup"` // /proc/self/cgroup
}

// Limit is a resource limit.
type Limit struct {
	Soft uint64 `json:"soft"`
	Hard uint64 `json:"hard"`
}

func inspectFlags(fs *flag.FlagSet) func(*process) int {
	wait := fs.Bool("wait", false, "stay until SIGTERM")
	var ignored signalList
	fs.Var(&ignored, "ignore", "`list` of signals to ignore before looking")
	return func(*process) int {
		ignored.ignore()
		found, err := inspect() // before signals are caught: that would show
		if err != nil {
			return fail(err)
		}
		stop := caught(syscall.SIGTERM)
		if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
			return fail(err)
		}
		if *wait {
			<-stop
		}
		return 0
	}
}

func inspect() (found *Inspection, err error) {
	found = &Inspection{
		PID: os.Getpid(), PPID: os.Getppid(), PGID: unix.Getpgrp(), UID: os.Geteuid(), GID: os.Getegid(),
		Argv: os.Args, Env: os.Environ(),
	}
	slices.Sort(found.Env)
	mask := unix.Umask(0)
	unix.Umask(mask)
	found.Umask = fmt.Sprintf("%04o", mask)
	var errs [9]error
	found.SID, errs[0] = unix.Getsid(0)
	found.Groups, errs[1] = os.Getgroups()
	found.Cwd, errs[2] = os.Getwd()
	found.FDs, errs[3] = descriptors()
	found.Status, errs[4] = statusLines("SigBlk", "SigIgn", "SigCgt", "NoNewPrivs", "CapEff", "CapBnd", "Seccomp")
	found.Limits, errs[5] = limits()
	found.Nice, errs[6] = niceness()
	found.OOMScoreAdj, errs[7] = readInt("/proc/self/oom_score_adj")
	cgroup, err := os.ReadFile("/proc/self/cgroup")
	errs[8] = err
	found.Cgroup = strings.TrimSpace(string(cgroup))
	return found, errors.Join(errs[:]...)
}

func descriptors() (map[string]string, error) {
	const dir = "/proc/self/fd"
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for _, e := range entries {
		target, err := os.Readlink(filepath.Join(dir, e.Name()))
		if errors.Is(err, os.ErrNotExist) {
			continue // the descriptor that the list was read through
		}
		if err != nil {
			return nil, err
		}
		if !gosOwn(target) {
			found[e.Name()] = target
		}
	}
	return found, nil
}

// gosOwn is the poller's descriptors, and the CPU limit that the runtime keeps an eye on.
func gosOwn(target string) bool {
	return strings.HasPrefix(target, "anon_inode:[event") || strings.HasPrefix(target, "/sys/fs/cgroup/") && strings.HasPrefix(filepath.Base(target), "cpu.")
}

func statusLines(names ...string) (map[string]string, error) {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for line := range strings.Lines(string(b)) {
		if name, value, ok := strings.Cut(line, ":"); ok && slices.Contains(names, name) {
			found[name] = strings.TrimSpace(value)
		}
	}
	return found, nil
}

func limits() (map[string]Limit, error) {
	found := map[string]Limit{}
	for name, which := range map[string]int{
		"core": unix.RLIMIT_CORE, "nofile": unix.RLIMIT_NOFILE, "fsize": unix.RLIMIT_FSIZE,
		"stack": unix.RLIMIT_STACK, "nproc": unix.RLIMIT_NPROC, "memlock": unix.RLIMIT_MEMLOCK,
	} {
		var l unix.Rlimit
		if err := unix.Prlimit(0, which, nil, &l); err != nil {
			return nil, err
		}
		found[name] = Limit{Soft: l.Cur, Hard: l.Max}
	}
	return found, nil
}

// niceness undoes what the system call does to keep negative values apart from errors: it returns 20 - nice.
func niceness() (int, error) {
	n, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	return 20 - n, err
}

func readInt(path string) (int, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(b)))
}
