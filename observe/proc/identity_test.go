package proc

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/observe"
)

// What was just forked is found again by what IdentifyChild says of it.
func TestIdentifyChild(t *testing.T) {
	k, err := Probe()
	if err != nil {
		t.Fatal(err)
	}
	pid := os.Getpid() // like a child it is reaped by nobody meanwhile
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	id, err := k.IdentifyChild(pid, fd)
	if err != nil {
		t.Fatal(err)
	}
	if id.PidfdInode == 0 && id.StartTicks == 0 {
		t.Fatalf("%+v identifies nobody", id)
	}
	p, err := k.Open(id)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if p.Alive() != observe.Alive {
		t.Errorf("it is %v", p.Alive())
	}
}
