package metrics

import (
	"maps"
	"slices"
	"strings"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
)

// The families of a scope. Where the value is not known there is no series, rather than a zero that lies; what counts
// exists from zero.
var scopeFamilies = []*family{{
	name:    "reconciler_starts_total",
	help:    "Runs that were started, failed starts too.",
	counter: true,
	ofScope: func(to []point, f *observe.Facts, _ *Usage) []point {
		return append(to, point{value: float64(f.Counters.Starts)})
	},
}, {
	name:    "reconciler_exits_total",
	help:    "Runs that have ended, by class and reason.",
	counter: true,
	labels:  []string{"class", "reason"},
	ofScope: exitPoints,
}, {
	name:    "reconciler_stops_total",
	help:    "Stops that have ended, by the last step of the ladder that was sent and whether the kill was reached.",
	counter: true,
	labels:  []string{"step", "killed"},
	ofScope: stopPoints,
}, {
	name: "reconciler_last_exit_timestamp_seconds",
	help: "When the last run ended.",
	ofScope: func(to []point, f *observe.Facts, _ *Usage) []point {
		if n := len(f.Exits); n > 0 {
			to = append(to, point{value: seconds(f.Exits[n-1].FinishedAt)})
		}
		return to
	},
}, {
	name: "reconciler_start_time_seconds",
	help: "When the live run was started.",
	ofScope: func(to []point, f *observe.Facts, _ *Usage) []point {
		if r := f.Run; !r.Over() && !r.StartedAt.IsZero() {
			to = append(to, point{value: seconds(r.StartedAt)})
		}
		return to
	},
}, {
	name: "reconciler_ready_seconds",
	help: "How long the last run took from its start until it was Ready.",
	ofScope: func(to []point, f *observe.Facts, _ *Usage) []point {
		if r := f.Run; r != nil && !r.ReadyAt.IsZero() && !r.StartedAt.IsZero() {
			to = append(to, point{value: max(0, r.ReadyAt.Sub(r.StartedAt).Seconds())})
		}
		return to
	},
}, {
	name: "reconciler_stop_duration_seconds",
	help: "How long the last run's stop took from its recording until nothing of the run was left.",
	ofScope: func(to []point, f *observe.Facts, _ *Usage) []point {
		r, n := f.Run, len(f.Exits)
		if r == nil || !r.Over() || r.Stop == nil || n == 0 || f.Exits[n-1].RunID != r.ID {
			return to
		}
		return append(to, point{value: max(0, f.Exits[n-1].FinishedAt.Sub(r.Stop.At.Wall).Seconds())})
	},
}, {
	name:    "reconciler_cpu_seconds_total",
	help:    "CPU time of the live run's processes.",
	counter: true,
	ofUsage: true,
	ofScope: func(to []point, _ *observe.Facts, u *Usage) []point {
		if u != nil {
			to = append(to, point{value: u.CPU.Seconds()})
		}
		return to
	},
}, {
	name:    "reconciler_resident_memory_bytes",
	help:    "Resident memory of the live run's processes.",
	ofUsage: true,
	ofScope: func(to []point, _ *observe.Facts, u *Usage) []point {
		if u != nil {
			to = append(to, point{value: float64(u.ResidentBytes)})
		}
		return to
	},
}, {
	name:    "reconciler_open_fds",
	help:    "Open file descriptors of the live run's processes.",
	ofUsage: true,
	ofScope: func(to []point, _ *observe.Facts, u *Usage) []point {
		if u != nil {
			to = append(to, point{value: float64(u.OpenFDs)})
		}
		return to
	},
}, {
	name:    "reconciler_log_bytes_total",
	help:    "Bytes of output that were written to logs.",
	counter: true,
	ofUsage: true,
	ofScope: func(to []point, f *observe.Facts, u *Usage) []point {
		n := f.Counters.LogBytes
		if u != nil {
			n += u.LogBytes
		}
		return append(to, point{value: float64(n)})
	},
}, {
	name:    "reconciler_log_dropped_lines_total",
	help:    "Lines of output that were dropped because the disk did not take them.",
	counter: true,
	ofUsage: true,
	ofScope: func(to []point, f *observe.Facts, u *Usage) []point {
		n := f.Counters.LogDroppedLines
		if u != nil {
			n += u.LogDroppedLines
		}
		return append(to, point{value: float64(n)})
	},
}}

// usualExits is the class that each reason has: these series exist from zero. Another pair exists from its first exit.
var usualExits = func() []exitPair {
	expected := []spec.ExitReason{spec.ReasonStopRequested, spec.ReasonCompleted, spec.ReasonDeclaredRestart}
	var pairs []exitPair
	for _, r := range spec.ExitReasons {
		class := spec.Unexpected
		if slices.Contains(expected, r) {
			class = spec.Expected
		}
		pairs = append(pairs, exitPair{string(class) + "/" + string(r), [2]string{string(class), string(r)}})
	}
	return pairs
}()

// exitPair is a class and a reason, and their key in state.Counters.
type exitPair struct {
	key    string
	labels [2]string
}

func exitPoints(to []point, f *observe.Facts, _ *Usage) []point {
	usual := 0
	for i := range usualExits {
		n, has := f.Counters.Exits[usualExits[i].key]
		if has {
			usual++
		}
		to = append(to, point{float64(n), usualExits[i].labels})
	}
	if usual == len(f.Counters.Exits) {
		return to
	}
	for _, key := range slices.Sorted(maps.Keys(f.Counters.Exits)) {
		if slices.ContainsFunc(usualExits, func(p exitPair) bool { return p.key == key }) {
			continue
		}
		class, reason, _ := strings.Cut(key, "/")
		to = append(to, point{float64(f.Counters.Exits[key]), [2]string{class, reason}})
	}
	return to
}

// firstStep is the key of a stop that ended with the first step of its ladder, which every ladder has.
const firstStep = "1/false"

func stopPoints(to []point, f *observe.Facts, _ *Usage) []point {
	if _, has := f.Counters.Stops[firstStep]; !has {
		to = append(to, point{0, [2]string{"1", "false"}})
	}
	if len(f.Counters.Stops) == 0 {
		return to
	}
	for _, key := range slices.Sorted(maps.Keys(f.Counters.Stops)) {
		step, killed, _ := strings.Cut(key, "/")
		to = append(to, point{float64(f.Counters.Stops[key]), [2]string{step, killed}})
	}
	return to
}
