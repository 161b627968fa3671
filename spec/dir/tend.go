package dir

import (
	"math/rand/v2"
	"time"
)

const (
	// period is the time between two full scans when nothing happens; it varies by a tenth.
	period = 30 * time.Second
	// pollPeriod is the same where a directory is not watched, foreignPeriod where changes may come without an event.
	pollPeriod    = 2 * time.Second
	foreignPeriod = 5 * time.Second
	// quietTime is how long after a change a full scan makes sure of it.
	quietTime = time.Second
	// freshTime is how long readers may be left with old times of the last successes.
	freshTime = 25 * time.Second
	// hangLimit is how long the file system may take before the directory counts as unreachable.
	hangLimit = 10 * time.Second
	// primeLimit is how long the first Set waits for directories that do not answer.
	primeLimit = 3 * time.Second
)

// tended is one root as the owner looks after it.
type tended struct {
	settling settling
	layout   layout
	worker   *worker

	scanAt   time.Time // when the next full scan is due
	againAt  time.Time // when one more is due after that, zero = never
	scanEnd  time.Time
	scanTook time.Duration
	failures int // full scans in a row that were worth less than complete

	busy      bool
	asked     time.Time // when the worker got what it works at
	requests  []request // what it looks at; nil = everything
	reported  bool      // that it hangs
	rescan    bool      // an event came in a directory of no layout while a scan was under way
	unwatched int       // scans in a row after which a directory was not watched

	former bool
}

// soon has a full scan made at that time, or earlier if one is due earlier, but not so soon after the last that scanning
// is all that is done.
func (t *tended) soon(at time.Time) {
	if least := t.scanEnd.Add(max(10*time.Millisecond, 4*t.scanTook)); at.Before(least) {
		at = least
	}
	if at.Before(t.scanAt) {
		t.scanAt = at
	}
}

// twice has two full scans made: now, and one more that may remove what both miss.
func (t *tended) twice(now time.Time) {
	t.soon(now)
	t.againAt = now.Add(confirmGap + 10*time.Millisecond)
}

// plan sets the time of the next full scan after one of that worth. waiting says that objects wait for it to be removed.
func (t *tended) plan(now time.Time, worth cause, waiting, polling, foreign bool) {
	if worth == complete || worth == empty {
		t.failures = 0
	} else {
		t.failures++
	}
	t.scanAt = now.Add(t.pause(worth, waiting, polling, foreign))
	if !t.againAt.IsZero() && t.againAt.Before(t.scanAt) && t.againAt.After(now) {
		t.scanAt = t.againAt
	}
	if !t.againAt.After(t.scanAt) {
		t.againAt = time.Time{}
	}
}

// pause is the time until the next full scan.
func (t *tended) pause(worth cause, waiting, polling, foreign bool) time.Duration {
	regular := period + time.Duration((rand.Float64()-0.5)*float64(period)/5)
	switch {
	case polling:
		regular = pollPeriod
	case foreign:
		regular = foreignPeriod
	}
	switch worth {
	case moved, unsettled:
		return grow(20*time.Millisecond, t.failures, 2*time.Second)
	case gitBusy:
		return grow(100*time.Millisecond, t.failures, 2*time.Second)
	case vanished, unreachable:
		return grow(200*time.Millisecond, t.failures, 5*time.Second)
	case unreadable:
		return min(regular, grow(time.Second, t.failures, period))
	}
	if waiting {
		return confirmGap
	}
	return regular
}

// grow doubles from first, once for each failure after the first, up to limit.
func grow(first time.Duration, failures int, limit time.Duration) time.Duration {
	for range min(failures-1, 20) {
		if first *= 2; first >= limit {
			return limit
		}
	}
	return first
}

// deadline is when the root needs the owner next.
func (t *tended) deadline() time.Time {
	if t.busy {
		if t.reported {
			return time.Time{}
		}
		return t.asked.Add(hangLimit)
	}
	at := t.scanAt
	if next := t.settling.next(); !next.IsZero() && next.Before(at) {
		at = next
	}
	return at
}
