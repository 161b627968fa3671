package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"reconciler.dev/reconciler/cmd/reconciler/internal/api"
	"reconciler.dev/reconciler/cmd/reconciler/internal/client"
	"reconciler.dev/reconciler/spec"
)

// judge says of one look at a server whether the waiting is over; raw is all that there is of it. nil = there is no such
// server.
type judge func(s *api.Server, raw json.RawMessage) (verdict, error)

// look says of one look at an object in what state it is, and whether the waiting is over; nil = there is none.
type look func(raw json.RawMessage) (state string, v verdict, err error)

// waiter waits until each of its objects is where it shall be: by one watch, however many there are.
type waiter struct {
	e         *env
	client    *client.Client
	resource  string // "" = servers
	namespace string
	timeout   time.Duration // 0 = none
	once      bool          // look once, and time out at what is not there
	whole     bool          // the judges want to see the spec too
	awaits    bool          // a reconciler that is not there yet is waited for too
	waits     []*waiting
}

type waiting struct {
	key   spec.Key
	look  look
	done  func()
	over  bool
	state string // as last seen, for progress
	stall string // what keeps it from there, as last seen; "" = nothing
}

// timeoutError says which objects did not get there in time.
type timeoutError struct {
	resource string
	what     string
	keys     []spec.Key
	absent   []spec.Key // those of them that were never there
	stalls   []string   // what keeps the others, a line each
}

func (e *timeoutError) Error() string {
	names := make([]string, len(e.keys))
	for i, k := range e.keys {
		names[i] = ref(e.resource, k)
	}
	text := fmt.Sprintf("timed out waiting for %s of %s", e.what, strings.Join(names, ", "))
	for _, k := range e.absent {
		text += fmt.Sprintf("\n%s is in no manifest that was read; see 'reconciler get sources'", ref(e.resource, k))
	}
	for _, line := range e.stalls {
		text += "\n" + line
	}
	return text
}

// add waits for a server too.
func (w *waiter) add(k spec.Key, j judge, done func()) {
	var one *waiting
	one = w.addLook(k, func(raw json.RawMessage) (string, verdict, error) {
		if one.stall = ""; raw == nil {
			v, err := j(nil, nil)
			return "", v, err
		}
		var s api.Server
		if err := json.Unmarshal(raw, &s); err != nil {
			return "", missed, fmt.Errorf("cannot read the answer: %w", err)
		}
		one.stall = stallText(s.Status)
		v, err := j(&s, raw)
		return stateText(s.Status, w.e.now()), v, err
	}, done)
}

// addLook waits for another object too.
func (w *waiter) addLook(k spec.Key, l look, done func()) *waiting {
	one := &waiting{key: k, look: l, done: done}
	w.waits = append(w.waits, one)
	return one
}

// stallText says what keeps a server from what is wished of it; "" = nothing that is known. A faulty file is not told: it keeps back only
// what it would change.
func stallText(st spec.ServerStatus) string {
	if conditionStatus(st, spec.ConditionStalled) != "True" || conditionStatus(st, spec.ConditionAccepted) == "False" {
		return unreadyText(st)
	}
	return "is stalled: " + why(st)
}

// unreadyText says what a server that runs lacks to be Ready; "" = nothing, or nobody says.
func unreadyText(st spec.ServerStatus) string {
	if st.State != spec.StateStarting && st.State != spec.StateRunning {
		return ""
	}
	for _, kind := range []string{spec.ConditionEndpointsReachable, spec.ConditionReady} {
		for _, c := range st.Conditions {
			if c.Type == kind && c.Status == "False" && c.Message != "" {
				return "is not ready: " + c.Message + " (" + c.Reason + ")"
			}
		}
	}
	return ""
}

var errAllDone = errors.New("all done")

// run watches until every object is judged. Those that miss their goal are reported together, at the end.
func (w *waiter) run(ctx context.Context) error {
	if w.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, w.timeout)
		defer cancel()
	}
	p := newProgress(w.e)
	defer p.clear()
	var misses []error
	look := func(k spec.Key, raw json.RawMessage) {
		for _, one := range w.waits {
			if one.over || one.key != k {
				continue
			}
			state, v, err := one.look(raw)
			if raw != nil {
				one.state = state
			}
			switch v {
			case reached:
				one.over = true
				p.clear()
				one.done()
			case missed:
				one.over = true
				misses = append(misses, err)
			}
		}
		p.show(w.pending())
	}
	err := w.watch(ctx, look)
	if w.awaits && !w.once {
		err = w.await(ctx, look, err)
	}
	p.clear()
	switch {
	case errors.Is(err, errAllDone):
		return errors.Join(misses...)
	case errors.Is(err, context.DeadlineExceeded) && (w.timeout > 0 || w.once):
		late := &timeoutError{resource: w.resource, what: "the condition"}
		for _, one := range w.pending() {
			late.keys = append(late.keys, one.key)
			if one.state == "" {
				late.absent = append(late.absent, one.key)
			}
			if one.stall != "" {
				late.stalls = append(late.stalls, ref(w.resource, one.key)+" "+one.stall)
			}
		}
		return late
	}
	return err
}

// await goes on while there is no reconciler to ask: it may be about to start.
func (w *waiter) await(ctx context.Context, look func(spec.Key, json.RawMessage), err error) error {
	began, told := time.Now(), false
	for pause := time.Millisecond; errors.Is(err, client.ErrNotRunning) || errors.Is(err, client.ErrUnresponsive); pause = min(2*pause, 100*time.Millisecond) {
		if !told && time.Since(began) > lateAfter {
			told = true
			w.e.note(err.Error() + "; this waits for it")
		}
		select {
		case <-time.After(pause): // nobody tells
		case <-ctx.Done():
			return fmt.Errorf("timed out: %w", err)
		}
		err = w.watch(ctx, look)
	}
	return err
}

// watch shows every object as it is now, also those that are not there, and then every change.
func (w *waiter) watch(ctx context.Context, look func(spec.Key, json.RawMessage)) error {
	synced := false
	seen := map[spec.Key]bool{}
	q := url.Values{}
	if !w.whole {
		q.Set(api.QueryView, api.ViewSummary)
	}
	err := w.client.Watch(ctx, api.ListPath(or(w.resource, api.Servers), w.namespace), q, func(ev api.WatchEvent) error {
		if ev.Type == api.Bookmark { // all that there is has been sent
			for _, one := range w.waits {
				if !synced && !seen[one.key] {
					look(one.key, nil)
				}
			}
			synced = true
			if w.once && len(w.pending()) > 0 {
				return context.DeadlineExceeded
			}
			return w.finished()
		}
		var s struct {
			Metadata api.ObjectMeta `json:"metadata"`
		}
		if err := json.Unmarshal(ev.Object, &s); err != nil {
			return fmt.Errorf("cannot read the answer: %w", err)
		}
		k := s.Metadata.Key()
		seen[k] = true
		if ev.Type == api.Deleted {
			look(k, nil)
		} else {
			look(k, ev.Object)
		}
		if !synced {
			return nil
		}
		return w.finished()
	})
	if err == io.EOF {
		return errors.New("the reconciler has ended while this command waited; what it runs goes on without it")
	}
	return err
}

func (w *waiter) finished() error {
	if len(w.pending()) == 0 {
		return errAllDone
	}
	return nil
}

func (w *waiter) pending() []*waiting {
	var out []*waiting
	for _, one := range w.waits {
		if !one.over {
			out = append(out, one)
		}
	}
	return out
}
