package metrics

import (
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"go.uber.org/goleak"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/reconcile"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

var update = flag.Bool("update", false, "write the golden file anew; look at the difference before it is committed")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var at = time.Date(2026, 3, 4, 12, 0, 0, 500e6, time.UTC)

// canary stands wherever something is that no series may show.
const canary = "canary-7f3a"

// sample is a server that runs and has stopped before, one that was never started, and one whose old profile's run is not
// gone yet.
func sample() (*reconcile.Snapshot, map[spec.Scope]Usage) {
	town := shown("town", "openttd", spec.StateRunning)
	town.Status.Hold = &spec.HoldStatus{State: spec.WishRunning, By: "root", Reason: canary}
	town.Facts = []*observe.Facts{{
		Scope: spec.Scope{Namespace: "default", Server: "town", Profile: "openttd"},
		UID:   canary,
		Run: &observe.RunFacts{Number: 3, ID: canary, Phase: state.Started, SpecHash: canary, LiveHash: canary, By: canary,
			StartedAt: at, ReadyAt: at.Add(1500 * time.Millisecond)},
		Exits: []state.Exit{{Number: 2, RunID: canary, ExitStatus: spec.ExitStatus{FinishedAt: at.Add(-time.Second)}}},
		Counters: state.Counters{Starts: 3, Restarts: 2, LogBytes: 1000, LogDroppedLines: 2,
			Exits: map[string]int64{"Unexpected/Exited": 1, "Expected/StopRequested": 1, "Unexpected/Completed": 4},
			Stops: map[string]int64{"2/true": 1}},
	}}
	seven := 7
	town.Status.Players = &spec.PlayersStatus{Count: &seven, At: at}
	fresh := shown("fresh", "openttd", spec.StatePending)
	fresh.Key.Namespace = "edge"
	moved := shown("moved", "minetest", spec.StateStopping)
	moved.Status.Players = &spec.PlayersStatus{At: at} // nobody knows
	old := spec.Scope{Namespace: "default", Server: "moved", Profile: "openttd"}
	moved.Facts = []*observe.Facts{{
		Scope: old,
		Run: &observe.RunFacts{Number: 1, ID: canary, Phase: state.Exited, StartedAt: at,
			Stop: &state.Stop{Reason: spec.ReasonStopRequested, At: state.Moment{Wall: at.Add(time.Minute)}}},
		Exits:    []state.Exit{{Number: 1, RunID: canary, ExitStatus: spec.ExitStatus{FinishedAt: at.Add(time.Minute + 2500*time.Millisecond)}}},
		Counters: state.Counters{Starts: 1, Exits: map[string]int64{"Expected/StopRequested": 1}, Stops: map[string]int64{"1/false": 1}},
	}}
	snap := &reconcile.Snapshot{
		Keeper: true, Known: true, Servers: []*reconcile.ServerView{moved, town, fresh},
		Jobs: []*reconcile.JobView{
			{Key: spec.Key{Namespace: "default", Name: canary}, Spec: spec.JobSpec{Server: "town", Command: canary}, Status: spec.JobStatus{Phase: spec.JobFailed, By: canary, Message: canary}},
			{Key: spec.Key{Namespace: "default", Name: canary + "-2"}, Spec: spec.JobSpec{Server: "town", Command: canary}, Status: spec.JobStatus{Phase: spec.JobSucceeded}},
			{Key: spec.Key{Namespace: "default", Name: "lost"}, Spec: spec.JobSpec{Server: "nowhere"}, Status: spec.JobStatus{Phase: spec.JobPending}},
		},
		Sources: []spec.SourceState{{
			Name: `tree "one"`, Revision: "0a1b2c3", LastSuccess: at, Complete: false, Reason: canary,
			Objects: map[string]int{"accepted": 5, "invalid": 1}, Files: []spec.FileState{{Path: canary}},
		}, {Name: "new"}},
	}
	usage := map[spec.Scope]Usage{town.Facts[0].Scope: {CPU: 1250 * time.Millisecond, ResidentBytes: 1 << 20, OpenFDs: 12, LogBytes: 77, LogDroppedLines: 1}}
	return snap, usage
}

func shown(name, profile string, st spec.ServerState) *reconcile.ServerView {
	v := &reconcile.ServerView{Key: spec.Key{Namespace: "default", Name: name}, Profile: profile, UID: canary}
	v.Status.State = st
	v.Status.Conditions = []spec.Condition{
		{Type: spec.ConditionReady, Status: "True", Message: canary}, {Type: spec.ConditionStalled, Status: "Unknown"}}
	return v
}

func collector(snap *reconcile.Snapshot, usage map[spec.Scope]Usage) *Collector {
	return NewCollector(func() *reconcile.Snapshot { return snap }, func() map[spec.Scope]Usage { return usage })
}

func scrape(t *testing.T, c *Collector, m *Meter) string {
	t.Helper()
	page, err := NewPage(c, m)
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	page.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("answered %d: %s", w.Code, w.Body)
	}
	if got := w.Header().Get("Content-Type"); !strings.HasPrefix(got, "text/plain; version=0.0.4") {
		t.Errorf("content type %q", got)
	}
	return w.Body.String()
}

// ours is the series of servers, sources and loop; this process's own differ from machine to machine.
func ours(page string) string {
	var b strings.Builder
	for line := range strings.Lines(page) {
		if regexp.MustCompile(`^(# (HELP|TYPE) )?(reconciler_|workqueue_|controller_runtime_)`).MatchString(line) {
			b.WriteString(line)
		}
	}
	return b.String()
}

func TestGolden(t *testing.T) {
	snap, usage := sample()
	m := NewMeter()
	m.Turn(3*time.Millisecond, 4)
	m.Order("Start", 2*time.Millisecond, nil)
	m.Order("Stop", time.Second, errors.New("no"))
	got := ours(scrape(t, collector(snap, usage), m))
	const file = "testdata/metrics.golden"
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got\n%s", got)
	}
}

// The page writes what a registry, which checks everything, would write of the collector.
func TestPageIsTheRegistrysText(t *testing.T) {
	for name, make := range map[string]func() (*reconcile.Snapshot, map[spec.Scope]Usage){
		"sample":    sample,
		"many":      func() (*reconcile.Snapshot, map[spec.Scope]Usage) { return manyServers(50) },
		"nothing":   func() (*reconcile.Snapshot, map[spec.Scope]Usage) { return &reconcile.Snapshot{}, nil },
		"no keeper": func() (*reconcile.Snapshot, map[spec.Scope]Usage) { s, _ := sample(); return s, nil },
	} {
		t.Run(name, func(t *testing.T) {
			snap, usage := make()
			c := collector(snap, usage)
			r := prometheus.NewPedanticRegistry()
			r.MustRegister(c)
			families, err := r.Gather()
			if err != nil {
				t.Fatal(err)
			}
			var want strings.Builder
			for _, mf := range families {
				if _, err := expfmt.MetricFamilyToText(&want, mf); err != nil {
					t.Fatal(err)
				}
			}
			got := normal(t, regexp.MustCompile(`(?m)^.*(workqueue_|controller_runtime_).*\n`).ReplaceAllString(ours(scrape(t, c, NewMeter())), ""))
			if want := normal(t, want.String()); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// normal is a text as it is read: families by name, series and labels in order.
func normal(t *testing.T, text string) string {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	var lines []string
	for name, mf := range families {
		for _, m := range mf.Metric {
			labels := make([]string, 0, len(m.Label))
			for _, l := range m.Label {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			slices.Sort(labels)
			lines = append(lines, fmt.Sprint(name, mf.GetType(), mf.GetHelp(), labels, m.GetGauge().GetValue(), m.GetCounter().GetValue()))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func TestLint(t *testing.T) {
	snap, usage := sample()
	problems, err := promlint.New(strings.NewReader(scrape(t, collector(snap, usage), NewMeter()))).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	m := NewMeter()
	if problems, err := testutil.CollectAndLint(m); err != nil || len(problems) > 0 {
		t.Errorf("the meter: %v %v", problems, err)
	}
}

// BP-10, I10: no series shows what names a run, a hash, a person's words or a file.
func TestNoCanary(t *testing.T) {
	snap, usage := sample()
	page := scrape(t, collector(snap, usage), NewMeter())
	if strings.Contains(page, canary) {
		t.Errorf("the page shows %q:\n%s", canary, page)
	}
	for line := range strings.Lines(page) {
		for _, label := range regexp.MustCompile(`[{,]([a-z_]+)="`).FindAllStringSubmatch(line, -1) {
			if !slices.Contains([]string{"namespace", "server", "profile", "state", "condition", "status", "class", "reason", "step", "killed", "source", "revision",
				"controller", "name", "kind", "result", "le", "quantile", "version", "phase"}, label[1]) {
				t.Errorf("an unknown label %q in %s", label[1], line)
			}
		}
	}
}

// The series of a removed server go with it; those of one that is new are there at once, from zero.
func TestSeriesComeAndGo(t *testing.T) {
	snap, usage := sample()
	c := NewCollector(func() *reconcile.Snapshot { return snap }, func() map[spec.Scope]Usage { return usage })
	page := scrape(t, c, NewMeter())
	for _, want := range []string{
		`reconciler_starts_total{namespace="edge",server="fresh",profile="openttd"} 0`,
		`reconciler_exits_total{namespace="edge",server="fresh",profile="openttd",class="Unexpected",reason="Unknown"} 0`,
		`reconciler_stops_total{namespace="edge",server="fresh",profile="openttd",step="1",killed="false"} 0`,
		`reconciler_log_bytes_total{namespace="default",server="town",profile="openttd"} 1077`,
	} {
		if !strings.Contains(page, want+"\n") {
			t.Errorf("there is no %s", want)
		}
	}
	next := *snap
	next.Servers = snap.Servers[:1]
	snap = &next
	if page := scrape(t, c, NewMeter()); strings.Contains(page, `server="town"`) || !strings.Contains(page, `server="moved"`) {
		t.Errorf("the series of town are there, or those of moved are not:\n%s", page)
	}
}

// A fifth scrape at the same time is told to come back: they hold the snapshot's time of many processes' looks.
func TestTooManyScrapes(t *testing.T) {
	snap, _ := sample()
	entered, leave := make(chan struct{}), make(chan struct{})
	c := NewCollector(func() *reconcile.Snapshot { return snap }, func() map[spec.Scope]Usage {
		entered <- struct{}{}
		<-leave
		return nil
	})
	page, err := NewPage(c, NewMeter())
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan int)
	for range maxScrapes {
		go func() {
			w := httptest.NewRecorder()
			page.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
			done <- w.Code
		}()
		<-entered
	}
	w := httptest.NewRecorder()
	page.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("answered %d", w.Code)
	}
	close(leave)
	for range maxScrapes {
		if code := <-done; code != http.StatusOK {
			t.Errorf("a scrape in time was answered %d", code)
		}
	}
}
