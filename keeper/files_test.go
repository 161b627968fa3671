package keeper_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"reconciler.dev/reconciler/keeper"
	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
)

// file is a file of a launch that is written at each start.
func file(path, content string) spec.LaunchFile {
	return spec.LaunchFile{Path: path, Content: content, Write: spec.WriteEachStart, OnChange: spec.ChangeApply}
}

// holds checks what a file holds, and its mode.
func holds(t *testing.T, path, want string, mode fs.FileMode) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want {
		t.Errorf("%s holds %q (%v), not %q", filepath.Base(path), got, err, want)
	}
	if info, err := os.Lstat(path); err != nil || info.Mode() != mode {
		t.Errorf("%s: %v, %v; not mode %v", filepath.Base(path), info, err, mode)
	}
}

// A run finds its files in their places, with its secrets in them; the record has what they are called, not what they are (EC-6).
func TestFilesAreWritten(t *testing.T) {
	r := newRig(t)
	r.writeSecret("town/rcon", canary+"\n", 0o600)
	l := r.launch("town", "run")
	ifMissing := spec.LaunchFile{Path: "made.cfg", Content: "ours", Write: spec.WriteIfMissing, OnChange: spec.ChangeApply}
	l.Files = []spec.LaunchFile{
		file("server.cfg", "password="+spec.MarkSecret("town/rcon")+"\n"), file("conf/d/a.cfg", "a\n"), file("conf/empty", ""), ifMissing,
		{Path: "shared/b.cfg", Workspace: l.Directory.Workspace, Content: "b", Write: spec.WriteEachStart, OnChange: spec.ChangeApply},
	}
	r.ready(l)
	dir := filepath.Join(r.layout.Data(), "town")
	holds(t, filepath.Join(dir, "server.cfg"), "password="+canary+"\n", 0o600)
	holds(t, filepath.Join(dir, "conf/d/a.cfg"), "a\n", 0o640)
	holds(t, filepath.Join(dir, "conf/empty"), "", 0o640)
	holds(t, filepath.Join(dir, "made.cfg"), "ours", 0o640)
	holds(t, filepath.Join(r.layout.Data(), "shared/b.cfg"), "b", 0o640)
	record, err := os.ReadFile(filepath.Join(r.layout.Keeper(), "records", l.Scope.ID()+".json"))
	if err != nil || strings.Contains(string(record), canary) || !strings.Contains(string(record), "town/rcon") {
		t.Errorf("the record holds the secret, or no reference: %v: %s", err, record)
	}

	// What the server made of them is nobody's business while it runs, and is replaced before the next run where the wish says so.
	r.stop(l.Scope)
	r.awaitOver(l.Scope)
	for _, name := range []string{"server.cfg", "made.cfg"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("the server's"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	left := filepath.Join(dir, ".reconciler-new") // by a keeper that died
	if err := os.WriteFile(left, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.ready(l)
	holds(t, filepath.Join(dir, "server.cfg"), "password="+canary+"\n", 0o600)
	holds(t, filepath.Join(dir, "made.cfg"), "the server's", 0o640)
	if _, err := os.Lstat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what a dead keeper has left is there: %v", err)
	}
}

// Whatever a server puts into the way of its files, nothing outside of its directory is written, and what stood there is
// replaced, not followed.
func TestFilesFollowNoSymlink(t *testing.T) {
	r := newRig(t)
	dir, outside := filepath.Join(r.layout.Data(), "town"), t.TempDir()
	victim := filepath.Join(outside, "a.cfg")
	must := func(errs ...error) {
		t.Helper()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	must(os.Mkdir(dir, 0o750), os.WriteFile(victim, []byte("theirs"), 0o600),
		os.Symlink(victim, filepath.Join(dir, "link.cfg")), os.Symlink(outside, filepath.Join(dir, "conf")),
		os.Symlink(victim, filepath.Join(dir, ".reconciler-new")))
	l := r.launch("town", "run")
	l.Files = []spec.LaunchFile{file("link.cfg", "ours")}
	r.ready(l)
	holds(t, filepath.Join(dir, "link.cfg"), "ours", 0o640)
	holds(t, victim, "theirs", 0o600)
	r.stop(l.Scope)
	r.awaitOver(l.Scope)

	must(os.Mkdir(filepath.Join(dir, "folder"), 0o700))
	for path, want := range map[string]string{
		"conf/a.cfg": "cannot write spec.files[1]: " + syscall.ELOOP.Error() + ": a part of its path is a symlink or no directory, and files are written through none",
		"folder":     "cannot write spec.files[1]: " + syscall.EISDIR.Error() + ": there is a directory in its place",
	} {
		l.Files = []spec.LaunchFile{file("made/new.cfg", "ours"), file(path, "ours")}
		err := r.client.Start(t.Context(), r.order(l))
		if failed := new(keeper.StartFailedError); !errors.As(err, &failed) || failed.Message != want {
			t.Errorf("%s: %v, not %s", path, err, want)
		}
		r.await(l.Scope, "ended for it", func(f *observe.Facts) bool { return len(f.Exits) > 0 && f.Exits[len(f.Exits)-1].Why == want })
		holds(t, victim, "theirs", 0o600)
		// EC-7: what this start has made is gone.
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 3 {
			t.Errorf("%s: the directory holds %v (%v)", path, entries, err)
		}
	}
}

// What the host does not let a server write is refused before anything is done, and so is a file whose secret is not there.
func TestFilesAreRefused(t *testing.T) {
	r := newRig(t)
	for want, f := range map[string]spec.LaunchFile{
		`spec.files[0].workspace: this host opens no workspace "nowhere"; it opens test, usr, data`:                                                         {Path: "a", Workspace: "nowhere", Write: spec.WriteEachStart, OnChange: spec.ChangeApply},
		"spec.files[0].workspace: workspace usr is not writable on this host: choose one that is, or set workspaces[].writable in the host's configuration": {Path: "a", Workspace: "usr", Write: spec.WriteEachStart, OnChange: spec.ChangeApply},
		"spec.files[0].content: secret town/none: there is no such file: put it below the secrets directory, with mode 0600":                                file("a", spec.MarkSecret("town/none")),
		"spec.files[0].path: Invalid value: \"../a\": must be a relative path: no leading '/', no '..', no control characters":                              file("../a", ""),
	} {
		l := r.launch("refused", "run")
		l.Files = []spec.LaunchFile{f}
		err := r.client.Start(t.Context(), r.order(l))
		if refused := new(keeper.Refused); !errors.As(err, &refused) || refused.Public() != want {
			t.Errorf("%v, not %s", err, want)
		}
		if _, err := os.Stat(filepath.Join(r.layout.Data(), "refused")); !errors.Is(err, fs.ErrNotExist) || r.facts(l.Scope) != nil {
			t.Errorf("its directory or its record was left: %v", err)
		}
	}
}
