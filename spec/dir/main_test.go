package dir

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/spec"
)

func TestMain(m *testing.M) {
	unix.Umask(0o022) // the modes that tests give are those they mean
	goleak.VerifyTestMain(m)
}

// toyDecode decodes a toy language in which every rule of this package can be told: documents are separated by `---`; a
// document is lines `server NAME VALUE`, `profile NAME`, `keep`. `bad` is a fault. A file without any is not ours.
func toyDecode(file string, data []byte) spec.File {
	f := spec.File{Name: file, Reason: "neither apiVersion nor kind"}
	for i, doc := range bytes.Split(data, []byte("---\n")) {
		d := spec.Document{Index: i, Line: 1}
		meta := spec.Meta{Namespace: spec.DefaultNamespace}
		value := ""
		for _, line := range strings.Split(string(doc), "\n") {
			words := strings.Fields(line)
			switch {
			case len(words) == 0:
			case words[0] == "server" || words[0] == "profile":
				d.Kind, meta.Name = words[0], words[1]
				if len(words) > 2 {
					value = words[2]
				}
			case words[0] == "keep":
				meta.Annotations = map[string]string{spec.PruneAnnotation: spec.PruneDisabled}
			case words[0] == "bad":
				f.Faults = append(f.Faults, spec.Fault{File: file, Line: 1, Kind: spec.FaultInvalid, Detail: "is bad"})
			}
		}
		if d.Kind == "" {
			continue
		}
		f.Ours = true
		d.Key = meta.Key()
		switch d.Kind {
		case "server":
			d.Kind, d.Server = spec.KindServer, &spec.Server{Meta: meta, Spec: spec.ServerSpec{Profile: value}}
		case "profile":
			d.Kind, d.Profile = spec.KindProfile, &spec.Profile{Meta: meta}
		}
		f.Documents = append(f.Documents, d)
	}
	return f
}

// brief is a Set in one line: `server/a=1 server/b=2~ profile/p?`, sorted. `~` is stale, `?` absent.
func brief(set *spec.Set) string {
	if set == nil {
		return "none"
	}
	var keys []spec.ObjectKey
	marks := map[spec.ObjectKey]string{}
	note := func(kind string, k spec.Key, value string, stale, absent bool) {
		key := spec.ObjectKey{Kind: kind, Key: k}
		keys = append(keys, key)
		if value != "" {
			marks[key] = "=" + value
		}
		if stale {
			marks[key] += "~"
		}
		if absent {
			marks[key] += "?"
		}
	}
	for k, a := range set.Servers {
		note(spec.KindServer, k, a.Object.Spec.Profile, a.Stale, a.Absent)
	}
	for k, a := range set.Profiles {
		note(spec.KindProfile, k, "", a.Stale, a.Absent)
	}
	sortKeys(keys)
	var words []string
	for _, k := range keys {
		words = append(words, k.String()+marks[k])
	}
	return strings.Join(words, " ")
}

// sourceOf is the state of the first source.
func sourceOf(set *spec.Set) spec.SourceState { return set.Sources[0] }

// fileOf is the state of a file of the first source.
func fileOf(set *spec.Set, path string) spec.FileState {
	for _, f := range set.Sources[0].Files {
		if f.Path == path {
			return f
		}
	}
	return spec.FileState{}
}

// rig is a source that runs on a real directory.
type rig struct {
	*Source
	t    testing.TB
	dir  string
	stop func()

	mu        sync.Mutex
	listeners []func(*spec.Set)
}

// listen has f called with every Set that is published from now on, by the source's own goroutine.
func (r *rig) listen(f func(*spec.Set)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.listeners = append(r.listeners, f)
}

// heard tells the listeners.
func (r *rig) heard(set *spec.Set) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range r.listeners {
		f(set)
	}
}

// begin runs a source over dir until the test ends or stop is called.
func begin(t testing.TB, cfg Config) *rig {
	t.Helper()
	if cfg.Decode == nil {
		cfg.Decode = toyDecode
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return start(t, s)
}

// start runs a source until the test ends or stop is called.
func start(t testing.TB, s *Source) *rig {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	r := &rig{Source: s, t: t, dir: s.roots[0].Path}
	s.hooks.published = r.heard
	go func() { ended <- s.Run(ctx) }()
	stopped := false
	r.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
	t.Cleanup(r.stop)
	return r
}

// patience bounds every wait; it is not what is measured.
const patience = 3 * time.Minute

// until waits for a Set that is as wanted.
func (r *rig) until(what string, ok func(*spec.Set) bool) *spec.Set {
	r.t.Helper()
	late := time.After(patience)
	// A Set that differs only in the time of a last success is not announced.
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if set := r.Latest(); set != nil && ok(set) {
			return set
		}
		select {
		case <-r.Changed():
		case <-tick.C:
		case <-late:
			set := r.Latest()
			r.t.Fatalf("no Set in which %s; the last: %s\n%s", what, brief(set), describe(set))
		}
	}
}

// untilBrief waits for a Set of that brief.
func (r *rig) untilBrief(want string) *spec.Set {
	r.t.Helper()
	return r.until("there is: "+want, func(s *spec.Set) bool { return brief(s) == want })
}

// describe is the sources of a Set, for a failed test.
func describe(set *spec.Set) string {
	if set == nil {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "known %v\n", set.Known)
	for _, s := range set.Sources {
		files := s.Files
		if len(files) > 20 {
			files = files[:20]
		}
		s.Files = nil
		fmt.Fprintf(&b, "%+v\n", s)
		for _, f := range files {
			fmt.Fprintf(&b, "  %+v\n", f)
		}
	}
	return b.String()
}

// scanCounter hears the worth of every full scan.
func scanCounter(s *Source) chan cause {
	ch := make(chan cause, 10000)
	s.hooks.scanned = func(_ int, scan *scanResult) { ch <- scan.verdict.cause }
	return ch
}

// put writes a file in place.
func put(t testing.TB, dir, path, text string) {
	t.Helper()
	full := filepath.Join(dir, path)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// rename writes a file by rename.
func rename(t testing.TB, dir, path, text string) {
	t.Helper()
	temp := filepath.Join(dir, ".new-"+strconv.Itoa(os.Getpid()))
	if err := os.WriteFile(temp, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(temp, filepath.Join(dir, path)); err != nil {
		t.Fatal(err)
	}
}

// drop removes a file.
func drop(t testing.TB, dir, path string) {
	t.Helper()
	if err := os.Remove(filepath.Join(dir, path)); err != nil {
		t.Fatal(err)
	}
}
