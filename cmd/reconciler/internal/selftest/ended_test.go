package selftest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// A signal to us, as when a keeper of ours ends, is no end of the process that is waited for.
func TestSignalsEndNoWait(t *testing.T) {
	cat := exec.Command("/bin/cat")
	in, err := cat.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cat.Start(); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.PidfdOpen(cat.Process.Pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	thread, result := make(chan int, 1), make(chan bool, 1)
	go func() {
		runtime.LockOSThread() // it is never unlocked: the thread ends
		thread <- unix.Gettid()
		result <- ended(fd)
	}()
	waiter := <-thread
	for range 20 {
		for !sleeps(waiter) && len(result) == 0 {
			runtime.Gosched()
		}
		if err := unix.Tgkill(os.Getpid(), waiter, unix.SIGWINCH); err != nil {
			break // it waits no more
		}
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if !<-result {
		t.Error("a process that ends is said to live")
	}
	if err := cat.Wait(); err != nil {
		t.Error(err)
	}
}

// sleeps reports whether a thread of ours waits for something.
func sleeps(thread int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/stat", thread))
	return err == nil && bytes.Contains(stat, []byte(") S "))
}
