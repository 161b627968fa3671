package api

import (
	"cmp"
	"net/http"
	"slices"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/reconcile"
	"reconciler.dev/reconciler/spec"
)

// getHistory is every run of a server, of all its scopes, in the order of their ends; of one that was removed, what
// the archive has.
func (s *Service) getHistory(w http.ResponseWriter, r *http.Request) error {
	v, err := s.view(r)
	if err != nil {
		if v = s.removed(r, r.PathValue("name")); v == nil {
			return err
		}
	}
	h := historyOf(v)
	if s.administers(peerOfRequest(r)) {
		written, err := s.Host.Written(r.Context(), v.Key)
		if err != nil {
			s.Log.Debug("the keeper cannot be asked what was written", "error", err)
			warn(w, "the keeper does not tell what was written to the console")
		}
		h.Console = consoleEntries(written)
	}
	return reply(w, h)
}

func consoleEntries(written []observe.Written) []ConsoleEntry {
	entries := make([]ConsoleEntry, 0, len(written))
	for i := range written {
		d := &written[i].Delivery
		e := ConsoleEntry{
			At: d.At, By: d.By, Profile: written[i].Scope.Profile, Run: d.Run, Rail: d.Rail, Command: d.Command, Result: string(d.Result), Reason: d.Reason,
		}
		if d.Keys != nil {
			e.Keys, e.Bytes, e.Until = true, d.Keys.Bytes, timeRef(d.Keys.Until)
		}
		for _, l := range written[i].Lines {
			e.Lines = append(e.Lines, ConsoleLine{At: l.At, Text: l.Text, Withheld: l.Withheld, Earlier: l.Earlier})
		}
		entries = append(entries, e)
	}
	slices.SortStableFunc(entries, func(a, b ConsoleEntry) int { return a.At.Compare(b.At) })
	return entries
}

// removed is what is kept of a server that is gone, nil when there is nothing or nobody tells.
func (s *Service) removed(r *http.Request, name string) *reconcile.ServerView {
	k := spec.Key{Namespace: r.PathValue("namespace"), Name: name}
	past, err := s.Host.Past(r.Context(), k)
	if err != nil {
		s.Log.Debug("the archive cannot be asked", "error", err)
	}
	if len(past) == 0 {
		return nil
	}
	return &reconcile.ServerView{Key: k, Profile: past[len(past)-1].Scope.Profile, Facts: past}
}

func historyOf(v *reconcile.ServerView) History {
	h := History{TypeMeta: typeMeta("History"), Metadata: metaOf(v.Key), Items: []HistoryEntry{}}
	for _, f := range v.Facts {
		for _, x := range f.Exits {
			h.Items = append(h.Items, HistoryEntry{
				Number:     x.Number,
				Profile:    f.Scope.Profile,
				Generation: x.Generation,
				Cause:      x.Cause,
				Why:        x.Why,
				By:         x.By,
				ExitStatus: x.ExitStatus,
			})
		}
		if f.Run != nil && !f.Run.Over() {
			h.Current = currentRun(f, v.Status.State)
		}
	}
	slices.SortStableFunc(h.Items, func(a, b HistoryEntry) int {
		return cmp.Or(a.FinishedAt.Compare(b.FinishedAt), cmp.Compare(a.Number, b.Number))
	})
	return h
}

func currentRun(f *observe.Facts, state spec.ServerState) *CurrentRun {
	return &CurrentRun{
		Number:    f.Run.Number,
		Profile:   f.Scope.Profile,
		State:     state,
		Cause:     f.Run.Cause,
		By:        f.Run.By,
		StartedAt: timeRef(f.Run.StartedAt),
	}
}
