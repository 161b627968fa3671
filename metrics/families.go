package metrics

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/reconcile"
	"reconciler.dev/reconciler/spec"
)

// family is one metric: its name, help, kind and labels, and how its series are read from what is shown.
type family struct {
	name    string
	help    string
	counter bool
	labels  []string
	ofUsage bool // ofScope reads the usage

	// One of these is set. Each appends the series of one server, scope or source.
	ofServer func([]point, *reconcile.ServerView) []point
	ofScope  func([]point, *observe.Facts, *Usage) []point // usage nil = not known
	ofSource func([]point, *spec.SourceState) []point
	ofJobs   func([]point, *jobCount) []point // of one server that has any
}

// point is one series' value, and the values of its labels beyond those that say what it is about.
type point struct {
	value float64
	more  [2]string
}

// families is every family of servers, scopes, sources and jobs, by name; those that show what runs use are the last, so that
// the others are written while that is asked for.
var families = func() []*family {
	all := slices.Concat(serverFamilies, scopeFamilies, sourceFamilies, jobFamilies)
	slices.SortFunc(all, func(a, b *family) int {
		if a.ofUsage != b.ofUsage {
			if b.ofUsage {
				return -1
			}
			return 1
		}
		return strings.Compare(a.name, b.name)
	})
	return all
}()

// about is the labels that say what a series is about.
func (f *family) about() []string {
	if f.ofSource != nil {
		return sourceLabels
	}
	return scopeLabels
}

var (
	sourceLabels = []string{"source"}
	scopeLabels  = []string{"namespace", "server", "profile"}
)

func (f *family) valueType() prometheus.ValueType {
	if f.counter {
		return prometheus.CounterValue
	}
	return prometheus.GaugeValue
}
