package dir

import (
	"testing"

	"reconciler.dev/reconciler/spec"
)

func TestDropEditRemove(t *testing.T) {
	dir := t.TempDir()
	r := begin(t, Config{Roots: []Root{{Path: dir}}})
	r.until("the directory is empty", func(s *spec.Set) bool { return !sourceOf(s).Complete })
	put(t, dir, "a.yaml", "server a 1\n")
	r.untilBrief("server/a=1")
	rename(t, dir, "b.yaml", "server b 1\n")
	r.untilBrief("server/a=1 server/b=1")
	put(t, dir, "a.yaml", "server a 2\n")
	r.untilBrief("server/a=2 server/b=1")
	put(t, dir, "a.yaml", "server a 3\nbad\n")
	set := r.untilBrief("server/a=2~ server/b=1")
	if f := fileOf(set, "a.yaml"); f.State != spec.FileInvalid || len(f.Faults) != 1 {
		t.Errorf("a.yaml: %+v", f)
	}
	drop(t, dir, "b.yaml")
	r.untilBrief("server/a=2~")
}
