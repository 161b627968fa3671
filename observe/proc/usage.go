package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Usage is what a run uses. Each number is of what could be seen: a process that ends meanwhile is left out.
type Usage struct {
	CPU       time.Duration // with a cgroup: of ended members too, so it never falls
	RSS       int64         // resident memory in bytes; shared pages count for each process
	FDs       int           // open descriptors
	Processes int
}

// Usage reads what the cgroup's members use. It is asked for every run at each scrape, so it does without whatever the kernel
// need not be asked. last is what was read before, the zero value for nothing: as long as no processor has worked for the
// cgroup since, none of its members has forked, ended, opened or closed anything, or touched memory, and what last says of
// them is given again. That memory which the kernel took from a member that sleeps is noticed later.
func (g Cgroup) Usage(last Usage) (Usage, error) {
	b := scratch.Get().(*[4096]byte)
	defer scratch.Put(b)
	cpu, err := g.cpuTime(b[:])
	if err != nil {
		return Usage{}, fmt.Errorf("cannot read what the run uses: %w", err)
	}
	if last.Processes > 0 && cpu > 0 && cpu == last.CPU {
		return last, nil
	}
	members, err := g.membersOfOne(b[:])
	if members == nil {
		members, err = g.Members()
	}
	if err != nil {
		return Usage{}, fmt.Errorf("cannot read what the run uses: %w", err)
	}
	u := usageOf(members, b[:])
	u.CPU = cpu
	return u, nil
}

// cpuTime is what the processors have worked for the cgroup and all below, its ended members too; 0 once it is removed.
func (g Cgroup) cpuTime(b []byte) (time.Duration, error) {
	dir, name := g.all.from(g.path + "/cpu.stat")
	text, err := readShort(dir, name, b)
	if isRemoved(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	usec, _ := keyed(text, "usage_usec")
	return time.Duration(usec) * time.Microsecond, nil
}

// membersOfOne lists the processes of a run that has no cgroup but its own. It is nobody where that cannot be told so simply.
func (g Cgroup) membersOfOne(b []byte) ([]int, error) {
	links, err := g.all.links(g.path)
	if err != nil || links != leafLinks {
		return nil, err
	}
	dir, name := g.all.from(g.path + "/cgroup.procs")
	text, err := readShort(dir, name, b)
	return pids(text), err
}

// Usage reads what the members of a family use.
func (f Family) Usage() Usage {
	b := scratch.Get().(*[4096]byte)
	defer scratch.Put(b)
	u := Usage{}
	for _, m := range f.Members {
		u.Processes++
		u.RSS += residentMemory(m.ID.PID, b[:])
		u.FDs += openFiles(m.ID.PID)
		u.CPU += m.cpu
	}
	return u
}

// usageOf adds up memory and descriptors of the living among pids.
func usageOf(pids []int, b []byte) Usage {
	var u Usage
	for _, pid := range pids {
		u.Processes++
		u.RSS += residentMemory(pid, b)
		u.FDs += openFiles(pid)
	}
	return u
}

var pageSize = int64(os.Getpagesize())

// residentMemory reads the second field of statm, in pages (proc_pid_statm(5)); 0 when it cannot be seen.
func residentMemory(pid int, b []byte) int64 {
	b, err := readShort(unix.AT_FDCWD, "/proc/"+strconv.Itoa(pid)+"/statm", b)
	if err != nil {
		return 0
	}
	_, rest, _ := bytes.Cut(b, []byte(" "))
	resident, _, _ := bytes.Cut(rest, []byte(" "))
	pages, err := strconv.ParseInt(string(resident), 10, 64)
	if err != nil {
		return 0
	}
	return pages * pageSize
}

// openFiles counts descriptors: since Linux 6.2 it is the size of the directory, before that they are listed. 0 when
// they cannot be seen.
func openFiles(pid int) int {
	name := "/proc/" + strconv.Itoa(pid) + "/fd"
	var st unix.Stat_t
	if err := unix.Stat(name, &st); err != nil {
		return 0
	}
	if st.Size > 0 {
		return int(st.Size)
	}
	names, err := readNames(name)
	if err != nil {
		return 0
	}
	return len(names)
}

// readNames lists a directory.
func readNames(name string) ([]string, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	names, err := f.Readdirnames(-1)
	return names, errors.Join(err, f.Close())
}
