package dir

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync/atomic"

	"reconciler.dev/reconciler/spec"
)

// Root is one directory of manifests.
type Root struct {
	Name string // public; "" = the base name of the path
	Path string // absolute, or relative to the working directory; may be, or lead through, symbolic links
}

// Config is what a source is made of. Roots is required.
type Config struct {
	Roots []Root
	// AllowEmpty lets a directory without a manifest count, and any number of objects be removed without a confirmation.
	AllowEmpty bool
	// LastGood is the directory, ours alone, where the last good content of the files is kept; it is made if need be, with
	// mode 0700. "" = it is not kept.
	LastGood string
	Decode   func(file string, data []byte) spec.File // nil = [spec.Decode]
	Log      *slog.Logger                             // nil = none. It is told absolute paths
}

// Source publishes what a set of directories wants.
type Source struct {
	roots    []Root // names and absolute paths filled in
	cfg      Config
	latest   atomic.Pointer[spec.Set]
	changed  chan struct{}
	confirms chan chan []spec.ObjectKey
	done     chan struct{} // closed when Run has returned
	running  atomic.Bool
	hooks    hooks
}

// hooks are for tests.
type hooks struct {
	fail    func(op, path string) error // an error for an operation on a path of a source
	polling error                       // why there is no watcher
	watch   func(dir string) error      // why a directory cannot be watched
	lost    func()                      // events were lost
	scanned func(root int, scan *scanResult)
	// published hears of every Set, the unannounced ones too.
	published func(*spec.Set)
}

// New makes a source. It touches no directory. An error names the root that is wrong.
func New(cfg Config) (*Source, error) {
	s := &Source{cfg: cfg, changed: make(chan struct{}, 1), confirms: make(chan chan []spec.ObjectKey), done: make(chan struct{})}
	if s.cfg.Decode == nil {
		s.cfg.Decode = spec.Decode
	}
	if s.cfg.Log == nil {
		s.cfg.Log = slog.New(slog.DiscardHandler)
	}
	if len(cfg.Roots) == 0 {
		return nil, errors.New("no directory of manifests is given; give one with --manifests DIR")
	}
	var err error
	if s.roots, err = named(cfg.Roots); err != nil {
		return nil, err
	}
	return s, nil
}

// named fills in the absolute paths and the names of the roots, and refuses the same one twice.
func named(roots []Root) ([]Root, error) {
	out := make([]Root, len(roots))
	names, paths := map[string]bool{}, map[string]bool{}
	for i, r := range roots {
		if r.Path == "" {
			return nil, errors.New("the path of a directory of manifests is empty; name a directory")
		}
		abs, err := filepath.Abs(r.Path)
		if err != nil {
			return nil, fmt.Errorf("cannot find the directory of manifests %q: %w", r.Path, err)
		}
		if paths[abs] {
			return nil, fmt.Errorf("the directory of manifests %q is given twice; name it once", r.Path)
		}
		paths[abs] = true
		if r.Name != "" && names[r.Name] {
			return nil, fmt.Errorf("the source name %q is given twice; rename one", r.Name)
		}
		names[r.Name] = true
		out[i] = Root{Name: r.Name, Path: abs}
	}
	for i := range out {
		if out[i].Name != "" {
			continue
		}
		base := filepath.Base(out[i].Path)
		name := base
		for n := 2; names[name]; n++ {
			name = fmt.Sprintf("%s-%d", base, n)
		}
		names[name] = true
		out[i].Name = name
	}
	return out, nil
}

// Latest is the newest Set; nil before the first. It never blocks.
func (s *Source) Latest() *spec.Set { return s.latest.Load() }

// Changed has one slot, which is filled when Latest answers differently. A Set that differs only in the times of the last
// successes is announced at most once in about half a minute: it wants nothing new.
func (s *Source) Changed() <-chan struct{} { return s.changed }

// ErrStopped says that the source does not run any more.
var ErrStopped = errors.New("the directory source has stopped")

// ConfirmPrune lets go of the objects whose removal is held now, and returns them, sorted. Each is removed by the next
// scan, which follows at once, if that still does not find it. The errors are those of ctx, and [ErrStopped].
func (s *Source) ConfirmPrune(ctx context.Context) ([]spec.ObjectKey, error) {
	reply := make(chan []spec.ObjectKey, 1)
	select {
	case s.confirms <- reply:
		return <-reply, nil
	case <-s.done:
		return nil, ErrStopped
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// publish hands out a Set, and announces it.
func (s *Source) publish(set *spec.Set, announce bool) {
	s.latest.Store(set)
	if s.hooks.published != nil {
		s.hooks.published(set)
	}
	if !announce {
		return
	}
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// Load reads the directories once, and nothing else: no watching, no last good content, nothing is waited for. A path may be
// a single file. It is for looking at manifests, not for running them.
func Load(cfg Config) (*spec.Set, error) {
	s, err := New(cfg)
	if err != nil {
		return nil, err
	}
	st := newState(s.roots, true)
	looks := make([]look, len(s.roots))
	for i := range s.roots {
		sc := s.scanner(i)
		sc.settle, sc.file, sc.watch = false, true, nil
		looks[i] = look{root: i, scan: sc.full().scan}
	}
	return st.merge(looks...).set, nil
}
