package dir

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fsnotify/fsnotify"

	"reconciler.dev/reconciler/spec"
)

// run is one life of a source. All of it but what a worker has in hand is the owner's, the goroutine of [Source.Run].
type run struct {
	*Source
	watcher  atomic.Pointer[fsnotify.Watcher] // nil = there is none: polling
	blind    error                            // why there is none
	tryWatch time.Time                        // when to try again
	events   chan fsnotify.Event              // nil without a watcher
	errors   chan error
	hearing  sync.WaitGroup // hears the watcher's errors
	answers  chan answerTo

	tended []*tended
	state  *state
	serial uint64 // of the Set that is published
	// announced is when the last Set was announced.
	announced time.Time
	first     []*answerTo // of each root before the first Set; nil once there is one
	prime     time.Time   // when the first Set does not wait any longer

	vault       vault
	inventories map[string]*inventory // not restored yet, by ID
	ids         []string
	saver       *saver
}

// Run watches and reads until ctx ends, and then returns nil. Another error says that it could not begin, or that a file
// system did not let go of us within two seconds. It may be called once.
func (s *Source) Run(ctx context.Context) error {
	if s.running.Swap(true) {
		return errors.New("the directory source was started before; make a new one")
	}
	defer close(s.done)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &run{Source: s, answers: make(chan answerTo)}
	if err := r.open(); err != nil {
		return err
	}
	r.startWatching(time.Now())
	defer r.stopWatching()
	var workers, saving sync.WaitGroup
	for _, t := range r.tended {
		if t.worker != nil {
			workers.Go(func() { t.worker.run(ctx, r.answers) })
		}
	}
	if r.saver != nil {
		saving.Go(r.saver.run)
	}
	r.loop(ctx)
	for _, t := range r.tended {
		if t.worker != nil {
			close(t.worker.jobs)
		}
	}
	if r.saver != nil {
		close(r.saver.offered)
	}
	saving.Wait()
	return waitFor(&workers, 2*time.Second)
}

// waitFor waits for the workers. One that hangs in its file system is left behind: nothing can end it.
func waitFor(workers *sync.WaitGroup, limit time.Duration) error {
	ended := make(chan struct{})
	go func() {
		workers.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-time.After(limit):
		return fmt.Errorf("cannot end the reading of a directory of manifests: its file system did not answer within %v", limit)
	}
}

// open reads what was known before and makes the parts.
func (r *run) open() error {
	r.state = newState(r.roots, r.cfg.AllowEmpty)
	now := time.Now()
	r.prime = now.Add(primeLimit)
	r.first = make([]*answerTo, len(r.roots))
	for i := range r.roots {
		r.tended = append(r.tended, &tended{settling: settling{}, scanAt: now,
			worker: &worker{root: i, scanner: r.scanner(i), jobs: make(chan job, 1)}})
	}
	if r.cfg.LastGood == "" {
		return nil
	}
	r.vault = vault{dir: r.cfg.LastGood}
	found, broken, err := r.vault.open()
	if err != nil {
		return err
	}
	r.saver = &saver{vault: r.vault, log: r.cfg.Log, offered: make(chan *state, 1)}
	for i, root := range r.roots {
		id := sourceID(root.Path)
		r.ids = append(r.ids, id)
		r.saver.paths = append(r.saver.paths, root.Path)
		if broken[id] {
			r.state.roots[i].forgetful = true
			r.cfg.Log.Error("what was known of a source cannot be read and was set aside", "source", root.Name, "id", id)
		}
	}
	r.inventories = found
	for id, inv := range found {
		if slices.Contains(r.ids[:len(r.roots)], id) {
			continue
		}
		// A source that is not given to us any more: its objects wait for a person.
		former := newRootState(r.freeName(inv.Name), r.cfg.AllowEmpty)
		former.former, former.verdict = true, verdict{}
		r.state.roots = append(r.state.roots, former)
		r.tended = append(r.tended, &tended{former: true})
		r.ids = append(r.ids, id)
		r.saver.paths = append(r.saver.paths, inv.Path)
	}
	r.saver.ids = r.ids
	r.saver.written = make([]*inventory, len(r.ids))
	for _, id := range r.ids {
		r.saver.whole = append(r.saver.whole, found[id].contents())
	}
	return nil
}

// freeName is the name, or one made of it that no root has.
func (r *run) freeName(name string) string {
	taken := func(root *rootState) bool { return root.name == name }
	for slices.ContainsFunc(r.state.roots, taken) {
		name += "-former"
	}
	return name
}

// scanner is the scanner of a root.
func (s *Source) scanner(i int) *scanner {
	return &scanner{path: s.roots[i].Path, decode: s.cfg.Decode, now: time.Now, settle: true, keep: s.cfg.LastGood != "",
		fail: s.hooks.fail, cache: map[string]cached{}}
}

// loop is the owner's turn after turn.
func (r *run) loop(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case ev := <-r.events:
			r.event(ev)
		case err := <-r.errors:
			r.lostEvents(err)
		case a := <-r.answers:
			r.answered(&a)
		case reply := <-r.confirms:
			reply <- r.confirm()
		case <-timer.C:
		}
		r.drain()
		timer.Reset(max(0, time.Until(r.dispatch())))
	}
}

// confirm lets go of what is held.
func (r *run) confirm() []spec.ObjectKey {
	next, keys := r.state.confirm()
	r.state = next
	for _, t := range r.tended {
		if !t.former {
			t.twice(time.Now())
		}
	}
	return keys
}

// enter merges looks into the state, publishes, and has the state kept.
func (r *run) enter(looks ...look) {
	for _, l := range looks {
		if l.scan.full {
			l.scan.notice = r.notice(l.root, l.scan.notice)
		}
	}
	before := r.state
	r.state = before.merge(append(looks, r.formerLooks(looks)...)...)
	r.tell(before)
	if r.saver != nil && (r.serial != r.state.serial || r.saver.notice() != "") {
		r.saver.offer(r.state)
	}
	if r.state.set == before.set {
		return
	}
	now := time.Now()
	announce := r.state.serial != r.serial || now.Sub(r.announced) >= freshTime
	if announce {
		r.announced = now
	}
	r.serial = r.state.serial
	r.publish(r.state.set, announce)
}

// tell logs what a person who reads the log should know.
func (r *run) tell(before *state) {
	for i, root := range r.state.roots {
		was, log := before.roots[i], r.cfg.Log.With("source", root.name)
		switch {
		case root.verdict == was.verdict:
		case root.verdict.cause == complete:
			log.Info("a directory of manifests is seen whole")
		default:
			log.Warn("a directory of manifests is not seen whole", "reason", root.verdict.reason)
		}
		if len(root.paused) > 0 && len(was.paused) == 0 {
			log.Warn("removals wait for `reconciler prune --confirm`", "objects", len(root.paused))
		}
	}
}

// formerLooks are looks at the sources that are not given to us any more, which hold nothing. They are looked at when all
// that are given to us have just been seen whole: their objects may have moved there.
func (r *run) formerLooks(looks []look) []look {
	if len(r.state.roots) == len(r.roots) {
		return nil
	}
	var last *scanResult
	fresh := map[int]bool{}
	for _, l := range looks {
		if l.scan.full && l.scan.verdict.cause == complete {
			last, fresh[l.root] = l.scan, true
		}
	}
	for i := range r.roots {
		if !fresh[i] && r.state.roots[i].verdict.cause != complete {
			return nil
		}
	}
	if last == nil {
		return nil
	}
	var out []look
	for i := len(r.roots); i < len(r.state.roots); i++ {
		out = append(out, look{root: i, scan: &scanResult{full: true, start: last.start, end: last.end,
			notice: "this directory is not given to the reconciler any more: give it again, or let its objects go with `reconciler prune --confirm`"}})
	}
	return out
}
