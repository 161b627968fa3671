package examples

import (
	"os"
	"slices"
	"strings"
	"testing"

	"reconciler.dev/reconciler/spec"
)

// Every file of this directory is an example, and every example is one profile and one server of it, without a fault and
// without a note that a cluster would take it otherwise.
func TestExamples(t *testing.T) {
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range files {
		if name, ok := strings.CutSuffix(f.Name(), ".yaml"); ok {
			names = append(names, name)
		} else if !strings.HasSuffix(f.Name(), ".go") {
			t.Errorf("%s is no example", f.Name())
		}
	}
	if !slices.Equal(names, Names()) || !slices.Contains(names, Default) {
		t.Fatalf("names are %q, files %q, and the default is %s", Names(), names, Default)
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			text, ok := Get(name)
			if !ok {
				t.Fatal("there is none")
			}
			if !strings.HasPrefix(string(text), "# ") {
				t.Error("it does not begin by saying what it is")
			}
			check(t, name, spec.Decode(name+".yaml", text))
		})
	}
	if _, ok := Get("nothing"); ok {
		t.Error("there is an example nothing")
	}
}

func check(t *testing.T, name string, f spec.File) {
	t.Helper()
	for _, fault := range slices.Concat(f.Faults, f.Notes) {
		t.Error(fault)
	}
	if len(f.Documents) != 2 || f.Documents[0].Profile == nil || f.Documents[1].Server == nil {
		t.Fatalf("it holds %d objects, want a Profile and a Server", len(f.Documents))
	}
	profile, server := f.Documents[0].Profile, f.Documents[1].Server
	if profile.Name != name || server.Spec.Profile != name {
		t.Errorf("the profile is %q and the server's is %q: want %q", profile.Name, server.Spec.Profile, name)
	}
	if profile.Spec.ReadinessProbe == nil {
		t.Error("nothing says when it is ready")
	}
	if stop := profile.Spec.Actions.Stop; stop == nil || len(stop.Steps) == 0 {
		t.Error("nothing says how it is stopped")
	}
}
