package main

import (
	"os/exec"
	"strings"
	"testing"
)

const module = "reconciler.dev/reconciler/"

// rooms says which rooms of ours each room may import, tests left out. The line is spec <- state <- observe <- reconcile
// <- cmd; the keeper stands beside reconcile and never sees it (DESIGN 3).
var rooms = map[string][]string{
	"spec":               {},
	"spec/dir":           {"spec", "state"},
	"state":              {"spec"},
	"observe":            {"spec", "state"},
	"reconcile":          {"spec", "state", "observe"},
	"keeper":             {"spec", "state", "observe"},
	"metrics":            {"spec", "state", "observe", "reconcile"},
	"manifests/examples": {},
	"cmd/reconciler":     {"spec", "spec/dir", "state", "observe", "reconcile", "keeper", "metrics", "manifests/examples"},
}

// forbidden is what must not come in from outside, and why.
var forbidden = []struct{ room, pkg, why string }{
	{"reconcile", "os", "deciding is pure; the executor does"},
	{"reconcile", "os/exec", "deciding is pure; the executor does"},
	{"reconcile", "syscall", "deciding is pure; the executor does"},
	{"keeper", "os/exec", "it would reap the keeper's children behind its back"},
	{"keeper", "net/http", "the keeper opens no network port and must stay small"},
	{"keeper", "sigs.k8s.io/yaml", "the keeper parses no manifest; the host's configuration is read by spec"},
	{"keeper", "github.com/prometheus/client_golang/prometheus", "the keeper must stay small"},
	{"", "k8s.io/client-go/kubernetes/scheme", "15 MB and 4 ms at every start"},
	{"", "github.com/spf13/viper", "flags and files have one reader each"},
}

func TestImports(t *testing.T) {
	list := exec.Command("go", "list", "-f", `{{.ImportPath}}{{range .Imports}} {{.}}{{end}}`, module+"...")
	out, err := list.Output()
	if err != nil {
		t.Fatalf("cannot list the packages: %v", err)
	}
	seen := 0
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		pkg, ok := strings.CutPrefix(fields[0], module)
		if !ok {
			continue
		}
		seen++
		room := roomOf(pkg)
		if room == "" {
			t.Errorf("%s is in no room: a new one needs a reason in docs/design.md and a line here", pkg)
			continue
		}
		for _, imp := range fields[1:] {
			checkImport(t, room, pkg, imp)
		}
	}
	if seen < 10 {
		t.Fatalf("only %d packages of ours were listed", seen)
	}
}

// roomOf is the longest room that pkg lies in.
func roomOf(pkg string) string {
	best := ""
	for room := range rooms {
		if (pkg == room || strings.HasPrefix(pkg, room+"/")) && len(room) > len(best) {
			best = room
		}
	}
	return best
}

func checkImport(t *testing.T, room, pkg, imp string) {
	for _, f := range forbidden {
		if imp == f.pkg && (f.room == "" || f.room == room) && !strings.HasPrefix(pkg, "keeper/faultd") {
			t.Errorf("%s imports %s: %s", pkg, imp, f.why)
		}
	}
	target, ours := strings.CutPrefix(imp, module)
	if !ours {
		return
	}
	to := roomOf(target)
	if to == room {
		return
	}
	for _, allowed := range rooms[room] {
		if to == allowed {
			return
		}
	}
	t.Errorf("%s (room %s) imports %s (room %s), which its room may not", pkg, room, target, to)
}
