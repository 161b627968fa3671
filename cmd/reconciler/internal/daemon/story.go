package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"reconciler.dev/reconciler/reconcile"
	"reconciler.dev/reconciler/spec"
)

// story tells in the log what happens to the servers and what is wrong with the manifests, so that who looks at nothing
// else sees it too. The log must not block: the loop tells.
type story struct {
	log   *slog.Logger
	first func(spec.Key) // hears of the first server that is Ready, or was taken over; nil = nobody does
	now   func() time.Time

	once    sync.Once
	budgets map[spec.Key]*budget // the loop's alone
}

// The events that mean that a server is there.
const (
	eventReady   = "Ready"
	eventAdopted = "Adopted"
)

// event logs an event of a server. One that has more to tell than its budget is cut short.
func (s *story) event(key spec.Key, e reconcile.Event) {
	if n, ok := s.budget(key).take(s.now()); ok {
		level := slog.LevelInfo
		if e.Type == reconcile.EventWarning {
			level = slog.LevelWarn
		}
		args := []any{"server", key.String(), "message", e.Message}
		if n > 0 {
			args = append(args, "untold", n)
		}
		s.log.Log(context.Background(), level, e.Reason, args...)
	}
	if s.first != nil && (e.Reason == eventReady || e.Reason == eventAdopted) {
		s.once.Do(func() { s.first(key) })
	}
}

func (s *story) budget(key spec.Key) *budget {
	b := s.budgets[key]
	if b == nil {
		if s.budgets == nil || len(s.budgets) > maxBudgets {
			s.budgets = map[spec.Key]*budget{} // of servers that are gone, above all
		}
		b = &budget{left: budgetBurst}
		s.budgets[key] = b
	}
	return b
}

// A server may tell budgetBurst events at once and one more every budgetEvery: a crash loop is told, and does not fill
// the log.
const (
	budgetBurst = 60
	budgetEvery = 2 * time.Second
	maxBudgets  = 20000
)

type budget struct {
	left   int
	at     time.Time // up to which left was refilled
	untold int
}

// take reports whether one more may be told, and how many were not since the last.
func (b *budget) take(now time.Time) (untold int, ok bool) {
	if b.left == budgetBurst || b.at.IsZero() {
		b.at = now
	}
	if n := int(now.Sub(b.at) / budgetEvery); n > 0 {
		b.left = min(b.left+n, budgetBurst)
		b.at = b.at.Add(time.Duration(n) * budgetEvery)
	}
	if b.left == 0 {
		b.untold++
		return 0, false
	}
	b.left--
	untold, b.untold = b.untold, 0
	return untold, true
}

// faults logs what is wrong with the manifests whenever that changes, until ctx ends.
func (s *story) faults(ctx context.Context, loop *reconcile.Loop) error {
	changed, end := loop.Watch()
	defer end()
	told := map[string][]spec.Fault{}
	var last []spec.SourceState
	for {
		if sources := loop.Snapshot().Sources; !sameSlice(sources, last) {
			last = sources
			told = s.tellFaults(told, sources)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}

func sameSlice(a, b []spec.SourceState) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// faultsTold is how many faults of a file are logged; `get sources` shows all.
const faultsTold = 5

// tellFaults logs the difference between the faults that were told and those that there are, and returns the latter.
func (s *story) tellFaults(told map[string][]spec.Fault, sources []spec.SourceState) map[string][]spec.Fault {
	now := map[string][]spec.Fault{}
	for i := range sources {
		for j := range sources[i].Files {
			f := &sources[i].Files[j]
			id := sources[i].Name + "/" + f.Path
			if len(f.Faults) > 0 {
				now[id] = f.Faults
			}
			if slices.Equal(told[id], f.Faults) {
				continue
			}
			for k, fault := range f.Faults {
				if k == faultsTold {
					s.log.Warn("a manifest is faulty: "+fmt.Sprintf("%d more faults", len(f.Faults)-k)+"; see 'reconciler get sources'", "source", sources[i].Name, "file", f.Path)
					break
				}
				s.log.Warn("a manifest is faulty: "+fault.Error(), "source", sources[i].Name)
			}
			if len(f.Faults) == 0 {
				s.log.Info("a manifest is in order again", "source", sources[i].Name, "file", f.Path)
			}
		}
	}
	return now
}
