package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/cmd/reconciler/internal/api"
	"reconciler.dev/reconciler/observe/proc/proctest"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// onADisk executes a program over a disk of its own: DIR SIZE PROGRAM ARG... It is to be alone in its mount namespace.
func onADisk(args []string) error {
	if err := unix.Mount("disk", args[0], "tmpfs", 0, "mode=0711,size="+args[1]); err != nil {
		return err
	}
	path, err := exec.LookPath(args[2])
	if err != nil {
		return err
	}
	return unix.Exec(path, args[2:], os.Environ())
}

// smallDisk is a reconciler whose state directory is a small disk of its own, which nobody else sees.
type smallDisk struct {
	t      *testing.T
	place  string
	disk   string // its root, as seen from here
	cmd    *exec.Cmd
	said   lines
	ctx    context.Context
	stderr string // of the last command
}

// startSmallDisk starts a reconciler over a disk of a size, with further options of tmpfs(5) if there are any.
func startSmallDisk(t *testing.T, size, manifest string) *smallDisk {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("this test mounts a file system, in a namespace of its own")
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	d := &smallDisk{t: t, place: proctest.Place(t), ctx: ctx}
	for _, dir := range []string{"s", "m"} {
		if err := os.Mkdir(filepath.Join(d.place, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	d.write(manifest)
	bin, err := exec.LookPath("faultd")
	if err != nil {
		t.Fatal(err)
	}
	d.cmd = exec.CommandContext(ctx, "on-a-disk", filepath.Join(d.place, "s"), size,
		"reconciler", "run", "--manifests", filepath.Join(d.place, "m"), "--workspace", "bin="+filepath.Dir(bin), "--listen", "")
	d.cmd.Env = d.environ()
	d.cmd.Stdout, d.cmd.Stderr = &d.said, &d.said
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return d
}

// write puts the manifest in place.
func (d *smallDisk) write(manifest string) {
	d.t.Helper()
	path := filepath.Join(d.place, "m", "game.yaml")
	if err := errors.Join(os.WriteFile(path+".new", []byte(manifest), 0o644), os.Rename(path+".new", path)); err != nil {
		d.t.Fatal(err)
	}
}

// newSmallDisk is one that serves, and ends with the test.
func newSmallDisk(t *testing.T, size, manifest string) *smallDisk {
	t.Helper()
	d := startSmallDisk(t, size, manifest)
	d.disk = fmt.Sprintf("/proc/%d/root%s", d.cmd.Process.Pid, filepath.Join(d.place, "s"))
	ended := make(chan error, 1)
	go func() { ended <- d.cmd.Wait() }()
	t.Cleanup(func() {
		d.run("shutdown")
		if err := <-ended; err != nil {
			t.Errorf("the reconciler ended: %v", err)
		}
		if t.Failed() {
			t.Log(d.said.String())
		}
	})
	if err := d.said.await("watching manifests"); err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *smallDisk) environ() []string {
	return append(os.Environ(), "RECONCILER_STATE_DIR="+filepath.Join(d.place, "s"), "RECONCILER_RUNTIME_DIR="+filepath.Join(d.place, "r"))
}

// run runs a command and returns its exit code and what it has printed.
func (d *smallDisk) run(args ...string) (code int, stdout string) {
	d.t.Helper()
	cmd := exec.CommandContext(d.ctx, "reconciler", args...)
	cmd.Env = d.environ()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		d.t.Fatal(err)
	}
	d.stderr = errs.String()
	return cmd.ProcessState.ExitCode(), out.String()
}

// fill leaves no room on the disk, until free.
func (d *smallDisk) fill() {
	d.t.Helper()
	f, err := os.OpenFile(filepath.Join(d.disk, "fill"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		d.t.Fatal(err)
	}
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if !errors.Is(err, unix.ENOSPC) {
		d.t.Fatal(err)
	}
}

// free ends fill, if it was begun.
func (d *smallDisk) free() {
	d.t.Helper()
	if err := os.Remove(filepath.Join(d.disk, "fill")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		d.t.Error(err)
	}
}

// await waits for what the server comes to.
func (d *smallDisk) await(what string) {
	d.t.Helper()
	if code, _ := d.run("wait", "server/town", "--for="+what, "--timeout", "120s"); code != 0 {
		d.t.Fatal(d.stderr)
	}
}

// stores is what doctor says of the two stores.
func (d *smallDisk) stores() (stores []api.Check) {
	d.t.Helper()
	_, out := d.run("doctor", "-o", "json")
	var r api.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		d.t.Fatalf("%v\n%s%s", err, out, d.stderr)
	}
	for _, c := range r.Checks {
		if c.Name == "keeper store" || c.Name == "reconciler store" {
			stores = append(stores, c)
		}
	}
	return stores
}

// awaitStores waits until doctor has the same to say of both stores: how a disk was shows for up to a second.
func (d *smallDisk) awaitStores(state, message string) {
	d.t.Helper()
	for {
		stores := d.stores()
		said := map[string]bool{}
		for _, c := range stores {
			if c.State == state && strings.Contains(c.Message, message) {
				said[c.Name] = true
			}
		}
		other := slices.ContainsFunc(stores, func(c api.Check) bool { return c.State != state })
		if len(said) == 2 && !other {
			return
		}
		if d.ctx.Err() != nil {
			d.t.Fatalf("of the stores is said %+v", stores)
		}
	}
}

// recordSize is that of the one record, in bytes.
func (d *smallDisk) recordSize() int {
	d.t.Helper()
	info, err := os.Stat(filepath.Join(d.disk, "keeper/records", spec.Scope{Namespace: spec.DefaultNamespace, Server: "town", Profile: "game"}.ID()+".json"))
	if err != nil {
		d.t.Fatal(err)
	}
	return int(info.Size())
}

const talker = `apiVersion: reconciler.dev/v1alpha1
kind: Profile
metadata: {name: game}
spec:
  actions:
    start: {workspace: bin, executable: faultd, args: [console, -life, 10m]}
  console: {input: Stdin}
  readinessProbe: {log: {contains: [console ready]}}
---
apiVersion: reconciler.dev/v1alpha1
kind: Server
metadata: {name: town}
spec: {profile: game}
`

// EN-1, EN-10: on a full disk doctor says that nothing can be recorded and what helps, a line that cannot be put on record is refused, what
// runs goes on, and all is well again when there is room.
func TestFullDisk(t *testing.T) {
	d := newSmallDisk(t, "4m", talker)
	d.await("condition=Ready")
	d.awaitStores(api.CheckOK, "")

	// A record that fills its pages nearly: the last lines that were sent do not fit into what it has.
	const room, page = 1250, 4096
	pad := (2*page - room - d.recordSize()%page) % page
	d.write(strings.Replace(talker, "  actions:\n", fmt.Sprintf("  env: [{name: PAD, value: %s}]\n  actions:\n", strings.Repeat("x", pad)), 1))
	d.await("jsonpath={.status.run.number}=2")
	d.await("condition=Ready")

	d.fill()
	defer d.free()
	d.awaitStores(api.CheckFailed, "cannot write: no space left on device (free space on that file system")
	for i := 0; ; i++ { // while there is room in the record, lines go through
		if i == 10*state.DeliveryLimit {
			t.Fatalf("%d lines were put on record, in a record of %d bytes", i, d.recordSize())
		}
		code, _ := d.run("send", "town", "hello")
		if code == 0 || code == 1 && strings.Contains(d.stderr, "Unread") {
			continue
		}
		const refused = "the line was not handed over: it has to be put on record first, and that cannot be done: no space left on device (free space"
		// There may be room for that it is sent, and none for what became of it.
		if code != 1 && code != 3 || (code == 3) == strings.Contains(d.stderr, refused) {
			t.Fatalf("exit %d: %s", code, d.stderr)
		}
		break
	}
	if code, _ := d.run("get", "servers"); code != 0 {
		t.Error(d.stderr)
	}

	d.free()
	d.awaitStores(api.CheckOK, "")
	for code := 1; code != 0; { // what became of the last one has to come on record first
		if code, _ = d.run("send", "town", "again"); code > 1 || d.ctx.Err() != nil {
			t.Fatalf("exit %d: %s", code, d.stderr)
		}
	}
}

// EN-11: a state directory that is read-only ends the command at its start, which says what helps.
func TestReadOnlyDisk(t *testing.T) {
	d := startSmallDisk(t, "4m,ro", talker)
	if err := d.cmd.Wait(); err == nil {
		t.Error("the reconciler has begun")
	}
	if said := d.said.String(); !strings.Contains(said, "read-only file system (mount that file system writable again") {
		t.Errorf("it said:\n%s", said)
	}
}
