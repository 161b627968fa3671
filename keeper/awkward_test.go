package keeper_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// program is a command that runs faultd.
func (r *rig) program(name string, seconds int64, args ...string) spec.LaunchCommand {
	exec := &spec.LaunchExec{Workspace: "test", Executable: filepath.Base(r.binary), Args: append([]string{"faultd"}, args...)}
	return spec.LaunchCommand{Name: name, LaunchAction: spec.LaunchAction{Exec: exec}, Requires: spec.RequiresAny, TimeoutSeconds: seconds}
}

func (r *rig) doOrder(s spec.Scope, id, command string) state.DoOrder {
	return state.DoOrder{Scope: s, RunID: r.facts(s).Run.ID, ID: id, Command: command, By: "me"}
}

// do asks for a command and waits for its end.
func (r *rig) do(s spec.Scope, command string) state.Receipt {
	r.t.Helper()
	got, err := r.client.Do(r.t.Context(), r.doOrder(s, "do-"+command, command))
	if err != nil {
		r.t.Fatalf("%s: %v", command, err)
	}
	return got
}

// newHosts are a keeper with the cgroups of this host, one without, and one whom the kernel tells nothing of them.
var newHosts = map[string][]string{"as this host is": nil, "without cgroups": {"-no-cgroups"}, "without watches": {"-no-watches"}}

// A program that does what programs should not: it ends when its time is over at the latest, what it came to is told, all of its
// family is gone, and nothing of it is left.
func TestAwkwardPrograms(t *testing.T) {
	const deaf = "SIGTERM,SIGINT,SIGHUP"
	for name, flags := range newHosts {
		t.Run(name, func(t *testing.T) {
			r := newRigWithoutKeeper(t)
			r.startKeeper(flags...)
			r.connect()
			l := r.launch("town", "run")
			pids := filepath.Join(r.layout.State, "pids")
			broken := r.program("broken", 60)
			r.breakable(&l)
			broken.Exec.Workspace, broken.Exec.Executable = l.Workspace, l.Executable
			l.Workspace, l.Executable = "test", filepath.Base(r.binary)
			cases := []struct {
				command spec.LaunchCommand
				result  state.DeliveryResult
				reason  string
				detail  string
			}{
				{r.program("forks-and-leaves", 60, "spawn", "-n", "3", "-group", "session", "-exit-after", "1ms"), state.Done, "", ""},
				{r.program("forks-and-stays", 1, "spawn", "-n", "2", "-group", "own"), state.Failed, "TimedOut", "it took longer than 1 s, and was killed"},
				{r.program("ignores-signals", 1, "ignore-term"), state.Failed, "TimedOut", "it took longer than 1 s, and was killed"},
				{r.program("changes-session", 60, "daemonise", "-clearenv", "-ignore", deaf), state.Done, "", ""},
				{r.program("dies", 60, "crash", "-after", "0"), state.Failed, "Signaled", "it was ended by SIGSEGV"},
				{r.program("freezes", 1, "freeze", "-after", "0"), state.Failed, "TimedOut", "it took longer than 1 s, and was killed"},
				{r.program("multiplies", 1, "forkbomb", "-k", "32", "-ignore", deaf), state.Failed, "TimedOut", "it took longer than 1 s, and was killed"},
				{r.program("fails", 60, "exit", "-code", "77", "-stderr", "why it failed"), state.Failed, "Exited", "it ended with exit code 77"},
				{broken, state.Undeliverable, "StartFailed", "cannot execute the program: exec format error"},
			}
			for i := range cases {
				if c := &cases[i].command; c.Name != "broken" {
					c.Exec.Args = append(c.Exec.Args, "-pids", pids)
				}
				l.Commands = append(l.Commands, cases[i].command)
			}
			main := r.ready(l).Run
			for _, c := range cases {
				got := r.do(l.Scope, c.command.Name)
				if got.Detail == "it could not be executed" { // why is told as long as somebody waits for it
					got.Detail = c.detail
				}
				if got.Result != c.result || got.Reason != c.reason || got.Detail != c.detail {
					t.Errorf("%s: the receipt is %+v", c.command.Name, got)
				}
				if c.command.Name == "fails" && got.Reply != "why it failed\n" {
					t.Errorf("what it wrote is %q", got.Reply)
				}
				r.nothingLeft(l.Scope, c.command.Name, pids)
			}
			if f := r.facts(l.Scope); f.Run.ID != main.ID || f.Run.Alive != observe.Alive {
				t.Errorf("the run beside it is another, or not well: %+v", f.Run)
			}
		})
	}
}

// nothingLeft checks that no process, folder and cgroup is left of a command, or a probe, whose processes are listed in a file. What has ended
// is taken away once it is on record, a moment after it was told.
func (r *rig) nothingLeft(s spec.Scope, command, pids string) {
	r.t.Helper()
	listed, _ := os.ReadFile(pids)
	for _, text := range strings.Fields(string(listed)) {
		pid, err := strconv.Atoi(text)
		if err != nil {
			r.t.Fatal(err)
		}
		// Without cgroups a killed process is gone for the keeper once it has closed its files, a moment before it is a zombie.
		eventually(r.t, command+" leaves no process", func() bool { return !alive(pid) })
	}
	run := r.record(s).Run
	folders := func() (n int) {
		for _, dir := range []string{r.memory(), r.layout.Runs()} {
			names, _ := os.ReadDir(dir)
			n += len(names)
		}
		return n
	}
	eventually(r.t, command+" leaves no folder", func() bool { return folders() == 1 })
	if run.Cgroup == "" {
		return
	}
	for _, leaf := range []string{"cmd-*", "probe-*"} {
		leaves := filepath.Join(r.cgroupMount(), run.Cgroup, leaf)
		eventually(r.t, command+" leaves no cgroup", func() bool { found, _ := filepath.Glob(leaves); return len(found) == 0 })
	}
}

// cgroupMount is where cgroup2 is mounted.
func (r *rig) cgroupMount() string {
	r.t.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		r.t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if before, after, ok := strings.Cut(line, " - "); ok && strings.HasPrefix(after, "cgroup2 ") {
			return strings.Fields(before)[4]
		}
	}
	r.t.Fatal("runs have cgroups and cgroup2 is not mounted")
	return ""
}

// A flood does not block its program, however much there is: the end of it is kept.
func TestFloodingProgram(t *testing.T) {
	r := newRig(t)
	l := r.launch("town", "run")
	l.Commands = []spec.LaunchCommand{r.program("flood", 600, "flood", "-mbps", "0", "-for", "10m", "-lines", "200000")}
	r.ready(l)
	got := r.do(l.Scope, "flood")
	if got.Result != state.Done || !got.Cut || len(got.Reply) != state.OutputLimit || !strings.Contains(got.Reply, "flooded lines=200000 bytes=20000000 ") || !strings.Contains(got.Reply, "flood 000000199999 ") {
		t.Errorf("%d bytes of reply, cut %v: %+v", len(got.Reply), got.Cut, got)
	}
	if log := r.log(l.Scope); strings.Contains(log, "flood") {
		t.Error("what a command writes is in the log of the run")
	}
}

// A program runs as the server does: its user, directory and environment; in a session and a cgroup of its own; with nothing to
// read, and its arguments as they are (EC-4, EC-5).
func TestProgramIsAsItsServer(t *testing.T) {
	r := newRig(t)
	l := r.launch("town", "run")
	l.Env = []spec.LaunchEnv{{Name: "GREETING", Value: "hello"}}
	odd := "a  b; $(port) `id` 'c' \"d\" *"
	c := r.program("stay", 600, "run", "-note", odd)
	l.Commands = []spec.LaunchCommand{c}
	r.ready(l)
	answer := make(chan state.Receipt, 1)
	go func() {
		got, _ := r.client.Do(context.WithoutCancel(t.Context()), r.doOrder(l.Scope, "stay", "stay"))
		answer <- got
	}()
	f := r.await(l.Scope, "a command runs", func(f *observe.Facts) bool {
		return len(f.Deliveries) == 1 && f.Deliveries[0].Program != nil && !f.Deliveries[0].Program.StartedAt.IsZero()
	})
	main, pid := r.pid(l.Scope), f.Deliveries[0].Program.Identity.PID
	of := func(pid int, file string) string {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	link := func(pid int, file string) string {
		to, err := os.Readlink(fmt.Sprintf("/proc/%d/%s", pid, file))
		if err != nil {
			t.Fatal(err)
		}
		return to
	}
	if got, want := of(pid, "environ"), of(main, "environ"); got != want || !strings.Contains(got, "GREETING=hello") {
		t.Errorf("the environment is %q, that of the server %q", got, want)
	}
	if got, want := link(pid, "cwd"), link(main, "cwd"); got != want {
		t.Errorf("the directory is %s, that of the server %s", got, want)
	}
	if got := strings.Split(of(pid, "cmdline"), "\x00"); len(got) < 5 || got[4] != odd {
		t.Errorf("the arguments are %q", got)
	}
	if sid, err := unix.Getsid(pid); err != nil || sid != pid {
		t.Errorf("the session is %d, %v", sid, err)
	}
	if in, out, err := link(pid, "fd/0"), link(pid, "fd/1"), link(pid, "fd/2"); in != os.DevNull || out != err || !strings.HasSuffix(out, "/stdout") {
		t.Errorf("the descriptors are %s, %s and %s", in, out, err)
	}
	if run := r.record(l.Scope).Run; run.Cgroup != "" && !strings.HasSuffix(strings.TrimSpace(of(pid, "cgroup")), run.Cgroup+"/cmd-1") {
		t.Errorf("the cgroup is %s", of(pid, "cgroup"))
	}
	signalTo(t, pid, unix.SIGKILL)
	if got := <-answer; got.Result != state.Failed || got.Detail != "it was ended by SIGKILL" {
		t.Errorf("the receipt is %+v", got)
	}
}

// EC-6: what a program writes of its secrets is blotted out, also where it is cut; after a crash of the keeper nothing is kept.
func TestProgramDoesNotTellSecrets(t *testing.T) {
	r := newRig(t)
	r.writeSecret("town/rcon", canary+"\n", 0o600)
	l := r.launch("town", "run")
	c := r.program("tell", 60, "exit", "-stderr", "the password is "+spec.MarkSecret("town/rcon")+".")
	slow := r.program("slow", 600, "run", "-note", spec.MarkSecret("town/rcon"))
	l.Commands = []spec.LaunchCommand{c, slow}
	r.ready(l)
	if got := r.do(l.Scope, "tell"); got.Reply != "the password is [secret].\n" {
		t.Errorf("it is told %q", got.Reply)
	}
	go r.client.Do(context.WithoutCancel(t.Context()), r.doOrder(l.Scope, "slow", "slow"))
	running := func(f *observe.Facts) bool {
		return len(f.Deliveries) == 2 && f.Deliveries[1].Program.Identity != nil && !f.Deliveries[1].Program.StartedAt.IsZero()
	}
	pid := r.await(l.Scope, "it runs", running).Deliveries[1].Program.Identity.PID
	r.killKeeper()
	r.startKeeper()
	r.await(l.Scope, "it goes on", running)
	signalTo(t, pid, unix.SIGTERM)
	o := r.doOrder(l.Scope, "slow", "slow")
	o.Recall = true
	if got, err := r.client.Do(t.Context(), o); err != nil || got.Reply != "" {
		t.Errorf("it is told %q, %v", got.Reply, err)
	}
	if b, err := os.ReadFile(filepath.Join(r.layout.Keeper(), "records", l.Scope.ID()+".json")); err != nil || strings.Contains(string(b), canary) {
		t.Errorf("the record has the secret, or cannot be read: %v", err)
	}
}

// EN-6, I2: the keeper is killed at any moment of commands. Each is executed once at most, and what is told of it is true.
func TestKeeperKilledInCommands(t *testing.T) {
	for name, flags := range newHosts {
		t.Run(name, func(t *testing.T) {
			r := newRigWithoutKeeper(t)
			r.startKeeper(flags...)
			r.connect()
			l := r.launch("town", "run")
			trail := filepath.Join(r.layout.State, "trail")
			count := r.program("count", 60, "exit", "-pids", "")
			count.Parameters = []spec.Parameter{{Name: "to", MaxLength: ref[int64](4096)}}
			count.Exec.Args[3] = parameterMark("to")
			l.Commands = []spec.LaunchCommand{count}
			r.ready(l)
			kills := 20
			if testing.Short() {
				kills = 5
			}
			results := map[state.DeliveryResult]int{}
			for i := range kills {
				results[r.killInCommand(l.Scope, trail+strconv.Itoa(i), i, flags)]++
			}
			t.Logf("%v", results)
			r.nothingLeft(l.Scope, "count", trail)
			if pids := r.workloads(); !slices.Equal(pids, []int{r.pid(l.Scope)}) {
				t.Errorf("processes %v live", pids)
			}
		})
	}
}

func ref[T any](v T) *T { return &v }

// killInCommand asks for a command, kills the keeper a moment later, and returns what the next one says of it.
func (r *rig) killInCommand(s spec.Scope, trail string, i int, flags []string) state.DeliveryResult {
	r.t.Helper()
	o := r.doOrder(s, "count-"+strconv.Itoa(i), "count")
	o.Parameters = map[string]spec.IntOrString{"to": {IsString: true, String: trail}}
	asked := make(chan error, 1)
	go func() {
		_, err := r.client.Do(context.WithoutCancel(r.t.Context()), o)
		asked <- err
	}()
	pause(r.t, i)
	r.killKeeper()
	<-asked
	r.startKeeper(flags...)
	r.await(s, "adopted", func(f *observe.Facts) bool { return f.Run.Alive == observe.Alive })
	o.Recall = true
	got, err := r.client.Do(r.t.Context(), o)
	if err != nil {
		r.t.Fatal(err)
	}
	b, _ := os.ReadFile(trail)
	times := len(strings.Fields(string(b)))
	if times > 1 || times == 0 && (got.Result == state.Done || got.Result == state.Failed) || times == 1 && got.Result == state.Undeliverable || got.Result == "" {
		r.t.Errorf("kill %d: executed %d times, and told %+v", i, times, got)
	}
	if got.Program == nil && times > 0 {
		r.t.Errorf("kill %d: executed and not on record", i)
	}
	return got.Result
}

// parameterMark is how a launch marks where the value of a command's parameter goes.
func parameterMark(name string) string { return "\x01" + name + "\x01" }
