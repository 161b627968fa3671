package sim

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/keeper"
	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// kernel is a model of the operating system as keeper.Kernel describes it: processes with PIDs that are soon used again,
// zombies, orphans, cgroups, and a host that reaps orphans or does not. It judges each call by what is on the disk
// at that moment (I1, I2, I3, and the record before the reaping of I4).
type kernel struct {
	w      *world
	boot   string
	wall   time.Time
	uptime time.Duration

	procs   map[int]*proc // by PID, zombies included
	nextPID int
	inodes  uint64
	runIDs  int

	folders map[string]bool
	cgroups map[string]bool // true = killed: never to be used again
	logs    map[string]*runLog
	logged  map[spec.Scope]int64
	watched map[string]bool // run ids whose tree the living keeper watches
	heeded  map[string]bool // run ids whose log it watches

	// what kind of host this is
	hasCgroups bool
	reaps      bool // somebody reaps orphans, at once
	exitInfo   bool // a handle tells the end of a process that somebody else reaped

	news      []delivered // of lines, that nobody has told the keeper
	questions []*question
	wakes     map[spec.Scope]time.Duration

	execFails bool // the next workload cannot be executed
	refuses   bool // the next vetting fails
	vault     vault
}

// proc is a process of a run, or a stranger.
type proc struct {
	pid      int
	inode    uint64
	boot     string
	scope    spec.Scope
	run      string // run id, or that of a program; "" = a stranger
	owner    string // of a program: the run beside which it runs, "" = none
	cgroup   string
	main     bool         // of a run
	program  bool         // the main process of a program
	probe    spec.Purpose // whose program it is; "" = none's
	aside    bool         // forked by one
	child    bool         // of the living keeper
	staged   bool         // the stage: nothing of the workload ran
	released bool         // it got its byte
	dead     bool         // zombie or reaped
	reaped   bool
	status   uint32
	trueEnd  end
	onTerm   string // Exit0, Die, Ignore
	signals  []string
	secret   *vault // as it was when it was executed with it; nil = without
}

// end is the truth about the end of a main process, taken at the moment of its death.
type end struct {
	at     time.Time
	status uint32
	ailing spec.ExitReason // by the record at that moment, it was being ended for its probes; "" = it was not
	asked  bool            // by the record at that moment, a stop had been asked for and its first step journaled
	means  spec.ExitAction // what the rules in the record at that moment say of it
}

type runLog struct {
	printed time.Time // when the literal came
	drained bool
}

func newKernel(w *world) *kernel {
	return &kernel{
		w: w, boot: "boot-1", wall: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), uptime: time.Minute,
		procs: map[int]*proc{}, nextPID: 100, folders: map[string]bool{}, cgroups: map[string]bool{},
		logs: map[string]*runLog{}, logged: map[spec.Scope]int64{}, watched: map[string]bool{}, heeded: map[string]bool{},
		wakes: map[spec.Scope]time.Duration{},
	}
}

func (k *kernel) Now() state.Moment {
	return state.Moment{Wall: k.wall, BootID: k.boot, Uptime: k.uptime}
}

func (k *kernel) NewRunID() string {
	k.runIDs++
	return fmt.Sprintf("run%023d", k.runIDs)
}

func (k *kernel) Vet(l *spec.Launch, _ *keeper.Host) (keeper.Image, error) {
	k.w.point("vet")
	if k.refuses {
		k.refuses = false
		return nil, &keeper.Refused{Check: keeper.CheckExecutable, Detail: "the executable is missing"}
	}
	i, err := k.read(l)
	if err != nil {
		return nil, err
	}
	return i, nil
}

func (k *kernel) CgroupName(runID string) string {
	if !k.hasCgroups {
		return ""
	}
	return "reconciler/" + runID
}

func (k *kernel) MakeFolder(p keeper.Place, _ keeper.Image) error {
	k.w.point("make folder")
	if k.folders[p.RunID] {
		return errors.New("the folder is there already")
	}
	if p.Probe != "" {
		k.needAskable(p.Scope, k.ownerOf(p))
	} else if p.Program {
		k.needProgram("a folder was made", p)
	} else {
		k.needRecord("a folder was made", p.Scope, p.RunID)
		k.logs[p.RunID] = &runLog{}
	}
	k.folders[p.RunID] = true
	k.w.point("made folder")
	return nil
}

func (k *kernel) MakeCgroup(p keeper.Place) error {
	k.w.point("make cgroup")
	if _, there := k.cgroups[p.Cgroup]; there {
		return errors.New("the cgroup is there already")
	}
	k.cgroups[p.Cgroup] = false
	k.w.point("made cgroup")
	return nil
}

func (k *kernel) Remove(p keeper.Place) error {
	k.w.point("remove")
	if len(k.members(p)) > 0 && k.hasCgroups {
		return errors.New("the cgroup has processes")
	}
	delete(k.folders, p.RunID)
	maps.DeleteFunc(k.cgroups, func(name string, _ bool) bool { return p.Cgroup != "" && below(name, p.Cgroup) })
	delete(k.watched, p.RunID)
	k.w.point("removed")
	return nil
}

func (k *kernel) Folders() ([]string, error) { return slices.Sorted(maps.Keys(k.folders)), nil }

// populated counts the processes of a run, or of a program, that are not dead.
func (k *kernel) populated(id string) int {
	n := 0
	for _, p := range k.procs {
		if (p.run == id || p.owner == id) && !p.dead {
			n++
		}
	}
	return n
}

// members are the living of a place: with a cgroup those in it and below, else those that are known by their id.
func (k *kernel) members(p keeper.Place) []*proc {
	var all []*proc
	for _, pid := range slices.Sorted(maps.Keys(k.procs)) {
		if q := k.procs[pid]; !q.dead && (q.run == p.RunID || p.Cgroup != "" && below(q.cgroup, p.Cgroup)) {
			all = append(all, q)
		}
	}
	return all
}

// below reports whether a cgroup is another, or below it.
func below(name, of string) bool { return name == of || strings.HasPrefix(name, of+"/") }

// spawn makes a process with the next free PID: there are few, so that they come round soon.
func (k *kernel) spawn(p proc) *proc {
	for {
		k.nextPID++
		if k.nextPID > 160 {
			k.nextPID = 100
		}
		if k.procs[k.nextPID] == nil {
			break
		}
	}
	k.inodes++
	p.pid, p.inode, p.boot = k.nextPID, k.inodes, k.boot
	k.procs[p.pid] = &p
	return &p
}

func (k *kernel) Hold(r keeper.HoldRequest) (keeper.Held, error) {
	k.w.point("hold")
	if k.procs[k.nextPID] != nil && len(k.procs) > 55 {
		return nil, syscall.EAGAIN
	}
	if r.Place.Probe != "" {
		return k.holdProbe(r)
	}
	if r.Place.Program {
		return k.holdProgram(r)
	}
	k.needRecord("a stage was forked", r.Place.Scope, r.Place.RunID)
	if killed := k.cgroups[r.Place.Cgroup]; killed {
		k.w.failf("I2", "a stage was forked into a cgroup that had been killed")
	}
	p := k.spawn(proc{scope: r.Place.Scope, run: r.Place.RunID, cgroup: r.Place.Cgroup, main: true, child: true, staged: true, secret: r.Image.(image).secret})
	k.w.point("held")
	return &process{k: k, p: p}, nil
}

func (k *kernel) Open(place keeper.Place) (keeper.Process, error) {
	id := *place.Main
	if id.BootID != k.boot {
		return nil, keeper.ErrGone
	}
	p := k.procs[id.PID]
	if p == nil || p.inode != id.PidfdInode || p.reaped {
		return nil, keeper.ErrGone
	}
	return &process{k: k, p: p}, nil
}

func (k *kernel) Tree(p keeper.Place) (observe.Tree, error) {
	n := len(k.members(p))
	switch {
	case n > 0:
		return observe.Tree{State: observe.TreePopulated, Count: n}, nil
	case p.Cgroup == "":
		return observe.Tree{State: observe.TreeUnknown}, nil
	}
	return observe.Tree{State: observe.TreeEmpty}, nil
}

func (k *kernel) WatchTree(p keeper.Place) error {
	k.watched[p.RunID] = true
	return nil
}

func (k *kernel) SignalTree(p keeper.Place, name string) error {
	k.w.point("signal tree")
	k.needJournaled(p.Scope, p.RunID, name)
	for _, q := range k.members(p) {
		k.signal(q, name)
	}
	k.w.point("signalled tree")
	return nil
}

func (k *kernel) KillTree(p keeper.Place) error {
	k.w.point("kill tree")
	if p.Program && p.Probe == "" {
		k.needProgramsEnd(p)
	} else if !p.Program {
		k.needKill(p)
	}
	for _, q := range k.members(p) {
		k.die(q, uint32(syscall.SIGKILL))
	}
	for name := range k.cgroups {
		k.cgroups[name] = k.cgroups[name] || p.Cgroup != "" && below(name, p.Cgroup)
	}
	k.w.point("killed tree")
	return nil
}

func (k *kernel) family(runID string) []*proc {
	var all []*proc
	for _, pid := range slices.Sorted(maps.Keys(k.procs)) {
		if p := k.procs[pid]; (p.run == runID || p.owner == runID) && !p.dead {
			all = append(all, p)
		}
	}
	return all
}

func (k *kernel) Attach(p keeper.Place) error {
	k.w.point("attach")
	k.logged[p.Scope] = max(k.logged[p.Scope], p.Number)
	return nil
}

func (k *kernel) WatchLog(p keeper.Place, literals []string) error {
	k.w.point("watch log")
	k.heeded[p.RunID] = len(literals) > 0
	return nil
}

// LastLogged implements keeper.Kernel: logs stay when a scope is archived.
func (k *kernel) LastLogged(scope spec.Scope) int64 { return k.logged[scope] }

func (k *kernel) Drain(p keeper.Place) keeper.LogTotals {
	k.w.point("drain")
	if k.hasCgroups && k.populated(p.RunID) > 0 {
		k.w.failf("I6", "the run of %s was drained while its tree lives", p.Scope)
	}
	return keeper.LogTotals{Bytes: 1}
}

// signal delivers a signal to a process and lets it react, now or later.
func (k *kernel) signal(p *proc, name string) {
	p.signals = append(p.signals, name)
	if p.staged && !p.released {
		k.die(p, uint32(unix.SignalNum(name)))
		return
	}
	switch p.onTerm {
	case "Exit0":
		if k.w.choose(2) == 0 {
			k.die(p, 0)
		}
	case "Die":
		k.die(p, uint32(unix.SignalNum(name)))
	}
}

// die ends a process. Of a main process the truth about its end is taken from the record as it is now.
func (k *kernel) die(p *proc, status uint32) {
	if p.dead {
		return
	}
	p.dead, p.status = true, status
	if p.main && p.released {
		p.trueEnd = end{at: k.wall, status: status, asked: k.asked(p), means: k.means(p, status), ailing: k.ailing(p)}
		k.w.ended(p)
	}
	if !p.child && k.reaps {
		k.forget(p)
	}
	if p.program && p.released && p.probe == "" {
		k.w.programEnded(p)
	}
	if !p.main && !p.program && p.child {
		k.forget(p) // the keeper reaps strays as they come
	}
}

func (k *kernel) forget(p *proc) {
	p.reaped = true
	if k.procs[p.pid] == p {
		delete(k.procs, p.pid)
	}
}

// keeperDied is what the kernel does when the keeper is gone: its children are orphans, stages end at their gate.
func (k *kernel) keeperDied() {
	k.w.checkUnknown(k.news)
	k.news, k.questions = nil, nil
	clear(k.watched)
	clear(k.heeded)
	clear(k.wakes)
	for _, pid := range slices.Sorted(maps.Keys(k.procs)) {
		p := k.procs[pid]
		if !p.child {
			continue
		}
		p.child = false
		if p.staged && !p.released {
			k.die(p, 125<<8)
		}
		if p.dead && k.reaps && !p.reaped {
			k.forget(p)
		}
	}
}

// reboot ends every process and the boot.
func (k *kernel) reboot(n int) {
	for _, pid := range slices.Sorted(maps.Keys(k.procs)) {
		p := k.procs[pid]
		if !p.dead && p.main && p.released {
			p.dead = true
			p.trueEnd = end{at: k.wall, asked: k.asked(p), ailing: k.ailing(p)}
			k.w.ended(p)
		}
		p.dead, p.reaped = true, true
	}
	clear(k.procs)
	clear(k.watched)
	clear(k.heeded)
	clear(k.wakes)
	clear(k.cgroups)
	k.boot, k.uptime = fmt.Sprintf("boot-%d", n), time.Minute
}
