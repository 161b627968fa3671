package spec

import (
	"testing"
	"time"
)

// A schedule comes at its times of day in its zone: not on a day that leaves such a time out, and twice on one that has it twice.
func TestScheduleComes(t *testing.T) {
	for _, c := range []struct {
		name, schedule, zone, after string
		want                        []string
	}{
		{"daily", "30 5 * * *", "UTC", "2026-03-01T05:30:00Z", []string{"2026-03-02T05:30:00Z", "2026-03-03T05:30:00Z"}},
		{"after a part of a second", "30 5 * * *", "UTC", "2026-03-01T05:29:59.999Z", []string{"2026-03-01T05:30:00Z"}},
		{"the clocks go forward, at a time that is left out", "30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", []string{"2026-03-30T00:30:00Z"}},
		{"the clocks go forward, beside it", "0 3 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", []string{"2026-03-29T01:00:00Z", "2026-03-30T01:00:00Z"}},
		{"the clocks go back, at a time that comes twice", "30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", []string{"2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-26T01:30:00Z"}},
		{"the clocks go back, every half hour", "*/30 * * * *", "Europe/Berlin", "2026-10-25T00:00:00Z", []string{"2026-10-25T00:30:00Z", "2026-10-25T01:00:00Z", "2026-10-25T01:30:00Z"}},
		{"either day", "0 4 13 * 5", "UTC", "2026-03-01T00:00:00Z", []string{"2026-03-06T04:00:00Z", "2026-03-13T04:00:00Z"}},
		{"a leap day", "0 4 29 2 *", "UTC", "2026-03-01T00:00:00Z", []string{"2028-02-29T04:00:00Z"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := LaunchSchedule{Schedule: c.schedule, TimeZone: c.zone}
			at, err := time.Parse(time.RFC3339, c.after)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range c.want {
				if at = s.Next(at); at.Format(time.RFC3339) != want {
					t.Fatalf("it comes at %s, want %s", at.Format(time.RFC3339), want)
				}
			}
		})
	}
}

func TestScheduleLatest(t *testing.T) {
	s := LaunchSchedule{Schedule: "*/10 * * * *", TimeZone: "UTC"}
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		passed time.Duration
		most   int
		latest time.Duration
		times  int
	}{
		{-time.Hour, 100, 0, 0},
		{0, 100, 0, 0},
		{10*time.Minute - 1, 100, 0, 0},
		{10 * time.Minute, 100, 10 * time.Minute, 1},
		{35 * time.Minute, 100, 30 * time.Minute, 3},
		{24 * time.Hour, 5, 50 * time.Minute, 5},
	} {
		want := time.Time{}
		if c.times > 0 {
			want = start.Add(c.latest)
		}
		if latest, times := s.Latest(start, start.Add(c.passed), c.most); !latest.Equal(want) || times != c.times {
			t.Errorf("after %v: %d times, the last at %v, want %d, %v", c.passed, times, latest, c.times, want)
		}
	}
}

// A name, a time or a value that differs is another schedule.
func TestHashHasSchedules(t *testing.T) {
	base := func() *Launch {
		l := goodLaunch()
		return &l
	}
	seen := map[string]string{base().LiveHash(): "the base"}
	for name, edit := range map[string]func(*LaunchSchedule){
		"name":                    func(s *LaunchSchedule) { s.Name = "b" },
		"schedule":                func(s *LaunchSchedule) { s.Schedule = "0 5 * * *" },
		"timeZone":                func(s *LaunchSchedule) { s.TimeZone = "Europe/Berlin" },
		"startingDeadlineSeconds": func(s *LaunchSchedule) { s.StartingDeadlineSeconds = 2 },
		"type":                    func(s *LaunchSchedule) { s.Job.Type = "Restart" },
		"command":                 func(s *LaunchSchedule) { s.Job.Command = "b" },
		"a value":                 func(s *LaunchSchedule) { s.Job.Parameters = map[string]IntOrString{"a": {IsString: true, String: "b"}} },
		"no value":                func(s *LaunchSchedule) { s.Job.Parameters = nil },
	} {
		l := base()
		edit(&l.Schedules[0])
		if other, twice := seen[l.LiveHash()]; twice {
			t.Errorf("another %s hashes as %s", name, other)
		}
		seen[l.LiveHash()] = name
		if l.SpecHash() != base().SpecHash() {
			t.Errorf("another %s needs another run", name)
		}
	}
}
