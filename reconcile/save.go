package reconcile

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// What the loop must not forget is made durable in batches, one in flight, and counts from then on only: an edit, a hold
// or a UID that is not on disk governs nothing. A disk that fails so stops changes, and nothing else: what is
// remembered goes on governing.

// batch is what is being made durable.
type batch struct {
	order  *SaveOrder
	asks   map[spec.Key][]*ask
	failed int // batches in a row
	until  time.Duration
}

// wantsSave reports whether a server's memory is not what it should be.
func (s *server) wantsSave(now time.Time) bool {
	switch {
	case s.mem == nil && !s.keeper:
		return false // its records may tell that it has a UID
	case len(s.asks) > 0, s.dubious, s.rescheduled, s.last.drop && s.mem != nil, s.wantsPause(), s.recounts(), s.turned():
		return true
	case s.mem != nil && s.mem.Hold != nil && !s.mem.Hold.Until.IsZero() && !now.Before(s.mem.Hold.Until):
		return true
	}
	return s.accept(func() string { return "" }, now) != nil
}

// save makes the next batch of all servers whose memory is to change. It answers nil when there is none, or one is in flight.
func (l *Loop) save(now state.Moment) *Order {
	if l.batch.order != nil || len(l.unsaved) == 0 && len(l.jobs.unsaved) == 0 {
		return nil
	}
	if now.Uptime < l.batch.until {
		l.soonest(l.batch.until)
		return nil
	}
	order := &SaveOrder{Memories: map[spec.Key]*Memory{}, Jobs: l.saveJobs()}
	asks := map[spec.Key][]*ask{}
	// By key, so that the UIDs that a simulation hands out are always handed to the same servers.
	servers := slices.SortedFunc(maps.Keys(l.unsaved), func(a, b *server) int { return compareKeys(a.key, b.key) })
	clear(l.unsaved)
	for _, s := range servers {
		next, answered := l.next(s, now.Wall)
		if next == s.mem && !s.dubious {
			continue
		}
		order.Memories[s.key] = next
		if next == nil {
			s.doubtful = true // should it come back meanwhile, it waits for the answer
		}
		if len(answered) > 0 {
			asks[s.key] = answered
		}
	}
	if len(order.Memories) == 0 && len(order.Jobs) == 0 {
		return nil
	}
	l.batch.order, l.batch.asks = order, asks
	return &Order{Save: order}
}

// next is what a server's memory shall be, and the requests that are then fulfilled. Those that change nothing, and
// those that are refused, are answered at once.
func (l *Loop) next(s *server, now time.Time) (*Memory, []*ask) {
	queue := s.asks
	s.asks = nil
	if s.last.drop && len(queue) == 0 {
		return nil, nil
	}
	m := s.mem
	if next := s.accept(l.opts.NewUID, now); next != nil {
		m = next
	}
	if m != nil {
		m = l.reschedule(s, m, now)
	}
	if m != nil && m.Hold != nil && !m.Hold.Until.IsZero() && !now.Before(m.Hold.Until) {
		expired := *m
		expired.Hold = nil
		m = &expired
	}
	if m != nil && s.wantsPause() {
		paused := *m
		paused.Pause = s.pause
		m = &paused
	}
	if m != nil && s.recounts() {
		counted := *m
		counted.Countdown = s.last.countdown
		m = &counted
	}
	if m != nil && s.turned() {
		turned := *m
		turned.Unready = s.unready()
		m = &turned
	}
	var fulfilled []*ask
	for _, q := range queue {
		base := m
		if base == nil {
			base = s.blank(l.opts.NewUID, now)
		}
		last, running := s.lastRun()
		next, err := q.apply(base, s.manifestState(), last, running, now)
		if q.job != nil {
			l.jobs.touch(s.key)
		}
		switch {
		case err != nil:
			q.answer <- err
		case next == base:
			q.answer <- nil
		default:
			m = next
			fulfilled = append(fulfilled, q)
		}
	}
	return m, fulfilled
}

// blank is the memory of a server that was never good, or that is in nobody's memory.
func (s *server) blank(newUID func() string, now time.Time) *Memory {
	uid, generation := "", int64(0)
	for _, l := range s.lanes {
		if l.facts.UID != "" {
			uid = l.facts.UID
			if l.facts.Run != nil {
				generation = l.facts.Run.Generation
			}
		}
	}
	if uid == "" {
		uid = newUID()
	}
	return &Memory{UID: uid, CreatedAt: now, Generation: generation, ChangedAt: now, State: s.manifestState()}
}

// manifestState is the state that the manifest asks for.
func (s *server) manifestState() string {
	switch {
	case s.object != nil:
		return s.object.Object.Wish()
	case s.mem != nil && s.mem.State != "":
		return s.mem.State
	}
	return spec.WishRunning
}

// saved takes the answer to a batch.
func (l *Loop) saved(o *SaveOrder, err error, now state.Moment) {
	if o != l.batch.order {
		return
	}
	asks := l.batch.asks
	l.batch.order, l.batch.asks = nil, nil
	if err != nil {
		l.batch.failed++
		l.batch.until = now.Uptime + min(retryFirst<<min(l.batch.failed-1, 20), retryMost)
		l.opts.Log.Error("cannot record what is wanted; tried again", "error", err)
	} else {
		l.batch.failed, l.batch.until = 0, 0
	}
	l.savedJobs(o.Jobs, err, now)
	for key, m := range o.Memories {
		for _, q := range asks[key] {
			if err != nil {
				q.answer <- fmt.Errorf("%w: %w", ErrUnrecorded, err)
				continue
			}
			q.answer <- nil
		}
		s := l.servers[key]
		if s == nil {
			continue
		}
		s.dubious, s.doubtful = err != nil, err != nil && (m == nil || s.doubtful)
		if err == nil {
			was := s.mem
			s.remember(m)
			s.tellAsks(asks[key], now.Wall)
			if was != nil {
				l.tellMissed(s, was.Schedules, now.Wall)
			}
		}
		l.touch(s)
	}
}

// write carries out a batch. After an error nobody knows what of it the store has: the next batch writes it all again.
func (o *SaveOrder) write(ctx context.Context, store Store, jobs JobStore) error {
	for _, key := range slices.SortedFunc(maps.Keys(o.Memories), compareKeys) {
		m, err := o.Memories[key], error(nil)
		if m == nil {
			err = store.Delete(storeKey(key))
		} else {
			err = store.Set(storeKey(key), *m)
		}
		if err != nil {
			return fmt.Errorf("cannot record %s: %w", key, err)
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(o.Jobs), compareKeys) {
		m, err := o.Jobs[key], error(nil)
		if m == nil {
			err = jobs.Delete(storeKey(key))
		} else {
			err = jobs.Set(storeKey(key), *m)
		}
		if err != nil {
			return fmt.Errorf("cannot record job %s: %w", key, err)
		}
	}
	if len(o.Jobs) > 0 {
		if err := jobs.Flush(ctx); err != nil {
			return fmt.Errorf("cannot make what was recorded of jobs survive a power cut: %w", err)
		}
	}
	if len(o.Memories) == 0 {
		return nil
	}
	if err := store.Flush(ctx); err != nil {
		return fmt.Errorf("cannot make what was recorded survive a power cut: %w", err)
	}
	return nil
}

// storeKey is a server's key in the store: "namespace/name".
func storeKey(k spec.Key) string { return k.Namespace + "/" + k.Name }

func parseStoreKey(s string) (spec.Key, bool) {
	namespace, name, ok := strings.Cut(s, "/")
	k := spec.Key{Namespace: namespace, Name: name}
	return k, ok && spec.IsLabel(namespace) && spec.IsLabel(name)
}
