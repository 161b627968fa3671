package reconcile

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"reconciler.dev/reconciler/spec"
)

// What has come of a schedule: one job for the last of the times that are not too late, none twice, none beside one that is open.
func TestTimetable(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	at := func(minutes int) *Occasion {
		when := noon.Add(time.Duration(minutes) * time.Minute)
		return &Occasion{At: when, Job: occasionName("town", "save", when)}
	}
	mark := func(after int, due, last *Occasion, missed int64) Scheduled {
		return Scheduled{Name: "save", Schedule: "*/10 * * * *", TimeZone: "UTC", After: noon.Add(time.Duration(after) * time.Minute), Due: due, Last: last, Missed: missed}
	}
	other := mark(0, at(10), at(0), 7)
	other.Schedule = "* * * * *"
	for _, c := range []struct {
		name string
		was  []Scheduled
		now  time.Duration
		how  errand
		open bool
		want Scheduled
		wake time.Duration // 0 = none
	}{
		{"it is new", nil, 25 * time.Minute, errandAbsent, false, mark(25, nil, nil, 0), 30 * time.Minute},
		{"nothing has come", []Scheduled{mark(0, nil, nil, 0)}, 10*time.Minute - 1, errandAbsent, false, mark(0, nil, nil, 0), 10 * time.Minute},
		{"its time has come", []Scheduled{mark(0, nil, nil, 0)}, 10 * time.Minute, errandAbsent, false, mark(10, at(10), nil, 0), 0},
		{"its time has come, and it is late", []Scheduled{mark(0, nil, nil, 0)}, 15 * time.Minute, errandAbsent, false, mark(10, at(10), nil, 0), 0},
		{"its time has come, and it is too late", []Scheduled{mark(0, nil, nil, 0)}, 15*time.Minute + 1, errandAbsent, false, mark(10, nil, nil, 1), 20 * time.Minute},
		{"several have come, the last in time", []Scheduled{mark(0, nil, at(0), 1)}, 33 * time.Minute, errandAbsent, false, mark(30, at(30), at(0), 3), 0},
		{"several have come, all too late", []Scheduled{mark(0, nil, at(0), 1)}, 36 * time.Minute, errandAbsent, false, mark(30, nil, at(0), 4), 40 * time.Minute},
		{"more have come than anybody counts", []Scheduled{mark(0, nil, at(0), 0)}, 1000*time.Hour + 3*time.Minute, errandAbsent, false, mark(60000, at(60000), at(0), missedMost), 0},
		{"one is open", []Scheduled{mark(0, nil, at(0), 0)}, 10 * time.Minute, errandAbsent, true, mark(0, nil, at(0), 0), 15*time.Minute + 1},
		{"one was open too long", []Scheduled{mark(0, nil, at(0), 0)}, 15*time.Minute + 1, errandAbsent, true, mark(10, nil, at(0), 1), 20 * time.Minute},
		{"its job is not there", []Scheduled{mark(10, at(10), nil, 0)}, 11 * time.Minute, errandAbsent, false, mark(10, at(10), nil, 0), 15*time.Minute + 1},
		{"its job is about to be there", []Scheduled{mark(10, at(10), nil, 0)}, 16 * time.Minute, errandAsked, true, mark(10, at(10), nil, 0), 15*time.Minute + 1},
		{"its job is there", []Scheduled{mark(10, at(10), at(0), 0)}, 11 * time.Minute, errandMade, true, mark(10, nil, at(10), 0), 20 * time.Minute},
		{"its job was there before we fell", []Scheduled{mark(10, at(10), at(0), 0)}, 24 * time.Minute, errandMade, false, mark(20, at(20), at(10), 0), 0},
		{"its job was never made, and it is too late", []Scheduled{mark(10, at(10), at(0), 0)}, 16 * time.Minute, errandAbsent, false, mark(10, nil, at(0), 1), 20 * time.Minute},
		{"another job has its name", []Scheduled{mark(10, at(10), at(0), 0)}, 11 * time.Minute, errandTaken, false, mark(10, nil, at(0), 1), 20 * time.Minute},
		{"the clock was set back", []Scheduled{mark(60, nil, at(60), 0)}, 11 * time.Minute, errandAbsent, false, mark(60, nil, at(60), 0), 70 * time.Minute},
		{"the clock was set back while its job was to be made", []Scheduled{mark(60, at(60), nil, 0)}, 11 * time.Minute, errandAbsent, false, mark(60, at(60), nil, 0), 65*time.Minute + 1},
		{"its calendar is another", []Scheduled{other}, 25 * time.Minute, errandAbsent, false, mark(25, nil, at(0), 7), 30 * time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			launch := &spec.Launch{Schedules: []spec.LaunchSchedule{{Name: "save", Schedule: "*/10 * * * *", TimeZone: "UTC", StartingDeadlineSeconds: 300}}}
			table := &timetable{
				server: "town", now: noon.Add(c.now), next: (*spec.LaunchSchedule).Next,
				stands: func(string, *Occasion) errand { return c.how }, open: func(string) bool { return c.open },
			}
			before := fmt.Sprintf("%+v", c.was)
			got := table.settle(launch, c.was)
			if !sameScheduled(got, []Scheduled{c.want}) {
				t.Errorf("got  %+v\nwant %+v", got[0], c.want)
			}
			var wake time.Time
			if c.wake != 0 {
				wake = noon.Add(c.wake)
			}
			if !table.wake.Equal(wake) {
				t.Errorf("it looks again at %v, want %v", table.wake, wake)
			}
			if after := fmt.Sprintf("%+v", c.was); after != before {
				t.Errorf("it changed what was: %s", after)
			}
		})
	}
}

// The name of a time's job is a name, its own, and always the same.
func TestOccasionNames(t *testing.T) {
	at, long := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), strings.Repeat("a", 63)
	names := map[string]string{}
	for _, c := range [][2]string{{"town", "save"}, {"town", "restore"}, {"a-b", "c"}, {"a", "b-c"}, {"a--b", "c"}, {long, "save"}, {long, long}, {"town", long}, {strings.Repeat("a-", 31) + "a", "b"}} {
		name := occasionName(c[0], c[1], at)
		if !spec.IsLabel(name) || name != occasionName(c[0], c[1], at) {
			t.Errorf("%q is no name", name)
		}
		if other, taken := names[name]; taken {
			t.Errorf("%v and %s are both %s", c, other, name)
		}
		names[name] = fmt.Sprint(c)
		if next := occasionName(c[0], c[1], at.Add(time.Minute)); next == name {
			t.Errorf("%s is of two times", name)
		}
	}
	if got := occasionName("town", "save", at); got != "town-save-29539440" {
		t.Errorf("it is called %q", got)
	}
}

// every declares a schedule, by the name of its command, every ten minutes.
func every(command string, edits ...func(*spec.Schedule)) func(*spec.ProfileSpec) {
	return func(p *spec.ProfileSpec) {
		s := spec.Schedule{Name: "often", Schedule: "*/10 * * * *", Job: spec.ScheduledJob{Command: command}}
		if command == "" {
			s.Job.Type = string(spec.JobRestart)
		}
		for _, edit := range edits {
			edit(&s)
		}
		p.Schedules = append(p.Schedules, s)
	}
}

func jobAt(minutes int) string {
	return occasionName("town", "often", time.Date(2026, 3, 1, 12, minutes, 0, 0, time.UTC))
}

// newClock is a town with a program, backup, every ten minutes, at noon.
func newClock(t *testing.T, edits ...func(*spec.Schedule)) *host {
	h := newHost(t)
	h.profile("game", withCommands(program("backup", spec.RequiresAny)), every("backup", edits...))
	h.server("town", "game")
	h.settle()
	h.took()
	return h
}

func (h *host) wantSchedule(last, next int, missed int64) {
	h.t.Helper()
	list := h.view("town").Status.Schedules
	if len(list) != 1 {
		h.t.Fatalf("schedules %+v", list)
	}
	when := func(minutes int) string {
		return time.Date(2026, 3, 1, 12, minutes, 0, 0, time.UTC).Format("15:04")
	}
	st := list[0]
	lastAt, lastJob, nextAt := when(-1), "", when(-1)
	if st.LastAt != nil {
		lastAt, lastJob = st.LastAt.Format("15:04"), st.LastJob
	}
	if st.NextAt != nil {
		nextAt = st.NextAt.Format("15:04")
	}
	if lastAt != when(last) || nextAt != when(next) || st.Missed != missed || last >= 0 && lastJob != jobAt(last) {
		h.t.Fatalf("last %s by %s, next %s, missed %d; want %d, %d, %d", lastAt, lastJob, nextAt, st.Missed, last, next, missed)
	}
}

// wantJobs checks which jobs of the schedule there are, and that each was carried out once.
func (h *host) wantJobs(minutes ...int) {
	h.t.Helper()
	var want, got []string
	for _, m := range minutes {
		want = append(want, jobAt(m))
	}
	for _, j := range h.loop.Snapshot().Jobs {
		got = append(got, j.Key.Name)
		if st := j.Status; st.Phase != spec.JobSucceeded || st.By != "schedule/often" || j.Spec.Profile != "game" {
			h.t.Errorf("job %s is %s (%s), by %s", j.Key.Name, st.Phase, st.Message, st.By)
		}
	}
	if !slices.Equal(got, want) {
		h.t.Fatalf("jobs %q, want %q", got, want)
	}
	h.once()
	if len(h.commands.done) != len(want) {
		h.t.Errorf("%d were carried out, want %d", len(h.commands.done), len(want))
	}
}

// A schedule makes a job for each of its times, and nobody looks in between.
func TestScheduleMakesJobs(t *testing.T) {
	h := newClock(t)
	h.wantSchedule(-1, 10, 0)
	if _, wake := h.loop.Turn(h.now()); wake != h.uptime+10*time.Minute {
		t.Errorf("it turns again in %v", wake-h.uptime)
	}
	h.pass(10*time.Minute - time.Nanosecond)
	h.wantJobs()
	h.pass(time.Nanosecond)
	h.wantJobs(10)
	h.wantSchedule(10, 20, 0)
	h.pass(24 * time.Minute)
	h.wantJobs(10, 20, 30)
	h.wantSchedule(30, 40, 0)
	h.wantOrders("Do town/game backup for run-1", "Do town/game backup for run-1", "Do town/game backup for run-1")
	h.wantEvent("town", EventWarning, "MissSchedule", false)
}

// Whenever we die, and whatever the disk does then, a time has one job, and it is carried out once.
func TestScheduleSurvivesUs(t *testing.T) {
	for _, failing := range []bool{false, true} {
		for die, died := 0, true; died; die++ {
			h := newClock(t)
			h.wall, h.uptime = h.wall.Add(10*time.Minute), h.uptime+10*time.Minute
			died = false
			for n := 0; ; {
				orders, wake := h.loop.Turn(h.now())
				if len(orders) == 0 && (wake == 0 || wake > h.uptime) {
					break
				}
				for _, o := range orders {
					if n++; n == die+1 && failing && o.Save != nil {
						h.diskErr, died = errLost, true // it is written, and nobody knows
					}
					err := o.CarryOut(t.Context(), h, h, jobTable{h}, h)
					h.diskErr = nil
					if n == die+1 && !failing {
						h.restart() // the answer is lost
						died = true
						break
					}
					h.loop.Done(h.now(), o, err)
				}
			}
			h.pass(time.Minute)
			h.wantJobs(10)
			h.wantSchedule(10, 20, 0)
		}
	}
}

// What came while nobody ran: one job stands for the times that are not too late, and the rest is missed, and told.
func TestScheduleCatchesUp(t *testing.T) {
	away := func(h *host, d time.Duration) {
		h.wall, h.uptime = h.wall.Add(d), h.uptime+d
		h.restart()
		h.settle()
	}
	h := newClock(t)
	away(h, 14*time.Minute)
	h.wantJobs(10)
	h.wantEvent("town", EventWarning, "MissSchedule", false)
	away(h, 13*time.Minute) // 12:27, the one of 12:20 is too late
	h.wantJobs(10)
	h.wantSchedule(10, 30, 1)
	h.wantEvent("town", EventWarning, "MissSchedule", true)

	h = newClock(t, func(s *spec.Schedule) { hour := int64(1200); s.StartingDeadlineSeconds = &hour })
	away(h, 45*time.Minute)
	h.wantJobs(40)
	h.wantSchedule(40, 50, 3)
	away(h, time.Second)
	h.wantJobs(40)
}

// A clock that is set back or forward brings no time twice.
func TestScheduleAndTheClock(t *testing.T) {
	h := newClock(t)
	h.pass(31 * time.Minute)
	h.wantJobs(10, 20, 30)
	h.wall = h.wall.Add(-25 * time.Minute) // 12:06
	h.pass(30 * time.Minute)
	h.wantJobs(10, 20, 30)
	h.restart()
	h.pass(3 * time.Minute)
	h.wantJobs(10, 20, 30)
	h.pass(2 * time.Minute)
	h.wantJobs(10, 20, 30, 40)
	h.wantSchedule(40, 50, 0)
	h.wall = h.wall.Add(11 * time.Minute) // 12:52
	h.settle()
	h.wantJobs(10, 20, 30, 40, 50)
	h.wall = h.wall.Add(-13 * time.Minute)
	h.pass(20 * time.Minute) // 12:59
	h.wantJobs(10, 20, 30, 40, 50)
}

// It never overlaps itself: a time that comes meanwhile waits for the job before as long as it is not too late.
func TestScheduleNeverOverlaps(t *testing.T) {
	h := newClock(t)
	h.commands.hang["backup"] = true
	h.pass(23 * time.Minute)
	if n := len(h.loop.Snapshot().Jobs); n != 1 {
		t.Fatalf("%d jobs", n)
	}
	h.wantSchedule(10, 20, 0)
	h.restart()
	h.commands.hang["backup"] = false
	h.finish(town, "Done")
	h.settle()
	h.wantJobs(10, 20)
	h.wantSchedule(20, 30, 0)

	h.commands.hang["backup"] = true
	h.pass(50 * time.Minute)
	h.wantSchedule(30, 70, 3) // at 13:13 those of 12:40, 12:50 and 13:00 are missed
	h.wantEvent("town", EventWarning, "MissSchedule", true)
}

// A job of a schedule is a job: what does not fit is refused.
func TestScheduledJobIsRefused(t *testing.T) {
	h := newHost(t)
	h.profile("game", every(""))
	h.server("town", "game", stopped)
	h.pass(10 * time.Minute)
	h.wantJob(jobAt(10), spec.JobRefused, "Refused")
	if st := h.jobView(jobAt(10)).Status; st.Check != CheckJobState {
		t.Errorf("check %q", st.Check)
	}
	h.server("town", "game")
	h.pass(10 * time.Minute)
	h.wantJob(jobAt(20), spec.JobSucceeded, "")
	h.profile("game", withCommands(console("say")), every("say"))
	h.settle()
	h.hold(ActionStop)
	h.pass(10 * time.Minute)
	if st := h.jobView(jobAt(30)).Status; st.Phase != spec.JobRefused || st.Check != CheckJobRun {
		t.Errorf("%s, check %q", st.Phase, st.Check)
	}
}

// A schedule, or a server, that goes takes no job with it, and brings no other. One that comes back counts from then on.
func TestScheduleGoes(t *testing.T) {
	h := newClock(t)
	h.commands.hang["backup"] = true
	h.pass(10 * time.Minute)
	h.profile("game", withCommands(program("backup", spec.RequiresAny)))
	h.pass(25 * time.Minute)
	h.wantJob(jobAt(10), spec.JobRunning, "")
	if list := h.view("town").Status.Schedules; len(list) != 0 {
		t.Errorf("schedules %+v", list)
	}
	h.commands.hang["backup"] = false
	h.finish(town, "Done")
	h.settle()
	h.wantJobs(10)
	h.profile("game", withCommands(program("backup", spec.RequiresAny)), every("backup"))
	h.settle() // 12:35
	h.wantJobs(10)
	h.wantSchedule(-1, 40, 0)
	h.pass(5 * time.Minute)
	h.wantJobs(10, 40)
	h.remove("town")
	h.pass(15 * time.Minute)
	h.wantJobs(10, 40)
}

// A manifest that is faulty now changes nothing of what governs; another command does from its next time on.
func TestScheduleFollowsTheNewest(t *testing.T) {
	h := newClock(t)
	h.profile("game", withCommands(program("backup", spec.RequiresAny)), every("nonesuch"))
	h.pass(10 * time.Minute)
	h.wantJobs(10)
	h.profile("game", withCommands(program("save", spec.RequiresAny)), every("save"), args("new"), window0)
	h.settle()
	h.took()
	h.pass(10 * time.Minute)
	h.wantJob(jobAt(20), spec.JobRefused, "Refused") // the run is governed by what it was started with (API.md rule 7)
	h.wantSchedule(20, 30, 0)
}

func window0(p *spec.ProfileSpec) {
	p.Disruption = &spec.Disruption{}
	window("0 0 29 2 *", 60)(p.Disruption)
}

// A job of somebody else that has the name is left alone, and the time counts as missed.
func TestScheduleFindsItsNameTaken(t *testing.T) {
	h := newClock(t)
	h.job(jobAt(10), "town", "nonesuch")
	h.pass(11 * time.Minute)
	h.wantJob(jobAt(10), spec.JobRefused, "Refused")
	h.wantSchedule(-1, 20, 1)
	h.wantEvent("town", EventWarning, "MissSchedule", true)
}

// A restart that a schedule wants waits for people, as a change does, until its job is late; one that somebody wants does not.
func TestScheduledRestartWaitsForPeople(t *testing.T) {
	h := newHost(t)
	h.profile("game", counted(), every(""))
	h.server("town", "game")
	h.players = 3
	h.pass(9 * time.Minute)
	h.took()
	h.pass(2 * time.Minute)
	h.goesOn("town", "Occupied", "3 play")
	h.wantJob(jobAt(10), spec.JobRunning, "")
	h.restart()
	h.pass(time.Minute)
	h.goesOn("town", "Occupied", "3 play")
	h.players = 0
	h.pass(time.Minute)
	h.wantOrders("Stop town/game Restart", "Step town/game 0", "Start town/game Restart")
	h.wantJob(jobAt(10), spec.JobSucceeded, "")

	h.players = 3
	h.pass(8 * time.Minute)
	h.wantJob(jobAt(20), spec.JobRunning, "")
	h.pass(61 * time.Minute)
	if st := h.jobView(jobAt(20)).Status; !st.Phase.Over() || st.Reason != JobReasonLate {
		t.Errorf("%s, %s", st.Phase, st.Reason)
	}
	h.wantOrders()
	if err := h.ask(ActionRestart, Ask{Server: key("town"), By: "anna"}); err != nil {
		t.Fatal(err)
	}
	h.wantOrders("Stop town/game Restart", "Step town/game 0", "Start town/game Restart")
}

// As long as people may keep a scheduled restart waiting, its deadline counts from its own time on.
func TestScheduledRestartIsForced(t *testing.T) {
	h := newHost(t)
	h.profile("game", counted(deadline(120, spec.DeadlineForce)), every(""))
	h.server("town", "game")
	h.players = 3
	h.pass(11 * time.Minute)
	h.took()
	h.wantCondition("town", spec.ConditionRestartPending, "True", "Occupied")
	h.wantMessage("town", spec.ConditionRestartPending, "at 2026-03-01T12:12:00Z it is replaced")
	h.pass(2 * time.Minute)
	h.wantOrders("Stop town/game Restart", "Step town/game 0", "Start town/game Restart")
}

// That a time has come is durable before its job is.
func TestScheduleIsRecordedFirst(t *testing.T) {
	h := newClock(t)
	h.wall, h.uptime = h.wall.Add(10*time.Minute), h.uptime+10*time.Minute
	recorded := false
	for range 20 {
		orders, _ := h.loop.Turn(h.now())
		for _, o := range orders {
			if o.Save != nil && len(o.Save.Jobs) > 0 && !recorded {
				t.Fatalf("jobs %v are recorded before their times are", o.Save.Jobs)
			}
			err := o.CarryOut(t.Context(), h, h, jobTable{h}, h)
			due := h.memories["default/town"].Schedules[0].Due
			recorded = recorded || due != nil && due.Job == jobAt(10)
			h.loop.Done(h.now(), o, err)
		}
	}
	h.settle()
	h.wantJobs(10)
}
