package metrics

import "reconciler.dev/reconciler/spec"

var sourceFamilies = []*family{{
	name: "reconciler_source_last_success_timestamp_seconds",
	help: "When the source was last read whole.",
	ofSource: func(to []point, s *spec.SourceState) []point {
		if !s.LastSuccess.IsZero() {
			to = append(to, point{value: seconds(s.LastSuccess)})
		}
		return to
	},
}, {
	name:   "reconciler_source_objects",
	help:   "Objects of the source, by state.",
	labels: []string{"state"},
	ofSource: func(to []point, s *spec.SourceState) []point {
		for _, state := range objectStates {
			to = append(to, point{float64(s.Objects[state]), [2]string{state}})
		}
		return to
	},
}, {
	name: "reconciler_source_incomplete",
	help: "Whether the last scan could not see everything (1) or did (0).",
	ofSource: func(to []point, s *spec.SourceState) []point {
		return append(to, point{value: truth(!s.Complete)})
	},
}, {
	name:   "reconciler_source_info",
	help:   "The revision of the source; always 1.",
	labels: []string{"revision"},
	ofSource: func(to []point, s *spec.SourceState) []point {
		return append(to, point{1, [2]string{s.Revision}})
	},
}}

// objectStates exist from zero.
var objectStates = []string{"accepted", "stale", "absent", "invalid", "conflict"}
