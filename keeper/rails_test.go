package keeper_test

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// rails are the consoles over the network: faultd's behaviour, the rail, and what carries it.
var rails = []struct{ behaviour, rail, protocol string }{
	{"rcon", spec.ConsoleRCON, spec.ProtocolTCP},
	{"quakercon", spec.ConsoleQuakeRCON, spec.ProtocolUDP},
	{"webrcon", spec.ConsoleWebRCON, spec.ProtocolTCP},
	{"telnet", spec.ConsoleTelnet, spec.ProtocolTCP},
	{"rest", "", spec.ProtocolTCP},
}

// freePort is a port that nobody has, or gets before whom it is for: of those that Linux gives to nobody who does not ask for them, none
// that the tests of the program take, which may run at the same time, and none that was told before.
func freePort(t testing.TB) int {
	t.Helper()
	const lowest, ports = 20_000, 12_000 // the program's tests have those below
	for range ports {
		port := lowest + rand.IntN(ports)
		if _, again := portsTold.LoadOrStore(port, true); again {
			continue
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		l.Close()
		c, err := net.ListenPacket("udp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		c.Close()
		return port
	}
	t.Fatal("no port is free")
	return 0
}

// portsTold are the ports that freePort has returned, or found to be somebody's.
var portsTold sync.Map

// remote is a launch of a workload with a console over the network, whose password is the canary.
func (r *rig) remote(name, behaviour string, args ...string) spec.Launch {
	r.t.Helper()
	i := slices.IndexFunc(rails, func(x struct{ behaviour, rail, protocol string }) bool { return x.behaviour == behaviour })
	rail := rails[i]
	r.writeSecret("town/password", canary+"\n", 0o600)
	port := freePort(r.t)
	l := r.launch(name, append([]string{behaviour, "-addr", fmt.Sprintf("127.0.0.1:%d", port), "-password-env", "PASSWORD"}, args...)...)
	l.Env = []spec.LaunchEnv{{Name: "PASSWORD", Value: spec.MarkSecret("town/password")}}
	l.Readiness.Log = []string{behaviour + " listening"}
	l.Endpoints = []spec.LaunchEndpoint{{Name: "door", Port: port, Protocol: rail.protocol}}
	if rail.rail != "" {
		l.Console = &spec.LaunchConsole{Input: rail.rail, Endpoint: "door", Password: spec.MarkSecret("town/password")}
	}
	return l
}

// EC-6: a secret that somebody sends by hand is on no disk, whether it is in the environment or a console's password; where it is another by
// now than the server has, nothing of the line is.
func TestSecretInALine(t *testing.T) {
	r := newRig(t)
	r.writeSecret("town/password", canary+"\n", 0o600)
	l := r.launch("town", "run")
	l.Env = []spec.LaunchEnv{{Name: "PASSWORD", Value: spec.MarkSecret("town/password")}}
	l.Console = &spec.LaunchConsole{Input: spec.ConsoleMailbox} // nobody fetches what is in it, and nobody prints it
	run := r.ready(l).Run
	r.send(l, run, "a", "login "+canary+" now")
	r.writeSecret("town/password", "another\n", 0o600)
	r.send(l, run, "b", "login "+canary)
	if got, want := r.written(l.Scope), []string{"me: login [secret] now", fmt.Sprintf("me: <%d bytes not shown>", len("login "+canary))}; !slices.Equal(got, want) {
		t.Errorf("on record are %q, want %q", got, want)
	}
	r.writeSecret("town/password", canary+"\n", 0o600)
	r.stop(l.Scope)
	r.awaitOver(l.Scope)
	eventually(t, "it is archived", func() bool { return r.client.Archive(t.Context(), state.ScopeOrder{Scope: l.Scope}) == nil })
	if got := r.written(l.Scope); len(got) != 2 {
		t.Errorf("of the removed server on record are %q", got)
	}
	r.noCanary()
}

// request is a line to the workload that speaks HTTP.
func request(line string) *spec.HTTPAction {
	return &spec.HTTPAction{Endpoint: "door", Scheme: spec.SchemeHTTP, Method: "POST", Path: "/say", Body: line, BasicAuth: &spec.HTTPBasicAuth{Username: "admin", Password: spec.MarkSecret("town/password")}}
}

// noCanary checks that no secret is on disk but in its file, nor in what was told.
func (r *rig) noCanary(told ...string) {
	r.t.Helper()
	for _, text := range told {
		if strings.Contains(text, canary) {
			r.t.Errorf("a secret is told: %q", text)
		}
	}
	err := filepath.WalkDir(r.layout.State, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || strings.HasPrefix(path, r.layout.Secrets()) {
			return nil // it may be gone by now
		}
		if b, err := os.ReadFile(path); err == nil && strings.Contains(string(b), canary) {
			r.t.Errorf("a secret is on disk, in %s", path)
		}
		return nil
	})
	if err != nil {
		r.t.Error(err)
	}
}

// answered sends a line until there is an answer to it, and tells how often that was. An answer is awaited for a second where nothing is
// expected, in which a workload may not get to run on a busy host.
func (r *rig) answered(l spec.Launch, run *observe.RunFacts, line string) (got state.Receipt, times int) {
	r.t.Helper()
	for times < 20 && got.Reply == "" {
		got = r.send(l, run, fmt.Sprint(line, times), line)
		times++
	}
	return got, times
}

// EN-6: a line reaches the server once over each rail, the answer is shown, and nothing tells the password.
func TestRails(t *testing.T) {
	r := newRig(t)
	var told []string
	for _, rail := range rails[:4] {
		t.Run(rail.rail, func(t *testing.T) {
			l := r.remote("town-"+rail.behaviour, rail.behaviour)
			run := r.ready(l).Run
			sent := 0
			for _, line := range []string{"one", "two"} {
				got, times := r.answered(l, run, line)
				sent += times
				if got.Result != state.Sent || got.Rail != rail.rail || !strings.Contains(got.Reply, "you said "+line) || got.Detail != "" {
					t.Errorf("the receipt is %+v", got)
				}
				told = append(told, fmt.Sprint(got))
			}
			eventually(t, "the lines arrive", func() bool { return strings.Count(r.log(l.Scope), "was told") >= sent })
			if n := strings.Count(r.log(l.Scope), "was told"); n != sent {
				t.Errorf("%d lines of %d arrived", n, sent)
			}
			r.noCanary(told...)
		})
	}
}

// What a server makes of a line that is not answered as it should be.
func TestRailFaults(t *testing.T) {
	r := newRig(t)
	for _, c := range []struct {
		behaviour, mode string
		result          state.DeliveryResult
		reason          string
	}{
		{"rcon", "lockout", state.Undeliverable, ""},
		{"telnet", "lockout", state.Undeliverable, ""},
		{"webrcon", "lockout", state.Undeliverable, ""},
		{"rcon", "garbage", state.Undeliverable, "Protocol"},
		{"webrcon", "garbage", state.Undeliverable, "Protocol"},
		{"telnet", "silent", state.Undeliverable, "NoAnswer"},
		{"quakercon", "silent", state.Sent, ""},
		{"rcon", "mute", state.Sent, ""},
		{"rcon", "hang-up", state.Sent, ""},
		{"telnet", "hang-up", state.Sent, ""},
		{"webrcon", "hang-up", state.Sent, ""},
		{"rcon", "huge", state.Sent, ""},
		{"telnet", "huge", state.Sent, ""},
		{"quakercon", "huge", state.Sent, ""},
	} {
		t.Run(c.behaviour+" "+c.mode, func(t *testing.T) {
			l := r.remote(c.behaviour+"-"+c.mode, c.behaviour, "-mode", c.mode)
			got := r.send(l, r.ready(l).Run, "a", "status")
			if got.Result != c.result || got.Reason != c.reason && (c.reason != "" || c.result == state.Sent) || len(got.Reply) > 4096 {
				t.Errorf("the receipt is %+v", got)
			}
			if c.mode == "lockout" && got.Reason != "Closed" && got.Reason != "Rejected" {
				t.Errorf("who ends every connection is said to be %q: %s", got.Reason, got.Detail)
			}
			if (got.Reason == "") != (got.Detail == "") {
				t.Errorf("reason %q and detail %q do not go together", got.Reason, got.Detail)
			}
			r.noCanary(fmt.Sprint(got))
		})
	}
}

// A secret that is missing or wrong hands nothing over, and says what to do.
func TestRailPasswords(t *testing.T) {
	r := newRig(t)
	for _, rail := range rails[:4] {
		l := r.remote("town-"+rail.behaviour, rail.behaviour)
		run := r.ready(l).Run
		r.writeSecret("town/password", "wrong-"+canary[:4], 0o600)
		if got := r.send(l, run, "a", "status"); got.Result != state.Undeliverable || got.Reason != "Rejected" {
			t.Errorf("%s: with a wrong password: %+v", rail.rail, got)
		}
		r.writeSecret("town/password", canary, 0o644)
		if got := r.send(l, run, "b", "status"); got.Result != state.Undeliverable || got.Reason != "BadPassword" || !strings.Contains(got.Detail, "mode 0644") {
			t.Errorf("%s: with a secret that others read: %+v", rail.rail, got)
		}
		r.writeSecret("town/password", canary, 0o600)
		if got := r.send(l, run, "c", "status"); got.Result != state.Sent {
			t.Errorf("%s: with the right one again: %+v", rail.rail, got)
		}
		r.awaitLog(l.Scope, "was told")
		if n := strings.Count(r.log(l.Scope), "was told"); n != 1 {
			t.Errorf("%s: %d lines arrived", rail.rail, n)
		}
	}
}

// EC-11, EN-3: a stranger that listens on a server's endpoint gets not one byte, and the delivery says why.
func TestStrangerOnAnEndpoint(t *testing.T) {
	t.Run("with cgroups, where there are some", func(t *testing.T) { strangers(t, newRig(t)) })
	t.Run("without cgroups", func(t *testing.T) {
		r := newRigWithoutKeeper(t)
		r.startKeeper("-no-cgroups")
		r.connect()
		strangers(t, r)
		for _, rail := range rails[:4] {
			l := r.remote("own-"+rail.behaviour, rail.behaviour)
			if got := r.send(l, r.ready(l).Run, "a", "status"); got.Result != state.Sent {
				t.Errorf("%s: with the server itself there: %+v", rail.rail, got)
			}
		}
	})
}

func strangers(t *testing.T, r *rig) {
	for _, rail := range rails {
		l := r.remote("town-"+rail.behaviour, rail.behaviour)
		l.Args = []string{"faultd", "run"} // it has lost its port, or never opened it
		l.Readiness.Log = []string{"ready"}
		l.Stop = []spec.StopStep{{Signal: &spec.SignalAction{Name: "SIGTERM", To: spec.ToMain}, WaitFor: spec.WaitForExit, WaitSeconds: 30}}
		if rail.rail == "" {
			l.Stop[0] = spec.StopStep{HTTP: request("status"), WaitFor: spec.WaitForExit, WaitSeconds: 30}
		}
		run := r.ready(l).Run
		nobody := r.deliver(l, run, "a", "status")
		if nobody.Result != state.Undeliverable || nobody.Reason != "NotListening" {
			t.Errorf("%s: with nobody there: %+v", rail.behaviour, nobody)
		}
		if rail.rail == "" {
			l.Scope, l.Directory.Path = scopeOf("town-again"), "town-again"
			run = r.ready(l).Run
		}
		read := eavesdrop(t, rail.protocol, l.Endpoints[0].Port)
		got := r.deliver(l, run, "b", "status")
		if got.Result != state.Undeliverable || got.Reason != "Stranger" {
			t.Errorf("%s: with a stranger there: %+v", rail.behaviour, got)
		}
		if rail.rail != "" && !strings.Contains(got.Detail, "another process than the server's own listens on endpoint door: nothing was sent") {
			t.Errorf("%s: it says %q", rail.behaviour, got.Detail)
		}
		if b := read(); b != "" {
			t.Errorf("%s: the stranger was sent %q", rail.behaviour, b)
		}
	}
}

// deliver sends a line, by the ladder's first step where there is no console.
func (r *rig) deliver(l spec.Launch, run *observe.RunFacts, id, line string) state.Receipt {
	r.t.Helper()
	if l.Console != nil {
		return r.send(l, run, id, line)
	}
	e := r.stepOf(l, run, 0)
	return state.Receipt{Delivery: state.Delivery{Result: e.Result, Reason: e.Reason}}
}

// stepOf takes a step of the ladder and waits until it is known what came of it.
func (r *rig) stepOf(l spec.Launch, run *observe.RunFacts, index int) (e state.StepEntry) {
	r.t.Helper()
	if err := r.client.Stop(r.t.Context(), state.StopOrder{Scope: l.Scope, RunID: run.ID, Reason: spec.ReasonStopRequested, Why: "Hold"}); err != nil {
		r.t.Fatal(err)
	}
	if err := r.client.Step(r.t.Context(), state.StepOrder{Scope: l.Scope, RunID: run.ID, Index: index}); err != nil {
		r.t.Fatal(err)
	}
	r.await(l.Scope, fmt.Sprintf("told of step %d", index), func(f *observe.Facts) bool {
		if f.Run.Stop == nil {
			return false // news is on its way
		}
		i := slices.IndexFunc(f.Run.Stop.Steps, func(e state.StepEntry) bool { return e.Index == index && e.Result != "" })
		if i >= 0 {
			e = f.Run.Stop.Steps[i]
		}
		return i >= 0
	})
	return e
}

// eavesdrop takes a port, and tells what the first client had sent by the time that it was left alone.
func eavesdrop(t *testing.T, protocol string, port int) func() string {
	t.Helper()
	address := fmt.Sprintf("127.0.0.1:%d", port)
	if protocol == spec.ProtocolUDP {
		c, err := net.ListenPacket("udp", address)
		if err != nil {
			t.Fatal(err)
		}
		return func() string {
			defer c.Close()
			mark, err := net.Dial("udp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer mark.Close()
			fmt.Fprint(mark, "mark")
			b := make([]byte, 1000)
			n, _, err := c.ReadFrom(b) // on loopback datagrams keep their order
			if err != nil {
				t.Fatal(err)
			}
			return strings.TrimSuffix(string(b[:n]), "mark")
		}
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return func() string {
		defer l.Close()
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		b := make([]byte, 1000)
		n, _ := c.Read(b) // the end is meant
		return string(b[:n])
	}
}

// A ladder of requests and lines: what is answered goes on, what ends it is the run's expected end.
func TestLadderOverRails(t *testing.T) {
	r := newRig(t)
	for _, rail := range rails {
		t.Run(rail.behaviour, func(t *testing.T) {
			l := r.remote("town-"+rail.behaviour, rail.behaviour, "-code", "3")
			l.Stop = []spec.StopStep{
				{Console: &spec.ConsoleAction{Line: "save", Expect: "you said save"}, WaitFor: spec.WaitForDone, WaitSeconds: 60},
				{Console: &spec.ConsoleAction{Line: "stop"}, WaitFor: spec.WaitForExit, WaitSeconds: 60},
			}
			if rail.rail == "" {
				l.Stop = []spec.StopStep{
					{HTTP: request("save"), WaitFor: spec.WaitForDone, WaitSeconds: 60},
					{HTTP: request("stop"), WaitFor: spec.WaitForExit, WaitSeconds: 60},
				}
			}
			run := r.ready(l).Run
			if e := r.stepOf(l, run, 0); e.Result != state.Done {
				t.Errorf("the first step came to %+v", e)
			}
			if e := r.stepOf(l, run, 1); e.Result != state.Done && e.Result != state.Sent {
				t.Errorf("the second step came to %+v", e)
			}
			e := r.awaitOver(l.Scope)
			if e.Class != spec.Expected || e.ExitCode == nil || *e.ExitCode != 3 || e.StopStep == nil || *e.StopStep != 2 || e.Killed {
				t.Errorf("the end is %+v", e)
			}
			r.noCanary()
		})
	}
}

// A step whose request is refused, or whose text does not come, has failed.
func TestFailedSteps(t *testing.T) {
	r := newRig(t)
	l := r.remote("rest", "rest")
	refused := request("save")
	refused.BasicAuth.Password = "wrong"
	l.Stop = []spec.StopStep{{HTTP: refused, WaitFor: spec.WaitForExit, WaitSeconds: 60}}
	if e := r.stepOf(l, r.ready(l).Run, 0); e.Result != state.Failed || e.Reason != "BadStatus" {
		t.Errorf("a request that is not authorised came to %+v", e)
	}
	l = r.remote("rcon", "rcon")
	l.Stop = []spec.StopStep{{Console: &spec.ConsoleAction{Line: "save", Expect: "never said"}, WaitFor: spec.WaitForExit, WaitSeconds: 5}} // in which it must get to answer
	if e := r.stepOf(l, r.ready(l).Run, 0); e.Result != state.Failed || e.Reason != "NotSeen" {
		t.Errorf("a line that is answered with another text came to %+v", e)
	}
}

// EN-6: a keeper that dies while a line or a request is on its way leaves it Indeterminate, and nobody sends it again.
func TestDyingOnARail(t *testing.T) {
	r := newRig(t)
	for _, rail := range rails {
		t.Run(rail.behaviour, func(t *testing.T) {
			l := r.remote("town-"+rail.behaviour, rail.behaviour, "-mode", "mute")
			step := spec.StopStep{Console: &spec.ConsoleAction{Line: "save", Expect: "saved"}, WaitFor: spec.WaitForExit, WaitSeconds: 3600}
			if rail.rail == "" {
				step.Console, step.HTTP = nil, request("save")
			}
			l.Stop = []spec.StopStep{step, {Signal: &spec.SignalAction{Name: "SIGTERM", To: spec.ToMain}, WaitFor: spec.WaitForExit, WaitSeconds: 60}}
			run := r.ready(l).Run
			r.stop(l.Scope)
			told := fmt.Sprintf("%s was told %q", rail.behaviour, "save")
			r.awaitLog(l.Scope, told)
			r.nextKeeper()
			if e := r.stepOf(l, run, 0); e.Result != state.Indeterminate {
				t.Errorf("the step came to %+v", e)
			}
			if e := r.stepOf(l, run, 1); e.Result != state.Sent {
				t.Errorf("the next step came to %+v", e)
			}
			r.awaitOver(l.Scope)
			if n := strings.Count(r.log(l.Scope), told); n != 1 {
				t.Errorf("the line arrived %d times", n)
			}
		})
	}
}

// What a server that has ended can say no more is not waited for.
func TestRailEndsWithItsServer(t *testing.T) {
	r := newRig(t)
	for _, rail := range rails {
		l := r.remote("town-"+rail.behaviour, rail.behaviour, "-mode", "mute")
		step := spec.StopStep{Console: &spec.ConsoleAction{Line: "stop", Expect: "never said"}, WaitFor: spec.WaitForExit, WaitSeconds: 3600}
		if rail.rail == "" {
			step.Console, step.HTTP = nil, request("stop")
		}
		l.Stop = []spec.StopStep{step}
		run := r.ready(l).Run
		r.stop(l.Scope)
		if e := r.awaitOver(l.Scope); e.ExitCode == nil || *e.ExitCode != 0 || e.StopStep == nil || *e.StopStep != 1 {
			t.Errorf("%s: the end is %+v", rail.behaviour, e)
		}
		if e := r.stepOf(l, run, 0); e.Result != state.Failed && e.Result != state.Indeterminate {
			t.Errorf("%s: the step came to %+v", rail.behaviour, e)
		}
	}
}

// I12, EN-6: a server that hangs holds its own line up, and nobody else's.
func TestHungRail(t *testing.T) {
	r := newRig(t)
	hung := r.remote("hung", "rcon", "-mode", "mute")
	hung.Stop = []spec.StopStep{{Console: &spec.ConsoleAction{Line: "save", Expect: "saved"}, WaitFor: spec.WaitForExit, WaitSeconds: 3600}}
	r.ready(hung)
	well := r.remote("well", "rcon")
	run := r.ready(well).Run
	r.stop(hung.Scope)
	r.awaitLog(hung.Scope, `rcon was told "save"`)
	for i := range 10 {
		if got := r.send(well, run, fmt.Sprint(i), "status"); got.Result != state.Sent {
			t.Errorf("the other server's line came to %+v", got)
		}
	}
	if e := r.facts(hung.Scope).Run.Stop.Steps[0]; e.Result != "" {
		t.Errorf("the step that hangs came to %+v", e)
	}
}

// networkOfOnesOwn tries to make one, on a thread that ends with it.
func networkOfOnesOwn() error {
	made := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocks it
		made <- unix.Unshare(unix.CLONE_NEWNET)
	}()
	return <-made
}

// A server in a network of its own is spoken to there, and one of the same port in ours is a stranger.
func TestRailInAnotherNetwork(t *testing.T) {
	if err := networkOfOnesOwn(); err != nil {
		t.Skipf("this test may not make a network namespace: %v", err)
	}
	r := newRig(t)
	for _, rail := range rails[:4] {
		l := r.remote("town-"+rail.behaviour, rail.behaviour, "-alone")
		read := eavesdrop(t, rail.protocol, l.Endpoints[0].Port)
		if got, _ := r.answered(l, r.ready(l).Run, "status"); got.Result != state.Sent || !strings.Contains(got.Reply, "you said status") {
			t.Errorf("%s: the receipt is %+v", rail.rail, got)
		}
		if rail.protocol == spec.ProtocolTCP {
			c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", l.Endpoints[0].Port))
			if err != nil {
				t.Fatal(err)
			}
			c.Close()
		}
		if b := read(); b != "" {
			t.Errorf("%s: a server of our network was sent %q", rail.rail, b)
		}
		signalTo(t, r.pid(l.Scope), unix.SIGKILL)
	}
}
