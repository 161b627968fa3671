package dir

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"reconciler.dev/reconciler/spec"
)

// again runs one more source over the same directories, as after our restart.
func again(t *testing.T, r *rig) *rig {
	t.Helper()
	r.stop()
	return begin(t, r.cfg)
}

func TestLastGoodSurvivesRestart(t *testing.T) {
	dir, vault := t.TempDir(), filepath.Join(t.TempDir(), "deep", "lastgood")
	put(t, dir, "a.yaml", "server a 1\n---\nserver z 1\n")
	put(t, dir, "b.yaml", "server b 1\n")
	r := begin(t, Config{Roots: []Root{{Path: dir}}, LastGood: vault})
	r.untilBrief("server/a=1 server/b=1 server/z=1")
	r.stop()
	put(t, dir, "a.yaml", "server a 2\nbad\n")
	r = again(t, r)
	r.until("a.yaml is invalid and its last good objects are there", func(s *spec.Set) bool {
		return brief(s) == "server/a=1~ server/b=1 server/z=1~" && fileOf(s, "a.yaml").State == spec.FileInvalid
	})
	// And once more: what was restored is kept.
	r = again(t, r)
	r.untilBrief("server/a=1~ server/b=1 server/z=1~")
	put(t, dir, "a.yaml", "server a 3\n")
	r.untilBrief("server/a=3 server/b=1")
	st, err := os.Stat(vault)
	if err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("the directory of last good manifests: %v, %v", st.Mode(), err)
	}
}

// The first Set after a restart already has everything: no object is missing from any Set while we look.
func TestFirstSetIsWhole(t *testing.T) {
	dir, vault := t.TempDir(), t.TempDir()
	put(t, dir, "a.yaml", "server a 1\n")
	put(t, dir, "b.yaml", "server b 1\n")
	r := begin(t, Config{Roots: []Root{{Path: dir}}, LastGood: vault})
	r.untilBrief("server/a=1 server/b=1")
	r.stop()
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	r = begin(t, r.cfg)
	<-r.Changed()
	set := r.Latest()
	if got := brief(set); got != "server/a=1~ server/b=1~" || set.Known {
		t.Fatalf("the first Set: %s, known %v", got, set.Known)
	}
	if s := sourceOf(set); s.Complete || !strings.Contains(s.Reason, "is not there") {
		t.Errorf("the source: %+v", s)
	}
	if err := os.Rename(dir+".away", dir); err != nil {
		t.Fatal(err)
	}
	r.until("all is known", func(s *spec.Set) bool { return s.Known && brief(s) == "server/a=1 server/b=1" })
}

// What was removed while we were away is removed by the same rules, and the last one is held.
func TestRemovedWhileAway(t *testing.T) {
	dir, vault := t.TempDir(), t.TempDir()
	put(t, dir, "a.yaml", "server a 1\n")
	put(t, dir, "b.yaml", "server b 1\n")
	put(t, dir, "c.yaml", "server c 1\nkeep\n")
	r := begin(t, Config{Roots: []Root{{Path: dir}}, LastGood: vault})
	r.untilBrief("server/a=1 server/b=1 server/c=1")
	r.stop()
	drop(t, dir, "b.yaml")
	drop(t, dir, "c.yaml")
	r = begin(t, r.cfg)
	<-r.Changed()
	if got := brief(r.Latest()); got != "server/a=1 server/b=1? server/c=1?" {
		t.Fatalf("the first Set: %s", got)
	}
	r.untilBrief("server/a=1 server/c=1?")
	r = again(t, r)
	r.untilBrief("server/a=1 server/c=1?")
	r.stop()
	drop(t, dir, "a.yaml")
	r = begin(t, r.cfg)
	held := func(s *spec.Set) bool { return len(sourceOf(s).PrunePaused) == 1 }
	r.until("a is held", held)
	r = again(t, r)
	r.until("a is held still", held)
	keys, err := r.ConfirmPrune(t.Context())
	if err != nil || len(keys) != 1 || keys[0].String() != "server/a" {
		t.Fatalf("confirmed: %v, %v", keys, err)
	}
	r.untilBrief("server/c=1?")
	r = again(t, r)
	r.untilBrief("server/c=1?")
}

// A directory that is not given to us any more takes its objects with it only when a person says so; what is in another
// directory now has moved.
func TestFormerSource(t *testing.T) {
	old, vault := t.TempDir(), t.TempDir()
	put(t, old, "a.yaml", "server a 1\n")
	put(t, old, "b.yaml", "server b 1\n")
	cfg := Config{Roots: []Root{{Path: old}}, LastGood: vault}
	r := begin(t, cfg)
	r.untilBrief("server/a=1 server/b=1")
	r.stop()
	dir := t.TempDir()
	put(t, dir, "x.yaml", "server a 2\n")
	cfg.Roots = []Root{{Path: dir}}
	r = begin(t, cfg)
	r.until("b is held", func(s *spec.Set) bool {
		return brief(s) == "server/a=2 server/b=1?" && len(s.Sources) == 2 && len(s.Sources[1].PrunePaused) == 1
	})
	if _, err := r.ConfirmPrune(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.until("the former source is gone", func(s *spec.Set) bool { return brief(s) == "server/a=2" && len(s.Sources) == 1 })
	r = again(t, r)
	r.untilBrief("server/a=2")
	r.stop() // what is kept is written behind the decisions
	names, err := filepath.Glob(filepath.Join(vault, "*.json"))
	if err != nil || len(names) != 1 {
		t.Errorf("inventories: %v, %v", names, err)
	}
}

// What has moved out of a former source counts where it is now, also while that cannot be seen whole.
func TestFormerSourceGivesWay(t *testing.T) {
	old, vault := t.TempDir(), t.TempDir()
	put(t, old, "a.yaml", "server a 1\n")
	cfg := Config{Roots: []Root{{Path: old}}, LastGood: vault}
	r := begin(t, cfg)
	r.untilBrief("server/a=1")
	r.stop()
	dir := t.TempDir()
	put(t, dir, "x.yaml", "server a 2\n")
	if err := os.Symlink("nowhere", filepath.Join(dir, "z.yaml")); err != nil {
		t.Fatal(err)
	}
	cfg.Roots = []Root{{Path: dir}}
	r = begin(t, cfg)
	set := r.until("a has moved", func(s *spec.Set) bool { return brief(s) == "server/a=2" })
	if set.Known || sourceOf(set).Complete {
		t.Errorf("known %v, complete %v", set.Known, sourceOf(set).Complete)
	}
}

// I7: an object that was known, whose content cannot be had, keeps the Set from being known.
func TestLostContent(t *testing.T) {
	dir, vault := t.TempDir(), t.TempDir()
	put(t, dir, "a.yaml", "server a 1\n")
	put(t, dir, "b.yaml", "server b 1\n")
	r := begin(t, Config{Roots: []Root{{Path: dir}}, LastGood: vault})
	r.untilBrief("server/a=1 server/b=1")
	r.stop()
	contents, err := filepath.Glob(filepath.Join(vault, "*", "*"))
	if err != nil || len(contents) != 2 {
		t.Fatalf("contents: %v, %v", contents, err)
	}
	for _, c := range contents {
		if err := os.WriteFile(c, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(t, dir, "a.yaml", "server a 1\nbad\n")
	r = begin(t, r.cfg)
	set := r.until("b is there", func(s *spec.Set) bool { return sourceOf(s).Complete })
	if set.Known || brief(set) != "server/b=1" {
		t.Errorf("known %v: %s", set.Known, brief(set))
	}
	put(t, dir, "a.yaml", "server a 2\n")
	r.until("all is known", func(s *spec.Set) bool { return s.Known && brief(s) == "server/a=2 server/b=1" })
}

func TestUnreadableInventory(t *testing.T) {
	dir, vault := t.TempDir(), t.TempDir()
	id := sourceID(dir)
	put(t, vault, id+".json", "{")
	put(t, dir, "a.yaml", "server a 1\n")
	put(t, dir, "b.yaml", "server b 1\nbad\n")
	r := begin(t, Config{Roots: []Root{{Path: dir}}, LastGood: vault})
	set := r.untilBrief("server/a=1")
	if set.Known {
		t.Error("known, although what was known is lost and a file is faulty")
	}
	put(t, dir, "b.yaml", "server b 2\n")
	r.until("all is known", func(s *spec.Set) bool { return s.Known })
	if _, err := os.Stat(filepath.Join(vault, id+".json.unreadable")); err != nil {
		t.Error(err)
	}
}

func TestNewerInventory(t *testing.T) {
	dir, vault := t.TempDir(), t.TempDir()
	put(t, vault, sourceID(dir)+".json", `{"version": 2}`)
	s, err := New(Config{Roots: []Root{{Path: dir}}, LastGood: vault, Decode: toyDecode})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("Run: %v", err)
	}
	if data, err := os.ReadFile(filepath.Join(vault, sourceID(dir)+".json")); err != nil || string(data) != `{"version": 2}` {
		t.Errorf("the newer inventory was touched: %q, %v", data, err)
	}
}

// Contents that no inventory names are not kept, and equal files share one.
func TestOldContentsGo(t *testing.T) {
	dir, vault := t.TempDir(), t.TempDir()
	r := begin(t, Config{Roots: []Root{{Path: dir}}, LastGood: vault})
	put(t, dir, "a.yaml", "server a 1\n")
	r.untilBrief("server/a=1")
	put(t, dir, "a.yaml", "server a 2\n")
	r.untilBrief("server/a=2")
	put(t, dir, "b.yaml", "server a 2\n")
	r.until("b is in conflict", func(s *spec.Set) bool { return fileOf(s, "b.yaml").State == spec.FileConflict })
	r.stop()
	contents, err := filepath.Glob(filepath.Join(vault, sourceID(dir), "*"))
	if err != nil || len(contents) != 1 {
		t.Errorf("contents: %v, %v", contents, err)
	}
}

// A disk that takes no more is told, and changes nothing else.
func TestVaultTrouble(t *testing.T) {
	dir, vault := t.TempDir(), t.TempDir()
	put(t, vault, sourceID(dir), "in the way")
	put(t, dir, "a.yaml", "server a 1\n")
	r := begin(t, Config{Roots: []Root{{Path: dir}}, LastGood: vault})
	r.untilBrief("server/a=1")
	put(t, dir, "b.yaml", "server b 1\n")
	r.until("the trouble is told", func(s *spec.Set) bool {
		return brief(s) == "server/a=1 server/b=1" && strings.Contains(sourceOf(s).Notice, "cannot be kept")
	})
	if err := os.Remove(filepath.Join(vault, sourceID(dir))); err != nil {
		t.Fatal(err)
	}
	put(t, dir, "c.yaml", "server c 1\n")
	r.until("the trouble is over", func(s *spec.Set) bool { return len(s.Servers) == 3 && sourceOf(s).Notice == "" })
}

func FuzzParseInventory(f *testing.F) {
	good, err := json.Marshal(inventory{Version: 1, Name: "m", Path: "/m",
		Files:   []knownFile{{Path: "a.yaml", Content: strings.Repeat("a", 64)}},
		Objects: []knownObject{{Kind: spec.KindServer, Namespace: "default", Name: "a", File: "a.yaml", Content: strings.Repeat("a", 64)}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"version": 1, "objects": [{"kind": "Server", "namespace": "..", "name": "a"}]}`))
	f.Add([]byte(`{"version": 1, "files": [{"path": "a", "content": "../../etc/passwd"}]}`))
	f.Add([]byte(`{"version": 9}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		inv, err := parseInventory(data)
		if err != nil {
			return
		}
		for _, o := range inv.Objects {
			if o.Content != "" && !isHash(o.Content) || !spec.IsLabel(o.Name) {
				t.Errorf("accepted %+v", o)
			}
		}
		for _, f := range inv.Files {
			if strings.ContainsAny(f.Content, "/.") {
				t.Errorf("accepted %+v", f)
			}
		}
	})
}

// A content that a crash left half written, which no inventory names, is not taken for the whole.
func TestHalfWrittenContent(t *testing.T) {
	dir, vault := t.TempDir(), t.TempDir()
	put(t, dir, "a.yaml", "server a 1\n")
	cfg := Config{Roots: []Root{{Path: dir}}, LastGood: vault}
	r := begin(t, cfg)
	r.untilBrief("server/a=1")
	r.stop()
	whole, err := filepath.Glob(filepath.Join(vault, "*", "*"))
	if err != nil || len(whole) != 1 {
		t.Fatalf("contents: %q, %v", whole, err)
	}
	inventories, err := filepath.Glob(filepath.Join(vault, "*.json"))
	if err != nil || len(inventories) != 1 {
		t.Fatalf("inventories: %q, %v", inventories, err)
	}
	if err := errors.Join(os.Remove(inventories[0]), os.Truncate(whole[0], 5)); err != nil {
		t.Fatal(err)
	}
	r = begin(t, cfg)
	r.untilBrief("server/a=1")
	r.stop()
	put(t, dir, "a.yaml", "broken: [\n")
	r = begin(t, cfg)
	r.until("what was good still counts", func(s *spec.Set) bool { return brief(s) == "server/a=1~" && sourceOf(s).Complete })
}
