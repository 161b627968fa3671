package spec

import (
	"testing"
	"time"
)

// A window is open from the moment of its schedule on for its duration, in its time zone, over the night, over a change of the
// clocks, and wherever two of its own times meet.
func TestWindowOpens(t *testing.T) {
	for _, c := range []struct {
		window LaunchWindow
		now    string
		open   bool
		next   string // where it is not open
	}{
		{LaunchWindow{"0 4 * * *", "UTC", 3600}, "2026-03-01T03:59:59Z", false, "2026-03-01T04:00:00Z"},
		{LaunchWindow{"0 4 * * *", "UTC", 3600}, "2026-03-01T04:00:00Z", true, ""},
		{LaunchWindow{"0 4 * * *", "", 3600}, "2026-03-01T04:59:59Z", true, ""},
		{LaunchWindow{"0 4 * * *", "UTC", 3600}, "2026-03-01T05:00:00Z", false, "2026-03-02T04:00:00Z"},
		{LaunchWindow{"0 23 * * *", "UTC", 7200}, "2026-03-02T00:30:00Z", true, ""},
		{LaunchWindow{"*/5 * * * *", "UTC", 600}, "2026-03-02T00:04:59Z", true, ""},
		{LaunchWindow{"0 4 * * 1", "UTC", 604800}, "2026-03-01T12:00:00Z", true, ""},
		{LaunchWindow{"0 4 * * *", "Europe/Berlin", 3600}, "2026-03-01T03:30:00Z", true, ""},
		{LaunchWindow{"0 4 * * *", "Europe/Berlin", 3600}, "2026-04-01T03:30:00Z", false, "2026-04-02T02:00:00Z"},
		{LaunchWindow{"0 4 29 2 *", "UTC", 60}, "2026-03-01T00:00:00Z", false, "2028-02-29T04:00:00Z"},
	} {
		now, err := time.Parse(time.RFC3339, c.now)
		if err != nil {
			t.Fatal(err)
		}
		open, next := c.window.Opens(now)
		if open != c.open || !open && next.UTC().Format(time.RFC3339) != c.next {
			t.Errorf("%+v at %s: open %v, next %v, want %v, %s", c.window, c.now, open, next.UTC(), c.open, c.next)
		}
	}
}
