package anchor

import (
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// exited and signaled are wait status words.
func exited(code int) syscall.WaitStatus           { return syscall.WaitStatus(code << 8) }
func signaled(s syscall.Signal) syscall.WaitStatus { return syscall.WaitStatus(s) }

func TestWhatFollowsAKeepersEnd(t *testing.T) {
	const again = -1
	tests := []struct {
		name   string
		status syscall.WaitStatus
		ups    int  // keepers that have come up
		ending bool // the anchor was told to end
		want   int
	}{
		{"ends by its own will", exited(0), 1, false, 0},
		{"fails at its first start", exited(1), 0, false, 1},
		{"crashes at its first start", exited(2), 0, false, 2},
		{"finds another in its place", exited(ExitHeld), 0, false, ExitHeld},
		{"is killed at its first start", signaled(syscall.SIGKILL), 0, false, again},
		{"is killed", signaled(syscall.SIGKILL), 1, false, again},
		{"crashes", exited(2), 1, false, again},
		{"cannot come back", exited(1), 3, false, again},
		{"finds its predecessor's lock held for a moment", exited(ExitHeld), 1, false, again},
		{"ends as it was told", exited(0), 1, true, 0},
		{"fails to end in order", exited(1), 1, true, 1},
		{"is killed while it ends", signaled(syscall.SIGKILL), 1, true, 128 + 9},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := &keep{shelf: NewShelf(0), pidfd: -1, started: time.Now(), ending: tt.ending}
				k.shelf.ups = tt.ups
				code, over := k.died(tt.status)
				if over != (tt.want != again) || over && code != tt.want {
					t.Errorf("over %v with code %d, want %d", over, code, tt.want)
				}
				if over != (k.again == nil) {
					t.Errorf("over %v, and the next start is %v", over, k.again)
				}
				if k.deaths != 1 || k.last != uint32(tt.status) {
					t.Errorf("the next is told of %d deaths, the last %#x", k.deaths, k.last)
				}
			})
		})
	}
}

// The first that dies is replaced at once. One that does not even come up is tried ever more rarely; one that had come up soon again.
func TestPauses(t *testing.T) {
	for name, tt := range map[string]struct {
		comesUp bool
		longest time.Duration
	}{"never up": {false, LastPause}, "up each time": {true, upPause}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := &keep{shelf: NewShelf(0), pidfd: -1}
				k.shelf.ups = 1
				var pauses []time.Duration
				for range 14 {
					k.started, k.ups = time.Now(), k.shelf.cameUp()
					if tt.comesUp {
						k.shelf.ups++
					}
					if _, over := k.died(signaled(syscall.SIGSEGV)); over {
						t.Fatal("it is given up")
					}
					began := time.Now()
					<-k.again
					pauses = append(pauses, time.Since(began))
				}
				if pauses[0] != 0 || pauses[1] != firstPause || pauses[13] != tt.longest || !slices.IsSorted(pauses) {
					t.Errorf("pauses %v", pauses)
				}
				time.Sleep(oldAge + 1) // in the bubble: it lives long
				k.died(signaled(syscall.SIGSEGV))
				began := time.Now()
				if <-k.again; time.Since(began) != 0 {
					t.Errorf("after a long life it waits for %v", time.Since(began))
				}
			})
		})
	}
}

// An anchor whose place another has taken ends, after a while: the lock may be a dying keeper's.
func TestAnotherHasThePlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keep{shelf: NewShelf(0), pidfd: -1}
		k.shelf.ups = 1
		began := time.Now()
		for {
			k.started = time.Now()
			code, over := k.died(exited(ExitHeld))
			if over {
				if code != ExitHeld || time.Since(began) <= heldFor {
					t.Errorf("code %d after %v", code, time.Since(began))
				}
				return
			}
			<-k.again
		}
	})
}

// A variable alone, whoever has set it, makes no anchor: neither where nothing is there nor where it leads to something else.
func TestNotInherited(t *testing.T) {
	if Inherited() || Inherit() != nil {
		t.Error("without a variable")
	}
	t.Setenv(variable, "0")
	if Inherited() || Inherit() != nil {
		t.Error("by a variable alone")
	}
}

// What a keeper inherits is its own anchor's, and no other's.
func TestEnvironHasOneVariable(t *testing.T) {
	t.Setenv(variable, "12")
	t.Setenv(variable+"ED", "kept")
	env := environ()
	if slices.ContainsFunc(env, func(e string) bool { return strings.HasPrefix(e, variable+"=") }) || !slices.Contains(env, variable+"ED=kept") {
		t.Errorf("environment %v", env)
	}
	if len(env) != len(os.Environ())-1 {
		t.Errorf("%d variables of %d", len(env), len(os.Environ()))
	}
}
