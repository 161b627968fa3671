package proc

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/observe/proc/proctest"
	"reconciler.dev/reconciler/state"
)

const insideVar = "PROC_TEST_INSIDE"

// BP-8, I3: a number that another process got is not taken for the process that had it, and that other one is not
// signalled. The test runs once more in a pid namespace of its own, where it alone says who gets which number.
func TestReusedNumber(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root makes a pid namespace and sets ns_last_pid")
	}
	if os.Getenv(insideVar) != "" {
		reusedNumber(t)
		return
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestReusedNumber$", "-test.v")
	cmd.Env = append(os.Environ(), insideVar+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, unix.EPERM) {
		t.Skipf("this root may not make a pid namespace: %v", err)
	}
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func reusedNumber(t *testing.T) {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		t.Fatal(err)
	}
	both(t, func(t *testing.T, k *Kernel) {
		first := newCast(t, "play", nil)
		held := process(t, k, first.pid)
		first.say("exit 3")
		first.wait()

		var second *cast
		var id state.Identity
		// Within one tick the number and the start time are the same: that is what the inode is for.
		for second == nil || second.pid != first.pid || !k.PidfdInode && id.StartTicks == held.ID.StartTicks {
			if second != nil {
				second.say("exit 0")
				second.wait()
			}
			if err := os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte(strconv.Itoa(first.pid-1)), 0); err != nil {
				t.Fatal(err)
			}
			second = newCast(t, "play", nil)
			id = process(t, k, second.pid).ID
		}

		if p, err := k.Open(held.ID); !errors.Is(err, ErrOtherProcess) {
			t.Errorf("Open = %v, %v", p, err)
		}
		if held.Alive() != observe.Dead {
			t.Errorf("it is %s", held.Alive())
		}
		if err := held.Signal(syscall.SIGKILL); !errors.Is(err, ErrGone) {
			t.Errorf("Signal: %v", err)
		}
		if sent, err := k.SignalFamily(Family{Members: []Member{{ID: held.ID}}}, syscall.SIGKILL); err != nil || sent != 0 {
			t.Errorf("SignalFamily: %d, %v", sent, err)
		}
		if _, err := held.Comm(); !errors.Is(err, ErrGone) {
			t.Errorf("Comm: %v", err)
		}
		if exit, settled := held.Exit(now); !settled || exit.Status != nil && *exit.Status != 0x300 {
			t.Errorf("exit %s, settled %v", show(exit), settled)
		}
		if second.ask("ignore") != "ignored" {
			t.Error("the second process does not answer")
		}
	})
}

const nobody = 65534

// All tests once more as an ordinary user, from whom the kernel hides some things.
func TestAsOrdinaryUser(t *testing.T) {
	if os.Getuid() != 0 || os.Getenv(insideVar) != "" {
		return
	}
	dir := proctest.Place(t)
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(proctest.Program(t), "-test.v")
	cmd.Env = []string{insideVar + "=1", "TMPDIR=" + dir}
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestExitOfAnothersChild") {
		t.Errorf("%v\n%s", err, out)
	}
}
