package keeper_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"reconciler.dev/reconciler/observe"
)

// A keeper over a copy of a state directory leaves alone what the original's dead keeper had started, and the original's next one finds it.
func TestKeeperOfACopyTakesNothingOver(t *testing.T) {
	r := newRig(t)
	l := r.launch("town", "run")
	r.ready(l)
	pid := r.pid(l.Scope)
	r.killKeeper()

	copied := r.layout
	copied.State, copied.Runtime = filepath.Join(filepath.Dir(r.layout.State), "c"), filepath.Join(filepath.Dir(r.layout.State), "cr")
	if err := exec.Command("/bin/cp", "-a", r.layout.State, copied.State).Run(); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(r.binary, "keeper", "-state", copied.State, "-runtime", copied.Runtime).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "this directory is a copy") || !strings.Contains(string(out), l.Scope.String()) {
		t.Errorf("the keeper of the copy ended with %v: %s", err, out)
	}
	if _, err := os.Lstat(copied.KeeperSocket()); err == nil {
		t.Error("it has listened")
	}
	r.startKeeper()
	eventually(t, "the client has found the new keeper", func() bool { return r.client.Problem() == nil })
	f := r.await(l.Scope, "lives", func(f *observe.Facts) bool { return f.Run != nil && f.Run.Alive == observe.Alive })
	if got := r.pid(l.Scope); got != pid || f.Run.Over() {
		t.Errorf("process %d, not %d; %+v", got, pid, f.Run)
	}
	r.stop(l.Scope)
	r.awaitOver(l.Scope)
}
