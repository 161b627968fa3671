package pump

import (
	"errors"
	"testing"
)

// await begins to look for a literal.
func (r *rig) await(literal string) <-chan error {
	r.t.Helper()
	result, stop, err := r.pump.Await(r.t.Context(), testRun, literal)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(stop)
	return result
}

func (r *rig) nothingYet(result <-chan error) {
	r.t.Helper()
	r.drain()
	select {
	case err := <-result:
		r.t.Fatalf("told too early: %v", err)
	default:
	}
}

// What was printed before the call does not count, whether or not it was read by then; what is printed later does.
func TestAwait(t *testing.T) {
	r := newRig(t, nil)
	r.attach()
	r.print(r.out, "Map saved\n") // nobody has read it yet
	r.start()
	first, second, other := r.await("Map saved"), r.await("saved\n"), r.await("never")
	r.print(r.out, "Map ")
	r.print(r.err, "saved")
	r.nothingYet(first)
	r.print(r.out, "\x1b[1msaved\x1b[0m")
	if err := <-first; err != nil {
		t.Error(err)
	}
	r.nothingYet(second)
	r.print(r.out, "\n")
	if err := <-second; err != nil {
		t.Error(err)
	}
	r.print(r.out, "Map saved\n")
	r.nothingYet(other)
	r.nothingYet(first) // told once
}

// The end of the output is the end of what can be expected of it.
func TestAwaitEnds(t *testing.T) {
	r := newRig(t, nil)
	r.attach()
	r.start()
	result := r.await("Map saved")
	r.pump.Detach(testRun)
	if err := <-result; !errors.Is(err, ErrEnded) {
		t.Errorf("told %v", err)
	}
	again, _, err := r.pump.Await(t.Context(), testRun, "a")
	if err == nil {
		err = <-again // its log is not closed yet
	}
	if !errors.Is(err, ErrEnded) && !errors.Is(err, ErrUnknownRun) {
		t.Errorf("of a run that is not read any more: %v", err)
	}
}
