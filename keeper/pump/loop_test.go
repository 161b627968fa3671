package pump

import (
	"context"
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

func runLoop(t *testing.T) *Loop {
	t.Helper()
	loop, err := NewLoop()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- loop.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-ended, loop.Close()); err != nil {
			t.Error(err)
		}
	})
	return loop
}

func TestLoopPostsInOrder(t *testing.T) {
	loop := runLoop(t)
	got := make(chan int, 100)
	for n := range 50 {
		loop.Post(func() {
			got <- n
			loop.Post(func() { got <- n + 50 })
		})
	}
	seen := map[int]bool{}
	last := -1
	for range 100 {
		n := <-got
		seen[n] = true
		if n < 50 && n != last+1 {
			t.Fatalf("%d after %d", n, last)
		}
		if n < 50 {
			last = n
		}
	}
	if len(seen) != 100 {
		t.Errorf("%d of 100 ran", len(seen))
	}
}

// A descriptor that is closed and whose number is used again does not get events of the one before.
func TestLoopForgetsRemoved(t *testing.T) {
	loop := runLoop(t)
	for range 50 {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		fd := int(r.Fd())
		first := make(chan struct{}, 10)
		removed := make(chan struct{})
		if err := loop.Add(fd, unix.EPOLLIN, func(uint32) {
			loop.Remove(fd)
			loop.Remove(fd)
			first <- struct{}{}
			close(removed)
		}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		<-removed
		if err := loop.Add(fd, unix.EPOLLIN, func(uint32) { loop.Remove(fd); first <- struct{}{} }); err != nil {
			t.Fatal(err)
		}
		<-first
		<-first
		r.Close()
		w.Close()
	}
	if err := loop.Add(-1, unix.EPOLLIN, func(uint32) {}); err == nil {
		t.Error("a bad descriptor was added")
	}
}
