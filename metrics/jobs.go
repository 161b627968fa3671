package metrics

import (
	"reconciler.dev/reconciler/reconcile"
	"reconciler.dev/reconciler/spec"
)

// jobCount is how many jobs of a server are in each phase.
type jobCount map[spec.JobPhase]int

// The names of jobs are labels of nothing: there is no bound to them.
var jobFamilies = []*family{{
	name:   "reconciler_jobs",
	help:   "Jobs of the server that are in the phase, those that have ended as long as they are kept; absent as long as it has none.",
	labels: []string{"phase"},
	ofJobs: func(to []point, jobs *jobCount) []point {
		for _, phase := range spec.JobPhases {
			to = append(to, point{float64((*jobs)[phase]), [2]string{string(phase)}})
		}
		return to
	},
}}

func countJobs(snap *reconcile.Snapshot) map[spec.Key]*jobCount {
	counts := map[spec.Key]*jobCount{}
	for _, j := range snap.Jobs {
		server := j.Spec.ServerKey(j.Key.Namespace)
		if counts[server] == nil {
			counts[server] = &jobCount{}
		}
		(*counts[server])[j.Status.Phase]++
	}
	return counts
}
