package metrics

import (
	"reconciler.dev/reconciler/reconcile"
	"reconciler.dev/reconciler/spec"
)

var serverFamilies = []*family{{
	name:   "reconciler_server_state",
	help:   "Whether the server is in the state (1) or not (0).",
	labels: []string{"state"},
	ofServer: func(to []point, s *reconcile.ServerView) []point {
		for _, st := range spec.ServerStates {
			to = append(to, point{truth(s.Status.State == st), [2]string{string(st)}})
		}
		return to
	},
}, {
	name:   "reconciler_server_condition",
	help:   "Whether the condition has the status (1) or not (0).",
	labels: []string{"condition", "status"},
	ofServer: func(to []point, s *reconcile.ServerView) []point {
		for i := range s.Status.Conditions {
			c := &s.Status.Conditions[i]
			for _, status := range conditionStatuses {
				to = append(to, point{truth(c.Status == status), [2]string{c.Type, status}})
			}
		}
		return to
	},
}, {
	name: "reconciler_server_hold",
	help: "Whether a person's wish holds over the manifest (1) or not (0).",
	ofServer: func(to []point, s *reconcile.ServerView) []point {
		return append(to, point{value: truth(s.Status.Hold != nil)})
	},
}, {
	name: "reconciler_players",
	help: "How many play; absent while nobody counts, or nobody knows.",
	ofServer: func(to []point, s *reconcile.ServerView) []point {
		if p := s.Status.Players; p != nil && p.Count != nil {
			to = append(to, point{value: float64(*p.Count)})
		}
		return to
	},
}}

var conditionStatuses = []string{"True", "False", "Unknown"}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
