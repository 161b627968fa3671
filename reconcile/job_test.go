package reconcile

import (
	"errors"
	"strings"
	"testing"
	"time"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

var town = scopeOf("town", "game")

// newTown is a host with one server that runs.
func newTown(t *testing.T, list ...spec.Command) *host {
	h := newHost(t)
	h.profile("game", withCommands(list...))
	h.server("town", "game")
	h.settle()
	h.took()
	return h
}

func seconds(n int64) func(*spec.JobSpec) {
	return func(j *spec.JobSpec) { j.DeadlineSeconds = &n }
}

func times(n int64) func(*spec.JobSpec) { return func(j *spec.JobSpec) { j.Attempt = &n } }

func restartJob(j *spec.JobSpec) { j.Type, j.Command = spec.JobRestart, "" }

// A command is done once, for the run that lives, and never again: not after our restart, not when its file comes anew.
func TestCommandJob(t *testing.T) {
	h := newTown(t, console("save"))
	h.commands.output["save"] = "saved"
	h.job("save-1", "town", "save")
	h.settle()
	h.wantOrders("Do town/game save for run-1")
	h.wantJob("save-1", spec.JobSucceeded, "")
	st := h.jobView("save-1").Status
	if len(st.Steps) != 1 || st.Steps[0].Output != "saved" || st.Steps[0].Result != "Done" || st.Run != 1 || st.Profile != "game" || st.By != "job/save-1" {
		t.Errorf("status %+v", st)
	}
	h.restart()
	h.publish()
	h.settle()
	h.job("save-1", "town", "save")
	h.settle()
	h.wantOrders()
	h.wantJob("save-1", spec.JobSucceeded, "")

	h.job("save-1", "town", "save", times(2))
	h.settle()
	h.wantOrders("Do town/game save for run-1")
	if st := h.jobView("save-1").Status; st.Attempt != 2 || st.Phase != spec.JobSucceeded {
		t.Errorf("the second attempt: %+v", st)
	}
	h.once()
}

// Every check says no by its name, and nothing is done.
func TestJobIsRefused(t *testing.T) {
	for _, c := range []struct {
		name, check string
		world       func(*host)
		job         func(*spec.JobSpec)
	}{
		{"another profile", CheckJobProfile, nil, func(j *spec.JobSpec) { j.Profile = "other" }},
		{"no such command", CheckJobCommand, nil, func(j *spec.JobSpec) { j.Command = "load" }},
		{"a parameter that there is not", CheckJobParameters, nil, func(j *spec.JobSpec) { j.Parameters = map[string]spec.IntOrString{"to": {Int: 7}} }},
		{"a stopped server", CheckJobRun, func(h *host) { h.server("town", "game", stopped) }, nil},
		{"a server held stopped", CheckJobRun, func(h *host) { h.hold(ActionStop) }, nil},
		{"a restart of a stopped server", CheckJobState, func(h *host) { h.hold(ActionStop) }, restartJob},
		{"a server whose record cannot be used", CheckJobBlocked, func(h *host) {
			h.change(town, func(f *observe.Facts) { f.Blocked = "RecordNewer" })
		}, nil},
		{"a keeper's check", "executable", func(h *host) { h.commands.refuse["save"] = refused{"executable", "it is not there"} }, nil},
		{"a completed server", CheckJobRun, func(h *host) {
			h.profile("game", withCommands(console("save")), policy(spec.RestartNever))
			h.settle()
			h.exit("town", "game", 0)
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newTown(t, console("save"))
			if c.world != nil {
				c.world(h)
			}
			h.settle()
			h.took()
			edits := []func(*spec.JobSpec){}
			if c.job != nil {
				edits = append(edits, c.job)
			}
			h.job("job", "town", "save", edits...)
			h.pass(2 * jobGrace)
			h.wantJob("job", spec.JobRefused, "Refused")
			if st := h.jobView("job").Status; st.Check != c.check || st.Message == "" {
				t.Errorf("check %q (%s), want %q", st.Check, st.Message, c.check)
			}
			if n := len(h.commands.done); n != 0 {
				t.Errorf("%d commands were carried out", n)
			}
		})
	}
}

// What a job of a source refers to may be read right after it: a check says no only after a while.
func TestJobWaitsForWhatItRefersTo(t *testing.T) {
	h := newTown(t)
	h.job("save-1", "town", "save")
	h.job("other-1", "other", "save")
	h.settle()
	h.wantJob("save-1", spec.JobPending, JobReasonSettling)
	h.wantJob("other-1", spec.JobPending, JobReasonNoServer)
	h.profile("game", withCommands(console("save")))
	h.server("other", "game")
	h.pass(2 * jobGrace)
	h.wantJob("save-1", spec.JobSucceeded, "")
	h.wantJob("other-1", spec.JobSucceeded, "")
}

// Nothing of a job begins that is withdrawn, or late, before it began (BP-11).
func TestNothingBeginsTooLate(t *testing.T) {
	waiting := func(t *testing.T) *host {
		h := newTown(t, console("save"))
		h.hidden = true // BP-6: jobs wait until the keeper is heard
		h.job("save-1", "town", "save", seconds(60))
		h.settle()
		h.wantJob("save-1", spec.JobPending, JobReasonUnheard)
		return h
	}
	for _, c := range []struct {
		name, reason string
		do           func(*host)
	}{
		{"withdrawn by a person", JobReasonRequested, func(h *host) { _ = h.cancelJob("save-1") }},
		{"withdrawn in its file", JobReasonRequested, func(h *host) {
			h.job("save-1", "town", "save", seconds(60), func(j *spec.JobSpec) { j.Cancel = true })
		}},
		{"removed", JobReasonRemoved, func(h *host) { h.removeJob("save-1") }},
		{"late", JobReasonLate, func(h *host) { h.pass(time.Minute) }},
		{"late, the wall clock set back", JobReasonLate, func(h *host) {
			h.wall = h.wall.Add(-24 * time.Hour)
			h.pass(time.Minute)
		}},
		{"late by the wall clock, after a reboot", JobReasonLate, func(h *host) {
			h.boot, h.uptime, h.wall = "boot-2", time.Second, h.wall.Add(time.Minute)
			h.restart()
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := waiting(t)
			c.do(h)
			h.settle()
			h.hidden = false
			h.settle()
			h.wantJob("save-1", spec.JobCancelled, c.reason)
			h.wantOrders()
		})
	}
}

// A job's spec does not change: the edit is refused by field, with the remedy, and what was accepted goes on.
func TestJobIsImmutable(t *testing.T) {
	h := newTown(t, console("save"), console("load"))
	h.job("save-1", "town", "save", times(2))
	h.settle()
	h.took()
	h.job("save-1", "other", "load", seconds(5), times(1), func(j *spec.JobSpec) { j.Profile = "x" })
	h.settle()
	v := h.jobView("save-1")
	var fields []string
	for _, f := range v.Faults {
		fields = append(fields, f.Field)
	}
	if got := strings.Join(fields, " "); got != "spec.server spec.command spec.profile spec.deadlineSeconds spec.attempt" {
		t.Errorf("faults of %s", got)
	}
	if c := v.Status.Conditions[0]; c.Type != spec.ConditionAccepted || c.Status != conditionFalse || c.Reason != "Immutable" || !strings.Contains(c.Message, "another action is another name") {
		t.Errorf("condition %+v", c)
	}
	h.wantJob("save-1", spec.JobSucceeded, "")
	h.wantOrders()
	h.job("save-1", "town", "save", times(3))
	h.settle()
	if v := h.jobView("save-1"); len(v.Faults) > 0 || v.Status.Attempt != 3 {
		t.Errorf("mended: %+v", v)
	}
}

// One job of a server acts at a time, in the order in which they were accepted.
func TestJobsWaitForOneAnother(t *testing.T) {
	h := newTown(t, console("save"), console("load"))
	h.commands.hang["save"] = true
	h.job("save-1", "town", "save")
	h.settle()
	h.wall, h.uptime = h.wall.Add(time.Second), h.uptime+time.Second
	h.job("load-1", "town", "load")
	h.settle()
	h.wantJob("save-1", spec.JobRunning, "")
	h.wantJob("load-1", spec.JobPending, JobReasonQueued)
	h.finish(town, state.Done)
	h.pass(time.Minute)
	h.wantJob("save-1", spec.JobSucceeded, "")
	h.wantJob("load-1", spec.JobSucceeded, "")
	h.once()
}

// Whatever is lost on the way, a command is carried out at most once, and what nobody can know is told as that (EN-6).
func TestAtMostOnce(t *testing.T) {
	for _, c := range []struct {
		name   string
		do     func(*host)
		phase  spec.JobPhase
		reason string
		done   int
	}{
		{"the answer is lost", func(h *host) { h.commands.lose["save"] = true }, spec.JobSucceeded, "", 1},
		{"the order is lost for a while", func(h *host) {
			h.commands.deaf["save"] = true
			h.pass(10 * time.Second)
			h.commands.deaf["save"] = false
		}, spec.JobSucceeded, "", 1},
		{"we die while it is under way", func(h *host) {
			h.commands.hang["save"] = true
			h.settle()
			h.restart()
			h.settle()
			h.finish(town, state.Failed)
		}, spec.JobFailed, JobReasonCommand, 1},
		{"we die before we hear", func(h *host) {
			h.commands.lose["save"] = true
			for range 4 { // accepted, begun, about to be ordered, ordered
				orders, _ := h.loop.Turn(h.now())
				for _, o := range orders {
					err := o.CarryOut(t.Context(), h, h, jobTable{h}, h)
					if o.Do == nil {
						h.loop.Done(h.now(), o, err)
					}
				}
			}
			h.restart()
		}, spec.JobSucceeded, "", 1},
		{"the keeper dies between journal and end", func(h *host) {
			h.commands.hang["save"] = true
			h.settle()
			h.finish(town, state.Indeterminate)
		}, spec.JobFailed, JobReasonIndeterminate, 1},
		{"the journal has lost it", func(h *host) {
			h.commands.lose["save"] = true
			for range 3 { // accepted, begun, about to be ordered
				orders, _ := h.loop.Turn(h.now())
				for _, o := range orders {
					h.loop.Done(h.now(), o, o.CarryOut(t.Context(), h, h, jobTable{h}, h))
				}
			}
			orders, _ := h.loop.Turn(h.now())
			for _, o := range orders {
				_ = o.CarryOut(t.Context(), h, h, jobTable{h}, h)
			}
			h.wall, h.uptime = h.wall.Add(time.Second), h.uptime+time.Second
			h.chat(town, state.DeliveryLimit)
			h.restart()
		}, spec.JobFailed, JobReasonIndeterminate, 1},
		{"the host is reset, and what was written last is lost", func(h *host) {
			h.commands.hang["save"] = true
			h.settle()
			h.change(town, func(f *observe.Facts) { f.Deliveries = nil })
			h.boot, h.uptime = "boot-2", time.Second
			h.crash("town", "game")
			h.restart()
		}, spec.JobFailed, JobReasonIndeterminate, 1},
		{"the host is reset before it was to be carried out", func(h *host) {
			for range 2 { // accepted, begun
				orders, _ := h.loop.Turn(h.now())
				for _, o := range orders {
					h.loop.Done(h.now(), o, o.CarryOut(t.Context(), h, h, jobTable{h}, h))
				}
			}
			h.boot, h.uptime = "boot-2", time.Second
			h.restart()
		}, spec.JobSucceeded, "", 1},
		{"withdrawn while nobody knows whether it got there", func(h *host) {
			h.commands.deaf["save"] = true
			h.settle()
			_ = h.cancelJob("save-1")
			h.commands.deaf["save"] = false
		}, spec.JobFailed, JobReasonIndeterminate, 0},
		{"late while it is under way", func(h *host) {
			h.commands.hang["save"] = true
			h.pass(2 * time.Hour)
			h.wantJob("save-1", spec.JobRunning, "")
			h.finish(town, state.Done)
		}, spec.JobSucceeded, "", 1},
		{"the session is another's for a moment", func(h *host) {
			h.commands.refuse["save"] = refused{"session", "another has taken over"}
			h.pass(time.Second)
			delete(h.commands.refuse, "save")
		}, spec.JobSucceeded, "", 1},
		{"its run is replaced before it gets there", func(h *host) {
			h.commands.deaf["save"] = true
			h.settle()
			h.crash("town", "game")
			h.settle()
			h.commands.deaf["save"] = false
		}, spec.JobFailed, JobReasonCommand, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newTown(t, console("save"))
			h.job("save-1", "town", "save")
			c.do(h)
			h.pass(time.Minute)
			h.wantJob("save-1", c.phase, c.reason)
			if n := len(h.commands.done); n != c.done {
				t.Errorf("carried out %d times, want %d", n, c.done)
			}
			h.once()
		})
	}
}

// A disk that does not take a job lets nothing of it begin; whoever asked for it hears so.
func TestJobIsDurableBeforeItActs(t *testing.T) {
	h := newTown(t, console("save"))
	h.diskErr = errors.New("no space left")
	if err := h.addJob("save-1", spec.JobSpec{Server: "town", Command: "save"}); err == nil {
		t.Error("a job that is not on disk was taken")
	}
	h.job("save-2", "town", "save")
	h.settle()
	h.wantOrders()
	h.diskErr = nil
	h.pass(time.Minute)
	h.wantOrders("Do town/game save for run-1")
	h.wantJob("save-2", spec.JobSucceeded, "")
	if h.loop.Snapshot().Job(key("save-1")) != nil || len(h.jobs) != 1 {
		t.Errorf("a job that was refused is kept: %v", h.jobs)
	}
}

// A result is kept as long as its file is there; of the others, the last hundred of a server.
func TestJobResultsAreKept(t *testing.T) {
	h := newTown(t, console("save"))
	h.job("first", "town", "save")
	h.settle()
	for i := range JobLimit + 5 {
		h.wall, h.uptime = h.wall.Add(time.Second), h.uptime+time.Second
		if err := h.addJob("job-"+string(rune('a'+i/26))+string(rune('a'+i%26)), spec.JobSpec{Server: "town", Command: "save"}); err != nil {
			t.Fatal(err)
		}
	}
	h.settle()
	if n := len(h.loop.Snapshot().Jobs); n != JobLimit+1 || len(h.jobs) != n {
		t.Errorf("%d jobs are shown, %d in the store, want %d", n, len(h.jobs), JobLimit+1)
	}
	h.wantJob("first", spec.JobSucceeded, "")
	h.removeJob("first")
	h.settle()
	if h.loop.Snapshot().Job(key("first")) != nil {
		t.Error("the oldest result is kept without its file")
	}
}

// Asked for directly: a name is taken once, a server must be there, and who asked is told.
func TestJobAskedForDirectly(t *testing.T) {
	h := newTown(t, console("save"))
	ask := spec.JobSpec{Server: "town", Command: "save"}
	if err := h.addJob("save-1", ask); err != nil {
		t.Fatal(err)
	}
	if err := h.addJob("save-1", ask); !errors.Is(err, ErrJobExists) {
		t.Errorf("the same name again: %v", err)
	}
	if err := h.addJob("save-2", spec.JobSpec{Server: "nowhere", Command: "save"}); !errors.Is(err, ErrNoServer) {
		t.Errorf("no server: %v", err)
	}
	if err := h.cancelJob("nothing"); !errors.Is(err, ErrNoJob) {
		t.Errorf("no job: %v", err)
	}
	if err := h.cancelJob("save-1"); err != nil {
		t.Errorf("a job that is over: %v", err)
	}
	if st := h.jobView("save-1").Status; st.By != "anna" || st.Source != nil || st.Phase != spec.JobSucceeded {
		t.Errorf("status %+v", st)
	}
	events := h.view("town").Events
	if last := events[len(events)-1]; last.Reason != "Job" || last.Message != "job save-1 (Command save): Succeeded" {
		t.Errorf("the last event is %+v", last)
	}
}
