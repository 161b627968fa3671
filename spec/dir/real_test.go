package dir

import (
	"strings"
	"testing"

	"reconciler.dev/reconciler/spec"
)

// The real language through the real decoder.
func TestRealManifests(t *testing.T) {
	dir := t.TempDir()
	const profile = "apiVersion: reconciler.dev/v1alpha1\nkind: Profile\nmetadata: {name: sleeper}\nspec:\n  actions:\n    start: {executable: bin/sleep, args: [infinity]}\n"
	server := func(name, more string) string {
		return "apiVersion: reconciler.dev/v1alpha1\nkind: Server\nmetadata: {name: " + name + more + "}\nspec: {profile: sleeper}\n"
	}
	put(t, dir, "all.yaml", profile+"---\n"+server("one", "")+"---\n"+server("two", ", annotations: {reconciler.dev/prune: disabled}"))
	put(t, dir, "helm/values.yaml", "replicas: 3\n")
	put(t, dir, "twice.yaml", server("three", "")+"---\n"+server("three", ""))
	r := begin(t, Config{Roots: []Root{{Path: dir}}, Decode: spec.Decode, LastGood: t.TempDir()})
	set := r.until("all is read", func(s *spec.Set) bool {
		return brief(s) == "profile/sleeper server/one=sleeper server/two=sleeper" && s.Known
	})
	for path, want := range map[string]string{"all.yaml": spec.FileAccepted, "helm/values.yaml": spec.FileSkipped, "twice.yaml": spec.FileInvalid} {
		if f := fileOf(set, path); f.State != want {
			t.Errorf("%s: %+v, want %s", path, f, want)
		}
	}
	if two := set.Servers[spec.Key{Namespace: "default", Name: "two"}]; two.Source.Document != 2 || two.Source.Line == 0 {
		t.Errorf("two is at %+v", two.Source)
	}
	// A comment is no new wish; a syntax error keeps the last good; one object of three goes, one is kept.
	put(t, dir, "all.yaml", "# a comment\n"+profile+"---\n"+server("one", "")+"---\n"+server("two", ", annotations: {reconciler.dev/prune: disabled}"))
	r.until("the comment is read", func(s *spec.Set) bool {
		return s.Servers[spec.Key{Namespace: "default", Name: "one"}].Source.Line > set.Servers[spec.Key{Namespace: "default", Name: "one"}].Source.Line
	})
	put(t, dir, "all.yaml", profile+"---\nkind: [\n")
	r.untilBrief("profile/sleeper~ server/one=sleeper~ server/two=sleeper~")
	r = again(t, r)
	r.until("last good is back", func(s *spec.Set) bool {
		return brief(s) == "profile/sleeper~ server/one=sleeper~ server/two=sleeper~" && fileOf(s, "all.yaml").State == spec.FileInvalid
	})
	put(t, dir, "all.yaml", profile)
	r.until("one is gone and two is kept", func(s *spec.Set) bool {
		return brief(s) == "profile/sleeper server/two=sleeper?" && len(sourceOf(s).PruneKept) == 1
	})
}

// Every example is a manifest of its own.
func TestExamples(t *testing.T) {
	set, err := Load(Config{Roots: []Root{{Path: "../../manifests/examples"}}})
	if err != nil {
		t.Fatal(err)
	}
	if len(set.Servers) == 0 {
		t.Error("there is no example")
	}
	for _, f := range sourceOf(set).Files {
		if f.State == spec.FileInvalid || f.State == spec.FileConflict || strings.HasSuffix(f.Path, ".yaml") && f.State == spec.FileSkipped {
			t.Errorf("%s is %s: %s %v", f.Path, f.State, f.Reason, f.Faults)
		}
	}
}
