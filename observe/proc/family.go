package proc

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/state"
)

// FileID names a file on this host.
type FileID struct{ Dev, Ino uint64 }

// FileIDOf reads the name of a file.
func FileIDOf(path string) (FileID, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return FileID{}, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	return FileID{Dev: st.Dev, Ino: st.Ino}, nil
}

// Hint is what is known of a run's family where there is no cgroup.
type Hint struct {
	Main  *state.Identity  // its number is that of its session, too; nil before it is known
	FIFOs []FileID         // in the run's private folder
	Seen  []state.Identity // found by earlier scans; ended ones may be among them
}

// Family is what a scan found of a run.
type Family struct {
	// Members live; zombies are left out. Each is the main process or was seen before, or is in the session of an
	// unreaped main process, or holds one of the run's FIFOs, or descends from a member. The session of a reaped main
	// process proves nothing, its number may be another's: scan before reaping, and give what is found as Seen
	// afterwards.
	Members []Member
	// Tree is Populated, or Unknown when nobody was found: whoever left session and FIFOs while nobody looked is not
	// seen, so it is never Empty.
	Tree observe.Tree
}

// Member is one process of a family.
type Member struct {
	ID  state.Identity
	cpu time.Duration
}

// Families looks through /proc once for the families of all hints.
func (k *Kernel) Families(hints []Hint) ([]Family, error) {
	procs, err := allProcesses()
	if err != nil {
		return nil, fmt.Errorf("cannot look through the processes: %w", err)
	}
	strangers(procs)
	wanted := make(map[FileID]int)
	for i, h := range hints {
		for _, f := range h.FIFOs {
			wanted[f] = i
		}
	}
	owner := make(map[int]int) // pid to hint
	for i, h := range hints {
		for _, id := range h.identities() {
			if _, ok := procs[id.PID]; ok && k.is(id) {
				owner[id.PID] = i
			}
		}
	}
	for i, h := range hints {
		if h.Main == nil || owner[h.Main.PID] != i || !has(owner, h.Main.PID) {
			continue
		}
		for pid, s := range procs {
			if s.session == h.Main.PID && !has(owner, pid) {
				owner[pid] = i
			}
		}
	}
	if len(wanted) > 0 {
		for pid := range procs {
			if has(owner, pid) {
				continue
			}
			if i, ok := holds(pid, wanted); ok {
				owner[pid] = i
			}
		}
	}
	descend(procs, owner)
	return k.families(hints, procs, owner), nil
}

// strangers takes us and our ancestors out: we hold runs' FIFOs ourselves, and all runs descend from us.
func strangers(procs map[int]stat) {
	for pid := os.Getpid(); ; {
		s, ok := procs[pid]
		delete(procs, pid)
		if !ok {
			return
		}
		pid = s.ppid
	}
}

func (h Hint) identities() []state.Identity {
	if h.Main == nil {
		return h.Seen
	}
	return append([]state.Identity{*h.Main}, h.Seen...)
}

func has(m map[int]int, pid int) bool { _, ok := m[pid]; return ok }

// is reports whether id's process is there, dead or alive.
func (k *Kernel) is(id state.Identity) bool {
	p, err := k.Open(id)
	if err != nil {
		return false
	}
	p.Close()
	return true
}

// descend gives children to the family of their parent.
func descend(procs map[int]stat, owner map[int]int) {
	for changed := true; changed; {
		changed = false
		for pid, s := range procs {
			if has(owner, pid) {
				continue
			}
			if i, ok := owner[s.ppid]; ok {
				owner[pid] = i
				changed = true
			}
		}
	}
}

// families makes the answer: only processes that can be identified are told.
func (k *Kernel) families(hints []Hint, procs map[int]stat, owner map[int]int) []Family {
	out := make([]Family, len(hints))
	for pid, i := range owner {
		if s := procs[pid]; s.state == 'Z' || s.state == 'X' {
			continue
		}
		id, ok := k.identifyAs(pid, procs[pid].start)
		if !ok {
			continue
		}
		out[i].Members = append(out[i].Members, Member{ID: id, cpu: procs[pid].cpu})
	}
	for i := range out {
		out[i].Tree = observe.Tree{State: observe.TreeUnknown}
		if n := len(out[i].Members); n > 0 {
			out[i].Tree = observe.Tree{State: observe.TreePopulated, Count: n}
		}
	}
	return out
}

// identifyAs identifies a process that was seen with a start time.
func (k *Kernel) identifyAs(pid int, start uint64) (state.Identity, bool) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return state.Identity{}, false
	}
	defer unix.Close(fd)
	id, err := k.Identify(pid, fd)
	return id, err == nil && id.StartTicks == start
}

// SignalFamily sends sig to every member of f, each verified (I3). Members that ended meanwhile are no error.
func (k *Kernel) SignalFamily(f Family, sig syscall.Signal) (sent int, err error) {
	var failed []error
	for _, m := range f.Members {
		p, err := k.Open(m.ID)
		if errors.Is(err, ErrGone) || errors.Is(err, ErrOtherProcess) || errors.Is(err, ErrOtherBoot) {
			continue
		}
		if err != nil {
			failed = append(failed, err)
			continue
		}
		err = p.Signal(sig)
		p.Close()
		switch {
		case err == nil:
			sent++
		case !errors.Is(err, ErrGone):
			failed = append(failed, err)
		}
	}
	return sent, errors.Join(failed...)
}

// allProcesses reads the stat of every process that we may see. Those that end meanwhile are left out.
func allProcesses() (map[int]stat, error) {
	names, err := readNames("/proc")
	if err != nil {
		return nil, err
	}
	procs := make(map[int]stat, len(names))
	for _, n := range names {
		pid, err := strconv.Atoi(n)
		if err != nil {
			continue
		}
		if s, err := readStat(pid); err == nil {
			procs[pid] = s
		}
	}
	return procs, nil
}

// holds looks whether a process has one of the files open.
func holds(pid int, wanted map[FileID]int) (int, bool) {
	dir := "/proc/" + strconv.Itoa(pid) + "/fd"
	names, err := readNames(dir)
	if err != nil {
		return 0, false
	}
	for _, n := range names {
		id, err := FileIDOf(dir + "/" + n)
		if err != nil {
			continue
		}
		if i, ok := wanted[id]; ok {
			return i, true
		}
	}
	return 0, false
}
