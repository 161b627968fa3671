package state

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/spec"
)

func scopeOf(server string) spec.Scope {
	return spec.Scope{Namespace: "default", Server: server, Profile: "game"}
}

// sample is a record as most are.
func sample(server string) *Record {
	scope := scopeOf(server)
	return &Record{
		Version: RecordVersion, Scope: scope, UID: "0d5f6a52-7a0e-4f0e-9a63-0d6c5b1f3c11",
		Run: &Run{
			Number: 1, ID: "r-" + server, Phase: Started, Cgroup: "reconciler/r-" + server,
			Identity: &Identity{BootID: "boot-1", PID: 4711, PidfdInode: uint64(len(server))<<32 + uint64(server[len(server)-1]), StartTicks: 99},
			Launch: spec.Launch{
				Scope: scope, Workspace: "usr", Executable: "games/openttd", Args: []string{"-D", "127.0.0.1:3979", "-x"},
				Directory: spec.LaunchFolder{Workspace: "data", Path: server},
				Stop:      []spec.StopStep{{Signal: &spec.SignalAction{Name: "SIGTERM", To: spec.ToMain}, WaitFor: spec.WaitForExit, WaitSeconds: 30}},
			},
			SpecHash: strings.Repeat("a", 64), LiveHash: strings.Repeat("b", 64), Cause: "Wanted",
		},
	}
}

// privateDir is a directory as Open wants it.
func privateDir(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "keeper")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// openStore opens a store whose flusher runs until the test is over or closed is called.
func openStore(t testing.TB, disk Disk, dir string) (s *Store, found *Contents, closed func()) {
	t.Helper()
	s, found, err := Open(disk, dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	closed = func() {
		cancel()
		if err, ok := <-done; ok {
			close(done)
			if err := errors.Join(err, s.Close()); err != nil {
				t.Error(err)
			}
		}
	}
	t.Cleanup(closed)
	return s, found, closed
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func scopes(records []*Record) (names []string) {
	for _, r := range records {
		names = append(names, r.Scope.Server)
	}
	return names
}

func TestPutAndReopen(t *testing.T) {
	dir := privateDir(t)
	s, found, closed := openStore(t, LinuxDisk{}, dir)
	if len(found.Records)+len(found.Blocked)+len(found.Notes) != 0 || found.Rebooted {
		t.Fatalf("a new store holds %+v", found)
	}
	want := sample("town")
	must(t, s.Put(want))
	must(t, s.PutDurable(t.Context(), sample("village")))
	want.Run.Phase = Exited
	want.History = []Exit{{Number: 1, RunID: want.Run.ID, ExitStatus: spec.ExitStatus{Class: spec.Unexpected, Reason: spec.ReasonExited}}}
	must(t, s.Put(want))
	if want.Seq != 0 {
		t.Error("Put changed what it was given")
	}
	closed()

	_, found, _ = openStore(t, LinuxDisk{}, dir)
	if got := scopes(found.Records); !slices.Equal(got, []string{"town", "village"}) {
		t.Fatalf("found %q", got)
	}
	got := found.Records[0]
	if got.Seq != 3 {
		t.Errorf("seq is %d, want 3", got.Seq)
	}
	got.Seq = 0
	a, _ := EncodeRecord(got)
	b, _ := EncodeRecord(want)
	if string(a) != string(b) {
		t.Errorf("found %s\nwant %s", a, b)
	}
}

func TestModes(t *testing.T) {
	old := unix.Umask(0)
	defer unix.Umask(old)
	dir := privateDir(t)
	s, _, _ := openStore(t, LinuxDisk{}, dir)
	must(t, s.PutDurable(t.Context(), sample("town")))
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		want := os.FileMode(0o600)
		if d.IsDir() {
			want = 0o700
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %04o, want %04o", path, info.Mode().Perm(), want)
		}
		return nil
	})
	must(t, err)
}

func TestArchiveKeepsAll(t *testing.T) {
	dir := privateDir(t)
	s, _, closed := openStore(t, LinuxDisk{}, dir)
	if err := s.Archive(scopeOf("town")); !errors.Is(err, ErrNoRecord) {
		t.Errorf("Archive without a record: %v", err)
	}
	r := sample("town")
	must(t, s.Put(r))
	if err := s.Archive(r.Scope); !errors.Is(err, ErrRunning) {
		t.Errorf("Archive of a run that is not over: %v", err)
	}
	for range 3 {
		r.Run.Phase = Exited
		must(t, s.Put(r))
		must(t, s.Archive(r.Scope))
	}
	must(t, s.Flush(t.Context()))
	closed()
	s, found, _ := openStore(t, LinuxDisk{}, dir)
	if len(found.Records) != 0 {
		t.Errorf("records are left: %q", scopes(found.Records))
	}
	names, err := LinuxDisk{}.List(filepath.Join(dir, "archive"))
	must(t, err)
	if want := []string{"default.town.game@2.json", "default.town.game@3.json", "default.town.game@4.json"}; !slices.Equal(names, want) {
		t.Fatalf("the archive holds %q, want %q", names, want)
	}

	past, err := s.Past(spec.Key{Namespace: r.Scope.Namespace, Name: r.Scope.Server})
	if err != nil || len(past) != 3 || past[0].Seq != 2 || past[2].Seq != 4 || past[2].Scope != r.Scope {
		t.Errorf("the past of it is %+v, %v", past, err)
	}
	for _, other := range []spec.Key{{Namespace: r.Scope.Namespace, Name: "tow"}, {Namespace: "edge", Name: r.Scope.Server}} {
		if past, err := s.Past(other); err != nil || len(past) != 0 {
			t.Errorf("the past of %s is %+v, %v", other, past, err)
		}
	}

	must(t, s.Retire(t.Context(), r.Scope))
	if past, err := s.Past(spec.Key{Namespace: r.Scope.Namespace, Name: r.Scope.Server}); err != nil || len(past) != 0 {
		t.Errorf("the past of what was retired is %+v, %v", past, err)
	}
	if names, err = (LinuxDisk{}).List(filepath.Join(dir, "retired")); err != nil || len(names) != 3 {
		t.Errorf("retired holds %q, %v; want all three", names, err)
	}
	if err := s.Retire(t.Context(), r.Scope); !errors.Is(err, ErrNoRecord) {
		t.Errorf("Retire of nothing: %v", err)
	}
	must(t, s.Put(r))
	if err := s.Retire(t.Context(), r.Scope); !errors.Is(err, ErrUsable) {
		t.Errorf("Retire of a sound record: %v", err)
	}
}

func TestOneProcessOneRecord(t *testing.T) {
	s, _, _ := openStore(t, LinuxDisk{}, privateDir(t))
	a, b := sample("a"), sample("b")
	b.Run.Identity = a.Run.Identity
	must(t, s.Put(a))
	if err := s.Put(b); !errors.Is(err, ErrTaken) {
		t.Errorf("a second record of one process: %v", err)
	}
	a.Run.Identity = &Identity{BootID: "boot-1", PID: 5000, StartTicks: 1}
	must(t, s.Put(a))
	must(t, s.Put(b))
}

func TestPutRefusesWhatOpenWould(t *testing.T) {
	s, _, _ := openStore(t, LinuxDisk{}, privateDir(t))
	for name, spoil := range map[string]func(*Record){
		"scope":           func(r *Record) { r.Scope.Server = "../../etc" },
		"number":          func(r *Record) { r.Run.Number = 0 },
		"id":              func(r *Record) { r.Run.ID = "../x" },
		"cgroup":          func(r *Record) { r.Run.Cgroup = "a/../../b" },
		"cgroup root":     func(r *Record) { r.Run.Cgroup = "/" },
		"launch of other": func(r *Record) { r.Run.Launch.Scope.Server = "other" },
		"no identity":     func(r *Record) { r.Run.Identity = nil },
		"init":            func(r *Record) { r.Run.Identity.PID = 1 },
		"phase":           func(r *Record) { r.Run.Phase = "Running" },
		"steps":           func(r *Record) { r.Run.Stop = &Stop{Steps: make([]StepEntry, 1)} },
		"history":         func(r *Record) { r.History = make([]Exit, HistoryLimit+1) },
		"size":            func(r *Record) { r.UID = strings.Repeat("x", MaxRecordSize) },
	} {
		r := sample("town")
		spoil(r)
		if err := s.Put(r); err == nil {
			t.Errorf("%s: was put", name)
		}
	}
}

func TestClosedStore(t *testing.T) {
	s, _, closed := openStore(t, LinuxDisk{}, privateDir(t))
	closed()
	if err := s.Put(sample("town")); !errors.Is(err, ErrClosed) {
		t.Errorf("Put: %v", err)
	}
	if err := s.Retire(t.Context(), scopeOf("town")); !errors.Is(err, ErrClosed) {
		t.Errorf("Retire: %v", err)
	}
}
