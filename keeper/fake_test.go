package keeper_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/keeper"
	"reconciler.dev/reconciler/keeper/terminal"
	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// crash is what a call panics with when the keeper is to die in it.
type crash struct{}

var errInjected = errors.New("injected")

// faults makes the keeper die, or a call fail, at a chosen point. Each call has a point before its effect and one after it.
type faults struct {
	points  int
	crashAt int    // the point at which the keeper dies; 0 = none
	failAt  int    // the call that fails
	failing string // the name of calls that fail
	calls   int
	names   []string // of calls
}

func (f *faults) point() {
	f.points++
	if f.points == f.crashAt {
		panic(crash{})
	}
}

// begin is the beginning of a call; an error means that it has no effect.
func (f *faults) begin(name string) error {
	f.point()
	f.calls++
	f.names = append(f.names, name)
	if f.calls == f.failAt || name == f.failing {
		return fmt.Errorf("%s: %w", name, errInjected)
	}
	return nil
}

// The workloads of the fake, by their first argument.
const (
	workRuns    = "runs"    // ends with code 0 on SIGTERM
	workIgnores = "ignores" // takes no notice of SIGTERM
	workExits   = "exits"   // ends at once with code 3
	workFamily  = "family"  // has a child that ignores everything but SIGKILL
	workBroken  = "broken"  // cannot be executed
	workTalks   = "talks"   // ends with code 0 on the line exit, and takes no notice of SIGTERM
	workStuck   = "stuck"   // the kernel does not end it, whatever it is sent
	workMissing = "missing" // Vet refuses it
	workLadder  = "ladder"  // ends with code 0 when a program of the kind quits is executed beside it, and takes no notice of SIGTERM

	// What only programs do.
	workDone   = "done"   // ends at once with code 0
	workLeaves = "leaves" // ends at once with code 0, and has a child that ignores everything but SIGKILL
	workQuits  = "quits"  // ends the main process of the run beside it, and itself with code 0
)

// fakeKernel is a host: processes, cgroups, folders, FIFOs and clocks.
type fakeKernel struct {
	faults
	noCgroups bool
	hidden    bool // no process can be verified
	initReaps bool // orphans are reaped at once, and nobody is told how they ended
	boot      int
	ids       int
	pids      int
	clock     time.Duration
	processes map[int]*fakeProcess
	cgroups   map[string]bool // value: it was killed
	folders   map[string]bool
	images    int               // open ones
	secrets   map[string]string // what they are, by reference
	attached  map[string]bool
	collected map[string]bool // programs that are read
	wakes     map[spec.Scope]time.Duration
	watched   map[string][]string
	delivered []func(*keeper.Core) // news of deliveries
	asked     map[string]*fakeQuestion
	onReap    func(*fakeProcess) // before the effect
	onExec    func(*fakeProcess)
	onDeliver func(keeper.Place, keeper.Delivery) // before the effect
	onType    func(keeper.Place)
}

func newFakeKernel() *fakeKernel {
	return &fakeKernel{
		boot: 1, pids: 100, processes: map[int]*fakeProcess{}, cgroups: map[string]bool{}, folders: map[string]bool{},
		asked: map[string]*fakeQuestion{}, secrets: map[string]string{}, attached: map[string]bool{}, collected: map[string]bool{}, wakes: map[spec.Scope]time.Duration{}, watched: map[string][]string{},
		onReap: func(*fakeProcess) {}, onExec: func(*fakeProcess) {}, onDeliver: func(keeper.Place, keeper.Delivery) {}, onType: func(keeper.Place) {},
	}
}

func (k *fakeKernel) Now() state.Moment {
	k.clock += time.Millisecond
	return state.Moment{
		Wall: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(k.clock), BootID: fmt.Sprint("boot-", k.boot), Uptime: k.clock,
	}
}

func (k *fakeKernel) NewRunID() string {
	k.ids++
	return fmt.Sprintf("run%023d", k.ids)
}

type fakeImage struct {
	k       *fakeKernel
	secrets map[string]string // by reference
	closed  bool
}

func (i *fakeImage) Undo() { i.k.point() }

func (k *fakeKernel) MakeShadow(keeper.Place, *spec.Launch, *keeper.Host, keeper.Image) error {
	if err := k.begin("MakeShadow"); err != nil {
		return err
	}
	k.point()
	return nil
}

func (i *fakeImage) WriteFiles() error {
	if err := i.k.begin("WriteFiles"); err != nil {
		return err
	}
	i.k.point()
	return nil
}
func (i *fakeImage) Close() {
	if !i.closed {
		i.closed = true
		i.k.images--
	}
}

func (k *fakeKernel) Vet(l *spec.Launch, _ *keeper.Host) (keeper.Image, error) {
	if err := k.begin("Vet"); err != nil {
		return nil, err
	}
	if l.Args[0] == workMissing {
		return nil, &keeper.Refused{Check: keeper.CheckExecutable, Detail: "missing"}
	}
	secrets, err := k.read(l)
	if err != nil {
		return nil, err
	}
	k.images++
	return &fakeImage{k: k, secrets: secrets}, nil
}

// read are the secrets that a launch's environment refers to.
func (k *fakeKernel) read(l *spec.Launch) (map[string]string, error) {
	secrets := map[string]string{}
	var missing error
	for _, e := range l.Env {
		spec.CutSecrets(e.Value, func(string) {}, func(ref string) {
			v, ok := k.secrets[ref]
			if !ok {
				missing = &keeper.Refused{Check: keeper.CheckSecret, Detail: "secret " + ref + ": there is no such file"}
			}
			secrets[ref] = v
		})
	}
	return secrets, missing
}

func (k *fakeKernel) Prints(l *spec.Launch, _ *keeper.Host, id string) ([]state.SecretPrint, error) {
	k.point()
	secrets, err := k.read(l)
	return fakePrints(secrets, id), err
}

func (i *fakeImage) Prints(id string) []state.SecretPrint { return fakePrints(i.secrets, id) }

func fakePrints(secrets map[string]string, id string) []state.SecretPrint {
	var all []state.SecretPrint
	for _, ref := range slices.Sorted(maps.Keys(secrets)) {
		all = append(all, state.SecretPrint{Ref: ref, Print: id + "/" + secrets[ref]})
	}
	return all
}

func (k *fakeKernel) CgroupName(id string) string {
	if k.noCgroups {
		return ""
	}
	return "reconciler/" + id
}

func (k *fakeKernel) MakeFolder(p keeper.Place, _ keeper.Image) error {
	if err := k.begin("MakeFolder"); err != nil {
		return err
	}
	if k.folders[p.RunID] {
		return errors.New("the folder is there")
	}
	k.folders[p.RunID] = true
	k.point()
	return nil
}

func (k *fakeKernel) MakeCgroup(p keeper.Place) error {
	if err := k.begin("MakeCgroup"); err != nil {
		return err
	}
	if _, ok := k.cgroups[p.Cgroup]; ok {
		return errors.New("the cgroup is there")
	}
	k.cgroups[p.Cgroup] = false
	k.point()
	return nil
}

func (k *fakeKernel) Remove(p keeper.Place) error {
	if err := k.begin("Remove"); err != nil {
		return err
	}
	if len(k.family(p)) > 0 {
		return errors.New("the cgroup has processes")
	}
	maps.DeleteFunc(k.cgroups, func(name string, _ bool) bool { return p.Cgroup != "" && below(name, p.Cgroup) })
	k.point()
	delete(k.folders, p.RunID)
	delete(k.attached, p.RunID)
	k.point()
	return nil
}

func (k *fakeKernel) Folders() ([]string, error) { return slices.Sorted(maps.Keys(k.folders)), nil }

func (k *fakeKernel) Hold(r keeper.HoldRequest) (keeper.Held, error) {
	if err := k.begin("Hold"); err != nil {
		return nil, err
	}
	if killed, ok := k.cgroups[r.Place.Cgroup]; r.Place.Cgroup != "" && (!ok || killed) {
		return nil, errors.New("the cgroup is not fresh")
	}
	if !k.folders[r.Place.RunID] {
		return nil, errors.New("there are no FIFOs")
	}
	p := k.fork(r.Place, r.Launch.Args[0])
	p.held, p.staged = true, true
	k.point()
	return &fakeHandle{k, p}, nil
}

func (k *fakeKernel) fork(place keeper.Place, kind string) *fakeProcess {
	k.pids++
	p := &fakeProcess{
		id:  state.Identity{BootID: k.Now().BootID, PID: k.pids, PidfdInode: uint64(k.pids) + 1000, StartTicks: uint64(k.pids)},
		run: place.RunID, cgroup: place.Cgroup, kind: kind, scope: place.Scope, ours: true, program: place.Program, probe: place.Probe,
	}
	k.processes[k.pids] = p
	return p
}

func (k *fakeKernel) Open(place keeper.Place) (keeper.Process, error) {
	if err := k.begin("Open"); err != nil || k.hidden {
		return nil, errors.Join(keeper.ErrUnverified, err)
	}
	p := k.processes[place.Main.PID]
	if p == nil || p.id != *place.Main || p.reaped {
		return nil, keeper.ErrGone
	}
	return &fakeHandle{k, p}, nil
}

// family are the living of a run, those of its programs too where there are cgroups, or of a program.
func (k *fakeKernel) family(p keeper.Place) []*fakeProcess {
	var all []*fakeProcess
	for _, pid := range slices.Sorted(maps.Keys(k.processes)) {
		if x := k.processes[pid]; x.status == nil && (x.run == p.RunID || p.Cgroup != "" && below(x.cgroup, p.Cgroup)) {
			all = append(all, x)
		}
	}
	return all
}

// below reports whether a cgroup is another, or below it.
func below(name, of string) bool { return name == of || strings.HasPrefix(name, of+"/") }

func (k *fakeKernel) Tree(p keeper.Place) (observe.Tree, error) {
	if err := k.begin("Tree"); err != nil {
		return observe.Tree{State: observe.TreeUnknown}, err
	}
	switch n := len(k.family(p)); {
	case n > 0:
		return observe.Tree{State: observe.TreePopulated, Count: n}, nil
	case p.Cgroup == "":
		return observe.Tree{State: observe.TreeUnknown}, nil
	}
	return observe.Tree{State: observe.TreeEmpty}, nil
}

func (k *fakeKernel) WatchTree(keeper.Place) error { return k.begin("WatchTree") }

func (k *fakeKernel) SignalTree(p keeper.Place, sig string) error {
	if err := k.begin("SignalTree"); err != nil {
		return err
	}
	for _, x := range k.family(p) {
		k.signal(x, sig)
	}
	k.point()
	return nil
}

func (k *fakeKernel) KillTree(p keeper.Place) error {
	if err := k.begin("KillTree"); err != nil {
		return err
	}
	for name := range k.cgroups {
		k.cgroups[name] = k.cgroups[name] || p.Cgroup != "" && below(name, p.Cgroup)
	}
	for _, x := range k.family(p) {
		k.signal(x, "SIGKILL")
	}
	k.point()
	return nil
}

// fakeQuestion is one to a run that nobody has answered yet.
type fakeQuestion struct {
	keeper.Probing
	told func(observe.Probed)
}

// Probe keeps a question until it is answered or ended, by the run and what it is for.
func (k *fakeKernel) Probe(p keeper.Place, q keeper.Probing, told func(observe.Probed)) {
	k.point()
	key := p.RunID + "/" + string(q.For)
	if k.asked[key] != nil {
		told(observe.NotRun("it is being asked"))
		return
	}
	k.asked[key] = &fakeQuestion{q, told}
}

func (k *fakeKernel) EndProbes(p keeper.Place) {
	k.point()
	for key, q := range k.asked {
		if strings.HasPrefix(key, p.RunID+"/") {
			delete(k.asked, key)
			q.told(observe.NotRun("it ends"))
		}
	}
}

// Deliver hands a line over at once; that is told when somebody asks (see [fakeKernel.tell]).
func (k *fakeKernel) Deliver(p keeper.Place, d keeper.Delivery) {
	k.point()
	k.onDeliver(p, d)
	o := keeper.Outcome{Result: state.Undeliverable, Reason: "NotListening"}
	if x := k.processes[p.Main.PID]; x.status == nil {
		line := d.Line
		if d.HTTP != nil {
			line = strings.TrimPrefix(d.HTTP.Path, "/")
		}
		x.lines = append(x.lines, line)
		switch {
		case d.HTTP != nil:
			o = keeper.Outcome{Result: state.Done}
		case d.Expect == "":
			o = keeper.Outcome{Result: state.Sent}
		case d.Line == "save":
			o = keeper.Outcome{Result: state.Done}
		default:
			o = keeper.Outcome{Result: state.Failed, Reason: "NotSeen"}
		}
		o.Mute = x.mute
		if line == "exit" && x.kind == workTalks {
			k.end(x, 0)
		}
	}
	k.delivered = append(k.delivered, func(c *keeper.Core) { c.HandleDelivered(p.Scope, d.Ref, o) })
	k.point()
}

// Redact knows each secret that the launch's environment names.
func (k *fakeKernel) Redact(run *state.Run, _ *keeper.Host, text string) (string, error) {
	secrets, err := k.read(&run.Launch)
	if err == nil && !slices.Equal(fakePrints(secrets, run.ID), run.Secrets) {
		err = errors.New("the secrets have changed")
	}
	for _, v := range secrets {
		text = strings.ReplaceAll(text, v, "[secret]")
	}
	return text, err
}

func (k *fakeKernel) Echoes(p keeper.Place) bool { return !k.processes[p.Main.PID].mute }

// Type has the run read what there is room for.
func (k *fakeKernel) Type(p keeper.Place, keys []byte) (int, error) {
	k.point()
	k.onType(p)
	x := k.processes[p.Main.PID]
	if x.status != nil {
		return 0, terminal.ErrGone
	}
	n := len(keys)
	if x.room > 0 {
		n = min(n, max(0, x.room-len(x.typed)))
	}
	x.typed = append(x.typed, keys[:n]...)
	k.point()
	return n, nil
}

func (k *fakeKernel) Resize(p keeper.Place, size spec.LaunchTTY, redraw bool) error {
	k.point()
	x := k.processes[p.Main.PID]
	if x.status != nil {
		return terminal.ErrGone
	}
	if redraw {
		x.sizes = append(x.sizes, spec.LaunchTTY{})
	}
	x.sizes = append(x.sizes, size)
	k.point()
	return nil
}

// tell brings the news of deliveries to the core.
func (k *fakeKernel) tell(c *keeper.Core) {
	news := k.delivered
	k.delivered = nil
	for _, f := range news {
		f(c)
	}
}

func (k *fakeKernel) Collect(p keeper.Place, _ *spec.Launch) error {
	if err := k.begin("Collect"); err != nil {
		return err
	}
	if !k.folders[p.RunID] {
		return errors.New("there is no FIFO")
	}
	k.collected[p.RunID] = true
	return nil
}

func (k *fakeKernel) Collected(p keeper.Place) ([]byte, bool) {
	if !k.collected[p.RunID] {
		return nil, false
	}
	delete(k.collected, p.RunID)
	return []byte("\x1b[1mout\xff\n"), true
}

func (k *fakeKernel) WakeAt(scope spec.Scope, at time.Duration) {
	if old, ok := k.wakes[scope]; !ok || at < old {
		k.wakes[scope] = at
	}
}

func (k *fakeKernel) Attach(p keeper.Place) error {
	if err := k.begin("Attach"); err != nil {
		return err
	}
	if !k.folders[p.RunID] {
		return errors.New("there are no FIFOs")
	}
	k.attached[p.RunID] = true
	return nil
}

func (k *fakeKernel) WatchLog(p keeper.Place, literals []string) error {
	k.watched[p.RunID] = literals
	return k.begin("WatchLog")
}

func (k *fakeKernel) LastLogged(spec.Scope) int64 { return 0 }

func (k *fakeKernel) Drain(p keeper.Place) keeper.LogTotals {
	delete(k.attached, p.RunID)
	return keeper.LogTotals{Bytes: 10, DroppedLines: 1}
}

// signal is what a process does on a signal.
func (k *fakeKernel) signal(p *fakeProcess, sig string) {
	p.signals = append(p.signals, sig)
	switch {
	case p.status != nil, p.kind == workStuck:
	case sig == "SIGKILL":
		k.end(p, uint32(unix.SIGKILL))
	case sig == "SIGTERM" && (p.kind == workRuns || p.kind == workFamily):
		k.end(p, 0)
	}
}

func (k *fakeKernel) end(p *fakeProcess, status uint32) {
	p.status = &status
	if !p.ours && k.initReaps {
		p.reaped = true
	}
}

// die is the keeper's death: gates close, children become orphans.
func (k *fakeKernel) die() {
	k.images, k.delivered = 0, nil
	clear(k.attached)
	clear(k.collected)
	for _, p := range k.processes {
		p.ours = false
		if p.held {
			p.held = false
			k.end(p, 125<<8)
		}
		if p.status != nil && k.initReaps {
			p.reaped = true
		}
	}
}

// reboot ends everything.
func (k *fakeKernel) reboot() {
	k.boot++
	clear(k.processes)
	clear(k.cgroups)
}
