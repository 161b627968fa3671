package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"reconciler.dev/reconciler/cmd/reconciler/internal/api"
	"reconciler.dev/reconciler/spec"
)

type tableOptions struct {
	wide       bool
	namespaces bool // a NAMESPACE column
	keepAll    bool // also the columns that nothing is in
	now        time.Time
}

// tableFor is the table of objects of one resource.
func tableFor(resource string, items []json.RawMessage, o tableOptions) (*table, error) {
	t := &table{}
	var row func(json.RawMessage) error
	switch resource {
	case api.Servers:
		t.header = []string{"NAMESPACE", "NAME", "PROFILE", "READY", "STATE", "RESTARTS", "AGE", "HOLD"}
		if o.wide {
			t.header = append(t.header, "PLAYERS", "REVISION", "SOURCE")
		}
		row = rowOf(t, func(s api.Server) []string { return serverRow(s, o) })
	case api.Profiles:
		t.header = []string{"NAMESPACE", "NAME", "SERVERS", "READY"}
		if o.wide {
			t.header = append(t.header, "REVISION", "SOURCE")
		}
		row = rowOf(t, func(p api.Profile) []string { return profileRow(p, o) })
	case api.Holds:
		t.header = []string{"NAMESPACE", "NAME", "STATE", "BY", "AGE", "UNTIL", "REASON"}
		row = rowOf(t, func(h api.Hold) []string { return holdRow(h, o) })
	case api.Jobs:
		t.header = []string{"NAMESPACE", "NAME", "SERVER", "TYPE", "COMMAND", "PHASE", "AGE"}
		if o.wide {
			t.header = append(t.header, "ATTEMPT", "BY", "REVISION", "SOURCE")
		}
		row = rowOf(t, func(j api.Job) []string { return jobRow(j, o) })
	case api.Sources:
		t.header = []string{"NAME", "STATE", "REVISION", "ACCEPTED", "INVALID", "CONFLICT", "LAST READ"}
		row = rowOf(t, func(s api.Source) []string { return sourceRow(s, o) })
	default:
		return nil, fmt.Errorf("internal error: no table for %s", resource)
	}
	for _, item := range items {
		if err := row(item); err != nil {
			return nil, err
		}
	}
	if !o.namespaces {
		t.drop("NAMESPACE")
	}
	if !o.keepAll {
		t.dropEmpty("HOLD")
	}
	return t, nil
}

// rowOf decodes an object and adds its row.
func rowOf[T any](t *table, cells func(T) []string) func(json.RawMessage) error {
	return func(raw json.RawMessage) error {
		var obj T
		if err := json.Unmarshal(raw, &obj); err != nil {
			return fmt.Errorf("cannot read the answer: %w", err)
		}
		t.add(cells(obj)...)
		return nil
	}
}

func serverRow(s api.Server, o tableOptions) []string {
	k := s.Metadata.Key()
	row := []string{
		k.Namespace,
		k.Name,
		or(s.Spec.Profile, none),
		conditionStatus(s.Status, spec.ConditionReady),
		rowState(s.Status, o.now),
		restartsText(s.Status, o.now),
		age(o.now, s.Metadata.CreationTimestamp),
		holdText(s.Status.Hold, o.now),
	}
	if o.wide {
		row = append(row, playersText(s.Status.Players), revisionText(s.Status.Source), sourceText(s.Status.Source))
	}
	return row
}

func conditionStatus(s spec.ServerStatus, kind string) string {
	for _, c := range s.Conditions {
		if c.Type == kind {
			return c.Status
		}
	}
	return "Unknown"
}

// stateText is the state, and what comes next where a clock runs: "BackOff, next in 40s", "Starting, 6m of 20m". Where it cannot be known that all of a run is gone, its
// end is never shown as plain: "Stopped, leftovers unknown".
func stateText(s spec.ServerStatus, now time.Time) string {
	if s.Leftovers == "Unknown" && (s.State == spec.StateStopped || s.State == spec.StateFailed) {
		return string(s.State) + ", leftovers unknown"
	}
	if s.State == spec.StateBackOff && s.NextStartAt != nil {
		return string(s.State) + ", next in " + left(now, *s.NextStartAt)
	}
	if r := s.Run; s.State == spec.StateStarting && r != nil && r.StartedAt != nil && r.ReadyBy != nil {
		return string(s.State) + ", " + age(now, r.StartedAt) + " of " + duration.HumanDuration(r.ReadyBy.Sub(*r.StartedAt))
	}
	return string(s.State)
}

// rowState is the state in a table: of a run that waits to be replaced it says so.
func rowState(s spec.ServerStatus, now time.Time) string {
	text := stateText(s, now)
	if s.State == spec.StateRunning && conditionStatus(s, spec.ConditionRestartPending) == "True" {
		text += ", restart pending"
	}
	return text
}

// playersText is how many play; "unknown" when the server does not tell.
func playersText(p *spec.PlayersStatus) string {
	switch {
	case p == nil:
		return none
	case p.Count == nil:
		return "unknown"
	}
	return strconv.Itoa(*p.Count)
}

// restartsText is the number, and how long ago the last one was: "5 (2m ago)".
func restartsText(s spec.ServerStatus, now time.Time) string {
	if s.Run == nil {
		return "0"
	}
	n := strconv.FormatInt(s.Run.Restarts, 10)
	if s.Run.Restarts == 0 || s.Run.StartedAt == nil {
		return n
	}
	return n + " (" + age(now, s.Run.StartedAt) + " ago)"
}

// holdText is what a person asked for, and for how long yet.
func holdText(h *spec.HoldStatus, now time.Time) string {
	if h == nil {
		return none
	}
	if h.Until == nil {
		return h.State
	}
	return h.State + ", " + left(now, *h.Until) + " left"
}

func revisionText(s *spec.SourceStatus) string {
	if s == nil || s.Revision == "" {
		return none
	}
	return shortRevision(s.Revision)
}

// shortRevision is a git revision as git abbreviates it.
func shortRevision(r string) string {
	if len(r) >= 40 {
		return r[:7]
	}
	return or(r, none)
}

// sourceText is the file, and the document in it when it is not the first.
func sourceText(s *spec.SourceStatus) string {
	if s == nil || s.File == "" {
		return none
	}
	if s.Document == 0 {
		return s.File
	}
	return s.File + "#" + strconv.Itoa(s.Document)
}

func profileRow(p api.Profile, o tableOptions) []string {
	k := p.Metadata.Key()
	row := []string{k.Namespace, k.Name, strconv.Itoa(p.Status.Servers), strconv.Itoa(p.Status.Ready)}
	if o.wide {
		row = append(row, revisionText(p.Status.Source), sourceText(p.Status.Source))
	}
	return row
}

func holdRow(h api.Hold, o tableOptions) []string {
	k := h.Metadata.Key()
	until := none
	if h.Status.Until != nil {
		until = "in " + left(o.now, *h.Status.Until)
	}
	return []string{k.Namespace, k.Name, h.Status.State, h.Status.By, age(o.now, &h.Status.Since), until, or(h.Status.Reason, none)}
}

func sourceRow(s api.Source, o tableOptions) []string {
	state := "Complete"
	switch {
	case len(s.Status.PrunePaused) > 0:
		state = "PrunePaused"
	case !s.Status.Complete:
		state = "Incomplete"
		if s.Status.Reason != "" {
			state += ": " + s.Status.Reason
		}
	}
	revision := shortRevision(s.Status.Revision)
	if s.Status.Dirty {
		revision += "+dirty"
	}
	count := func(state string) string { return strconv.Itoa(s.Status.Objects[state]) }
	read := "never"
	if s.Status.LastSuccess != nil {
		read = age(o.now, s.Status.LastSuccess) + " ago"
	}
	return []string{s.Metadata.Name, state, revision, count("accepted"), count("invalid"), count("conflict"), read}
}

// printSourceFiles prints the files below the table of sources, a line for each fault.
func printSourceFiles(w io.Writer, items []json.RawMessage, headless bool) error {
	t := &table{header: []string{"SOURCE", "FILE", "STATE", "REASON"}}
	var paused []string
	for _, raw := range items {
		var s api.Source
		if err := json.Unmarshal(raw, &s); err != nil {
			return fmt.Errorf("cannot read the answer: %w", err)
		}
		for _, f := range s.Status.Files {
			if len(f.Faults) == 0 {
				t.add(s.Metadata.Name, f.File, f.State, f.Reason)
			}
			for _, fault := range f.Faults {
				t.add(s.Metadata.Name, f.File, f.State, fault.Error())
			}
		}
		paused = append(paused, s.Status.PrunePaused...)
	}
	if len(t.rows) > 0 {
		fmt.Fprintln(w)
		if err := t.print(w, !headless); err != nil {
			return err
		}
	}
	if len(paused) > 0 {
		_, err := fmt.Fprintf(w, "\nRemoval held until 'reconciler prune --confirm': %s\n", strings.Join(paused, ", "))
		return err
	}
	return nil
}
