package keeper_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/keeper"
	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// playInside is a process of a run that asks which run it is of, and says that it is ready:
//
//	inside main      itself
//	inside child     a child in its session does
//	inside leader    a child in a session of its own does
//
// It stays until its input ends, which in a run is never.
func playInside(args []string) int {
	switch args[0] {
	case "child", "leader":
		cmd := exec.Command(os.Args[0], "inside", "once")
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		cmd.SysProcAttr = &unix.SysProcAttr{Setsid: args[0] == "leader"}
		if err := cmd.Run(); err != nil {
			fmt.Println(err)
		}
	default:
		askInside()
	}
	if args[0] != "once" {
		fmt.Println("ready")
		_, _ = os.Stdin.Read(make([]byte, 1))
	}
	return 0
}

func askInside() {
	socket := os.Getenv("NOTIFY_SOCKET")
	l := state.Layout{State: filepath.Dir(socket), Runtime: filepath.Dir(socket)}
	in, err := keeper.Self(context.Background(), l, "test")
	fmt.Println("self:", in.Scope.Server, in.Run, err)
	if err := say(socket, "STATUS=asked\nREADY=1"); err != nil {
		fmt.Println(err)
	}
}

// say sends a notice and waits until it was heard, as sd_notify_barrier(3) does: the receiver closes what came with it.
func say(socket, text string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	to := &unix.SockaddrUnix{Name: socket}
	err = errors.Join(unix.Sendto(fd, []byte(text), 0, to), unix.Sendmsg(fd, []byte("BARRIER=1"), unix.UnixRights(int(w.Fd())), to, 0))
	w.Close()
	if err != nil {
		return err
	}
	_, _ = r.Read(make([]byte, 1)) // its end
	return nil
}

// EN-8: what the kernel says of a process makes it part of a run, and nothing else does.
func TestInside(t *testing.T) {
	for _, c := range []struct {
		flags    []string
		who      string
		believed bool
	}{
		{nil, "main", true}, {nil, "child", true}, {nil, "leader", true},
		{[]string{"-no-cgroups"}, "main", true}, {[]string{"-no-cgroups"}, "child", true},
		{[]string{"-no-cgroups"}, "leader", false}, // nothing tells it from a stranger
	} {
		t.Run(c.who+fmt.Sprint(c.flags), func(t *testing.T) {
			r := newRigWithoutKeeper(t)
			r.startKeeper(c.flags...)
			r.connect()
			l := r.insider("town", c.who)
			f := r.ready(l)
			answer := "self: town 1 <nil>"
			if !c.believed {
				answer = "self:  0 refused: NotARun"
			}
			r.awaitLog(l.Scope, answer)
			// Whatever was heard has been answered by now, and is in the facts when it is in the record.
			if c.believed {
				f = r.await(l.Scope, "ready by its own word", func(f *observe.Facts) bool { return !f.Run.NotifiedAt.IsZero() })
			}
			if f.Run.NotifiedAt.IsZero() == c.believed {
				t.Errorf("its word was taken: %v", !c.believed)
			}
		})
	}
}

func (r *rig) insider(name, who string) spec.Launch {
	l := r.launch(name)
	l.Args = []string{"inside", who}
	return l
}

// A stranger may have the environment and stand in the directory of a run: it is none.
func TestStrangerIsNotARun(t *testing.T) {
	r := newRig(t)
	l := r.insider("town", "main")
	r.ready(l)
	quiet := r.launch("quiet", "run")
	r.ready(quiet)
	cmd := exec.Command(r.binary, "inside", "once")
	cmd.Dir = filepath.Join(r.layout.Data(), "quiet")
	cmd.Env = []string{"NOTIFY_SOCKET=" + r.layout.NotifySocket(), "HOME=" + cmd.Dir}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "NotARun") {
		t.Errorf("a stranger was told %q, %v", out, err)
	}
	if err := keeper.Notify(t.Context(), r.layout, "test", keeper.Notice{Text: "READY=1"}); err == nil {
		t.Error("a stranger's notice was taken")
	}
	// A notice of the run itself comes after the stranger's: what the stranger said would be in the record by now.
	r.await(l.Scope, "ready by its own word", func(f *observe.Facts) bool { return !f.Run.NotifiedAt.IsZero() })
	if f := r.facts(quiet.Scope); !f.Run.NotifiedAt.IsZero() {
		t.Error("a stranger's word was taken for the run's")
	}
}

// Another user's process may ask what it is, and nothing else.
func TestInsideAsAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can run servers as another user")
	}
	r := newRig(t)
	program, err := os.ReadFile(r.binary)
	if err != nil {
		t.Fatal(err)
	}
	r.binary = filepath.Join(filepath.Dir(r.layout.State), "open", "insider") // the test's own may lie where others may not go
	if err := errors.Join(os.Mkdir(filepath.Dir(r.binary), 0o755), os.WriteFile(r.binary, program, 0o755)); err != nil {
		t.Fatal(err)
	}
	host := r.host()
	host.Users = []string{"nobody"}
	if err := r.client.SetHost(t.Context(), host); err != nil {
		t.Fatal(err)
	}
	l := r.insider("town", "leader")
	l.User = "nobody"
	r.ready(l)
	r.awaitLog(l.Scope, "self: town 1 <nil>")
	r.await(l.Scope, "ready by its own word", func(f *observe.Facts) bool { return !f.Run.NotifiedAt.IsZero() })
}
