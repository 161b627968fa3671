package keeper

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// What little there is goes at once, a storm after its beginning one by one, and after a pause at once again.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pace{burst: 3, every: time.Second}
		waited := func() time.Duration {
			began := time.Now()
			p.wait(t.Context())
			return time.Since(began)
		}
		for i, want := range []time.Duration{0, 0, 0, time.Second, time.Second} {
			if got := waited(); got != want {
				t.Errorf("number %d has waited %s, not %s", i, got, want)
			}
		}
		time.Sleep(time.Hour)
		if got := waited(); got != 0 {
			t.Errorf("after a pause one has waited %s", got)
		}
	})
}

func TestPaceEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p := pace{every: time.Hour}
	p.wait(ctx) // for an hour, were it not for ctx
}

// Of many messages that come one by one those that came while a receiver waited are read without waiting for each; one that comes
// later is heard as well.
func TestReceiverGathers(t *testing.T) {
	a, b := pair(t)
	l := newLink(a)
	defer l.wait()
	defer l.close()
	r := newReceiver(b)
	waits := 0
	var sent atomic.Uint64
	send := func() {
		if err := l.send(Message{ID: sent.Add(1) + 1}, nil); err != nil {
			t.Error(err)
		}
	}
	r.gather = func() bool {
		waits++
		switch waits {
		case 1: // nothing is gathered: the message comes while the receiver sleeps in the poller
			go send()
			return false
		case 2: // two come meanwhile
			send()
			send()
			return true
		case 3: // none comes meanwhile, one later
			go send()
			return true
		}
		return false
	}
	for want := uint64(2); want < 6; want++ {
		if m, err := r.receive(); err != nil || m.ID != want {
			t.Fatalf("received %+v, %v, want message %d", m, err, want)
		}
	}
	if waits != 3 {
		t.Errorf("the receiver gathered %d times, want 3", waits)
	}
}

// A gatherer waits for nobody who sends little.
func TestGathererPaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gather := gatherer()
		began := time.Now()
		for range readBurst {
			if gather() {
				t.Fatal("it waited within the burst")
			}
		}
		if waited := gather(); !waited || time.Since(began) != readEvery {
			t.Errorf("after the burst it waited (%v) for %v, want %v", waited, time.Since(began), readEvery)
		}
		time.Sleep(2 * readBurst * readEvery)
		if gather() {
			t.Error("it waited after a long rest")
		}
	})
}
