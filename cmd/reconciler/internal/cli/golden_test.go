package cli

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"reconciler.dev/reconciler/cmd/reconciler/internal/api"
	"reconciler.dev/reconciler/cmd/reconciler/internal/api/apitest"
	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/observe/proc/proctest"
	"reconciler.dev/reconciler/reconcile"
	"reconciler.dev/reconciler/spec"
)

var update = flag.Bool("update", false, "write the golden files anew; look at the difference before they are committed")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// run is one command over the sample snapshot: what it prints and how it exits, as one text.
func run(t *testing.T, runtime string, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	e := &env{
		stdin: strings.NewReader(""), stdout: &stdout, stderr: &stderr, uid: os.Getuid(),
		now: func() time.Time { return apitest.Now },
		getenv: func(name string) string {
			return map[string]string{envRuntimeDir: runtime, envStateDir: filepath.Join(runtime, "state"), "HOME": runtime}[name]
		},
	}
	code := execute(context.Background(), e, args)
	var b strings.Builder
	fmt.Fprintf(&b, "$ reconciler %s\n", strings.Join(args, " "))
	b.WriteString(stdout.String())
	for line := range strings.Lines(stderr.String()) {
		b.WriteString("! " + line)
	}
	if code != 0 {
		fmt.Fprintf(&b, "[exit %d]\n", code)
	}
	return strings.ReplaceAll(b.String(), runtime, "RUNTIME")
}

func checkGolden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// Each golden file is a page of commands and what they print: exact to the column.
func TestGolden(t *testing.T) {
	for name, commands := range map[string][]string{
		"get-servers": {
			"get servers", "get servers -A", "get servers -o wide", "get servers -A -o wide --no-headers", "get server town", "get server/town -o name",
			"get servers -o name", "get servers -l tier=prod", "get servers -l game=openttd,!tier", "get servers -l owner=me",
			"get servers town village -o name", "get servers -n empty", "get servers -o jsonpath={.items[*].metadata.name}",
			"get servers town -o jsonpath={.status.state}", "get servers town -o jsonpath=.status.run.restarts",
		},
		"get-object": {"get server town -o yaml", "get server village -o json", "get profile openttd -o yaml", "get hold proxy -n edge -o yaml"},
		"get-others": {"get profiles", "get profiles -o wide", "get holds", "get holds -A", "get sources", "get source manifests -o name"},
		"get-errors": {
			"get", "get nothing", "get pods", "get jobs -n empty", "get servers nowhere", "get servers -o table", "get servers -o jsonpath=", "get servers -o jsonpath={.x[}",
			"get servers town -A", "get servers a b -w", "get server/town village", "get servers -n Bad town", "get servers --wat", "get servers -l a=b=c",
		},
		"describe": {"describe server town", "describe server/village", "describe server proxy -n edge", "describe profile openttd", "describe", "describe town", "describe source manifests", "describe server nowhere"},
		"jobs": {
			"get jobs", "get jobs -o wide", "get job/town-backup-3 -o name", "get jobs -l tier=prod -o name", "get jobs town-stop-1 -o yaml", "get job town-backup-3 -o yaml",
			"describe job town-backup-3", "describe job/village-restart-1", "describe job nowhere", "wait job/town-backup-3 --for=condition=Succeeded --timeout 0",
			"wait job/town-backup-3 --for=condition=Succeeded=False", "wait job/town-stop-1 --for=condition=Succeeded", "wait job/village-restart-1 --for=condition=Succeeded --timeout 0",
			"wait job/town-stop-1 --for=jsonpath={.status.check}=profile", "wait job/nowhere --for=delete", "wait job/town-stop-1 --for=condition=Ready",
			"cancel", "cancel job/town-stop-1", "cancel server/town", "do", "do town", "do town save x", "do town save x=1 x=2", "do town Save", "do profile/openttd save",
			"do town save --deadline 1.5s", "stop town --job x --force", "stop town --profile openttd", "stop town village --job x",
		},
		"why":     {"why town", "why village", "why server/proxy -n edge"},
		"events":  {"events", "events town", "events server/village", "events -A", "events nowhere"},
		"history": {"history town", "history village -o wide", "history hamlet", "history", "history town -o jsonpath={.items[0].reason}"},
		"act-errors": {
			"stop", "stop town --all", "stop nowhere", "stop profile/openttd", "start town --for 1.5s", "stop town --timeout -1s", "restart town --reason " + strings.Repeat("x", 1025),
			"release", "stop -l owner=me",
		},
		"send": {"send town save", "send hamlet save", "send nowhere save", "send town", "send town save now", "send profile/openttd save"},
		"wait": {
			"wait server/town --for=condition=Ready", "wait town --for=condition=ready=true", "wait server/town --for=jsonpath={.status.state}=Running",
			"wait server/village --for=condition=Ready --timeout 0", "wait server/nowhere --for=condition=Ready --timeout 0", "wait server/nowhere --for=delete",
			"wait server/town --for=jsonpath={.status.run.number}", "wait server/town --for=jsonpath={.spec.parameters.port}=3980", "wait server/town", "wait", "wait server/town --for=Ready", "wait server/town --for=condition=Happy",
			"wait server/town --for=jsonpath={.status.state}Running",
		},
		"hosts": {"prune", "prune --confirm", "retire town", "shutdown", "version", "version -o json", "doctor", "doctor -o yaml"},
		"habits": {
			"apply -f x.yaml", "delete server town", "edit server town", "scale", "exec", "statsu", "getx", "reload town", "example nothing", "shutdown now",
		},
		"logs-errors": {"logs", "logs town --tail -2", "logs town --since -1s", "logs town --stream both", "logs town -f --previous", "logs nowhere"},
	} {
		t.Run(name, func(t *testing.T) {
			host := &apitest.Host{
				Running: api.Versions{Reconciler: "v1.2.3", Keeper: "v1.2.3"},
				Pruned:  []spec.ObjectKey{{Kind: spec.KindServer, Key: spec.Key{Namespace: "default", Name: "village"}}},
				Lines:   map[spec.Key][]observe.Written{{Namespace: "default", Name: "town"}: sampleWritten()},
				Receipt: api.Receipt{DeliveryStatus: spec.DeliveryStatus{Rail: "Stdin", Run: 4, Result: "Sent"}},
				Found: []api.Check{
					{Axis: api.AxisOwnership, Name: "runs", State: api.CheckOK, Required: true, Message: "1 of 1 proven"},
					{Axis: api.AxisRuntime, Name: "keeper", State: api.CheckOK, Required: true},
				},
			}
			runtime := apitest.Serve(t, apitest.NewLoop(apitest.Sample()), host)
			var page strings.Builder
			for _, c := range commands {
				page.WriteString(run(t, runtime, strings.Split(c, " ")...))
				page.WriteByte('\n')
			}
			checkGolden(t, name, page.String())
		})
	}
}

// Without a reconciler every command that needs one says so, and what to do.
func TestNotRunning(t *testing.T) {
	runtime := proctest.Place(t)
	for _, args := range [][]string{{"get", "servers"}, {"stop", "town"}, {"logs", "town"}, {"attach", "town"}, {"events", "-w"}, {"wait", "town", "--for=delete", "--timeout", "0"}, {"shutdown"}} {
		got := run(t, runtime, args...)
		if !strings.Contains(got, "! error: no reconciler is running here\n! hint: start one with") || !strings.HasSuffix(got, "[exit 1]\n") {
			t.Errorf("got\n%s", got)
		}
	}
}

// The logs command passes what it was told on, and prints what comes.
func TestLogs(t *testing.T) {
	host := &apitest.Host{LogText: "one\ntwo\n"}
	runtime := apitest.Serve(t, apitest.NewLoop(apitest.Sample()), host)
	got := run(t, runtime, "logs", "town", "--previous", "--tail", "5", "--since", "90s", "--timestamps", "--stream", "stderr")
	if want := "$ reconciler logs town --previous --tail 5 --since 90s --timestamps --stream stderr\none\ntwo\n"; got != want {
		t.Errorf("got\n%s", got)
	}
	q := host.LastLog
	if q.Scope != (spec.Scope{Namespace: "default", Server: "town", Profile: "openttd"}) || !q.Previous || q.Follow || q.Tail != 5 || !q.Timestamps || q.Stream != "stderr" {
		t.Errorf("asked for %+v", q)
	}
	if ago := time.Since(q.Since); ago < 90*time.Second || ago > 10*time.Minute {
		t.Errorf("asked for lines since %s", q.Since)
	}
	run(t, runtime, "logs", "town", "--tail", "0")
	if q := host.LastLog; q.Tail != 0 || !q.Since.IsZero() {
		t.Errorf("asked for %+v", q)
	}
}

// act is an order, what then becomes of the server, and what the command says of it.
func TestActsWaitForTheirEffect(t *testing.T) {
	byRoot := spec.HoldStatus{State: spec.WishStopped, By: "root", Since: apitest.Now}
	later := apitest.Now.Add(time.Second)
	crash := spec.ExitStatus{Class: spec.Unexpected, Reason: spec.ReasonExited, ExitCode: new(int), FinishedAt: later}
	*crash.ExitCode = 3
	for _, tt := range []struct {
		name  string
		args  []string
		steps []func(*reconcile.ServerView) // one after the other, of the named server
		want  string
	}{
		{"stop waits for Stopped", []string{"stop", "town"}, []func(*reconcile.ServerView){
			func(v *reconcile.ServerView) { v.Status.Hold, v.Status.State = &byRoot, spec.StateStopping },
			func(v *reconcile.ServerView) { v.Status.State = spec.StateStopped },
		}, "server/town stopped\n"},
		{"stop of what is stopped (BP-5)", []string{"stop", "proxy", "-n", "edge"}, nil, "server/proxy (namespace edge) stopped\n"},
		{"stop of what is to be stopped by its manifest", []string{"stop", "hamlet"}, []func(*reconcile.ServerView){
			func(v *reconcile.ServerView) { v.Status.Hold = &byRoot },
		}, "server/hamlet stopped\n"},
		{"a hold that ends too soon", []string{"stop", "town"}, []func(*reconcile.ServerView){
			func(v *reconcile.ServerView) { v.Status.Hold, v.Status.State = &byRoot, spec.StateStopping },
			func(v *reconcile.ServerView) { v.Status.Hold = nil },
		}, "! error: server/town: the hold ended before it was stopped\n[exit 1]\n"},
		{"start of what runs (BP-3)", []string{"start", "town"}, nil, "server/town running (already)\n"},
		{"start waits for Ready", []string{"start", "hamlet"}, []func(*reconcile.ServerView){
			func(v *reconcile.ServerView) { v.Status.State = spec.StateStarting },
			ready,
		}, "server/hamlet started\n"},
		{"a start that fails ends at once (EC-12)", []string{"start", "hamlet"}, []func(*reconcile.ServerView){
			func(v *reconcile.ServerView) { v.Status.State, v.Status.LastExit = spec.StateBackOff, &crash },
		}, "! error: server/hamlet did not become ready: its process ended (Exited, exit code 3); 'reconciler logs hamlet --previous' may say why\n[exit 1]\n"},
		{"a blocked start", []string{"start", "hamlet"}, []func(*reconcile.ServerView){
			func(v *reconcile.ServerView) {
				v.Status.State = spec.StateBlocked
				v.Status.Conditions = []spec.Condition{{Type: spec.ConditionStalled, Status: "True", Reason: "RecordUnreadable", Message: "its record cannot be read"}}
			},
		}, "! error: server/hamlet is blocked: its record cannot be read (RecordUnreadable)\n[exit 1]\n"},
		{"restart waits for a new run", []string{"restart", "town"}, []func(*reconcile.ServerView){
			func(v *reconcile.ServerView) { v.Status.State = spec.StateStopping },
			func(v *reconcile.ServerView) {
				run := *v.Status.Run
				run.Number++
				v.Status.Run, v.Status.State = &run, spec.StateRunning
			},
		}, "server/town restarted\n"},
		{"somebody else comes between", []string{"start", "hamlet"}, []func(*reconcile.ServerView){
			func(v *reconcile.ServerView) { v.Status.Hold = &byRoot },
		}, "! error: server/hamlet was stopped meanwhile by root\n[exit 1]\n"},
		{"the timeout ends the waiting alone", []string{"stop", "town", "--timeout", "20ms"}, []func(*reconcile.ServerView){
			func(v *reconcile.ServerView) { v.Status.Hold, v.Status.State = &byRoot, spec.StateStopping },
		}, "! error: timed out waiting for stop of server/town\n! hint: the stop goes on; 'reconciler describe server town' says what it waits for\n[exit 1]\n"},
		{"release does not wait", []string{"release", "proxy", "-n", "edge"}, nil, "server/proxy (namespace edge) released\n"},
		{"release without a hold", []string{"release", "town"}, nil, "server/town had no hold\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			act := func(args []string) (got string, asked int) {
				loop := apitest.NewLoop(apitest.Sample())
				ctx := t.Context()
				loop.Answer = func(a apitest.Asked) error {
					go play(ctx, loop, a.Ask.Server, tt.steps)
					return nil
				}
				runtime := apitest.Serve(t, loop, &apitest.Host{})
				_, got, _ = strings.Cut(run(t, runtime, args...), "\n")
				return got, len(loop.Asks())
			}
			got, asked := act(tt.args)
			// On a busy host a short time may be over before the order was taken.
			for d := 40 * time.Millisecond; strings.Contains(got, "was taken is not known") && d < time.Minute; d *= 2 {
				got, asked = act(append(slices.Clone(tt.args[:len(tt.args)-1]), d.String()))
			}
			if got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
			if asked != 1 {
				t.Errorf("the loop was asked %d times", asked)
			}
		})
	}
}

func ready(v *reconcile.ServerView) {
	v.Status.State = spec.StateRunning
	v.Status.Conditions = []spec.Condition{{Type: spec.ConditionReady, Status: "True", Reason: "ProbeSucceeded"}}
}

// play shows the server as each step makes it of the last.
func play(ctx context.Context, loop *apitest.Loop, k spec.Key, steps []func(*reconcile.ServerView)) {
	for _, step := range steps {
		if ctx.Err() != nil {
			return
		}
		snap := *loop.Snapshot()
		snap.Rev++
		servers := append([]*reconcile.ServerView(nil), snap.Servers...)
		for i, v := range servers {
			if v.Key != k {
				continue
			}
			next := *v
			next.Rev = snap.Rev
			next.Status.LastAction = &spec.ActionStatus{Type: "Asked", By: "root", At: apitest.Now}
			step(&next)
			servers[i] = &next
		}
		snap.Servers = servers
		loop.Show(&snap)
	}
}

// Several at once: by one watch, each told as it gets there, and those that do not all told.
func TestActOnMany(t *testing.T) {
	loop := apitest.NewLoop(apitest.Sample())
	loop.Answer = func(a apitest.Asked) error {
		play(t.Context(), loop, a.Ask.Server, []func(*reconcile.ServerView){func(v *reconcile.ServerView) {
			v.Status.Hold = &spec.HoldStatus{State: spec.WishStopped, By: "root", Since: apitest.Now}
			v.Status.State = spec.StateStopped
		}})
		return nil
	}
	runtime := apitest.Serve(t, loop, &apitest.Host{})
	_, got, _ := strings.Cut(run(t, runtime, "stop", "-l", "game=openttd"), "\n")
	if want := "server/town stopped\nserver/village stopped\n"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if asks := loop.Asks(); len(asks) != 2 {
		t.Errorf("the loop was asked %+v", asks)
	}
}
