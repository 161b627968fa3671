package daemon

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"reconciler.dev/reconciler/observe/logs"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Entries become lines: a line that comes in parts stays one, and one that the other stream cuts is ended first.
func TestLineWriter(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	entry := func(s logs.Stream, partial bool, text string) logs.Entry {
		return logs.Entry{Time: at, Stream: s, Partial: partial, Text: []byte(text)}
	}
	for _, tt := range []struct {
		name       string
		timestamps bool
		entries    []logs.Entry
		want       string
	}{
		{"whole lines", false, []logs.Entry{entry(logs.Stdout, false, "one"), entry(logs.Stderr, false, "two")}, "one\ntwo\n"},
		{"an empty line", false, []logs.Entry{entry(logs.Stdout, false, "")}, "\n"},
		{"a line in parts", false, []logs.Entry{entry(logs.Stdout, true, "on"), entry(logs.Stdout, false, "e"), entry(logs.Stdout, false, "two")}, "one\ntwo\n"},
		{"a line without an end", false, []logs.Entry{entry(logs.Stdout, true, "prompt> ")}, "prompt> "},
		{"two streams", false, []logs.Entry{entry(logs.Stdout, true, "prompt> "), entry(logs.Stderr, false, "oops"), entry(logs.Stdout, false, "x")}, "prompt> \noops\nx\n"},
		{"times", true, []logs.Entry{entry(logs.Stdout, true, "on"), entry(logs.Stdout, false, "e"), entry(logs.Stdout, false, "two")},
			"2026-01-02T03:04:05.000000006Z one\n2026-01-02T03:04:05.000000006Z two\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var b bytes.Buffer
			w := lineWriter{w: &b, timestamps: tt.timestamps}
			for _, e := range tt.entries {
				if err := w.write(e); err != nil {
					t.Fatal(err)
				}
			}
			if b.String() != tt.want {
				t.Errorf("got %q, want %q", b.String(), tt.want)
			}
		})
	}
}

func TestParseWorkspace(t *testing.T) {
	dir := t.TempDir()
	w, err := ParseWorkspace("games=" + dir)
	if err != nil || w != (Workspace{Name: "games", Dir: dir}) {
		t.Errorf("got %+v, %v", w, err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"games":         "must be NAME=DIR",
		"games=":        "must be NAME=DIR",
		"=x":            "the name must be",
		"Games=/":       "the name must be",
		"a.b=/":         "the name must be",
		"games=/no/dir": "there is no such directory",
		"games=" + file: "this is no directory",
	} {
		if _, err := ParseWorkspace(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func FuzzParseWorkspace(f *testing.F) {
	for _, seed := range []string{"usr=/usr", "=", "a=b=c", "a", "A=/", "\x00=/"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		w, err := ParseWorkspace(text)
		if err == nil && (!spec.IsLabel(w.Name) || !filepath.IsAbs(w.Dir)) {
			t.Errorf("%q is read as %+v", text, w)
		}
	})
}

const hostText = `apiVersion: reconciler.dev/v1alpha1
kind: Host
metadata: {name: box}
spec:
  workspaces: [{name: opt, path: /opt}]
  inheritEnv: [LANG]
  logs: {perServer: 32Mi, total: 1Gi}
`

func TestReadHost(t *testing.T) {
	file := filepath.Join(t.TempDir(), "host.yaml")
	write := func(text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
	}
	write(hostText, 0o644)
	conf, err := ReadHost(file)
	if err != nil {
		t.Fatal(err)
	}
	host, err := NewHost(state.Layout{State: "/state"}, conf, []Workspace{{Name: "games", Dir: "/games"}})
	if err != nil {
		t.Fatal(err)
	}
	if k := host.Keeper; k.InheritAny || len(k.Inherit) != 1 || k.LogsPerServer != 32<<20 || k.LogsTotal != 1<<30 {
		t.Errorf("got %+v", k)
	}
	if v := host.View; v.InheritAny || len(v.Workspaces) != 2 || v.Workspaces["opt"] != "/opt" || v.Workspaces["games"] != "/games" {
		t.Errorf("got %+v", v)
	}
	for _, tt := range []struct {
		name, text string
		mode       os.FileMode
		want       string
	}{
		{"others may write it", hostText, 0o666, "has mode 0666, so others may write it; make it 0644 or less"},
		{"its group may write it", hostText, 0o664, "has mode 0664"},
		{"a fault", hostText + "  wat: 1\n", 0o600, "spec.wat"},
		{"too large", "#" + strings.Repeat("x", maxHostFile), 0o600, "is over 1 MiB"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			write(tt.text, tt.mode)
			if _, err := ReadHost(file); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
	if _, err := ReadHost(filepath.Dir(file)); err == nil || !strings.Contains(err.Error(), "is no regular file") {
		t.Errorf("a directory: %v", err)
	}
}

// Without a configuration the manifests are trusted, and the two built-in workspaces are open.
func TestNewHost(t *testing.T) {
	l := state.Layout{State: "/state"}
	host, err := NewHost(l, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if v := host.View; !v.InheritAny || v.Workspaces["usr"] != "/usr" || v.Workspaces["data"] != "/state/data" || len(v.Workspaces) != 2 {
		t.Errorf("got %+v", v)
	}
	data, _ := host.Keeper.Workspace("data")
	if !data.Writable || data.Executables == nil || len(data.Executables) != 0 {
		t.Errorf("data is %+v: it must be writable and let nothing be executed", data)
	}
	if usr, _ := host.Keeper.Workspace("usr"); usr.Writable || usr.Executables != nil {
		t.Errorf("usr is %+v", usr)
	}
	for _, name := range []string{"usr", "data"} {
		if _, err := NewHost(l, nil, []Workspace{{Name: name, Dir: "/x"}}); err == nil {
			t.Errorf("a second workspace %s is taken", name)
		}
	}
}

func TestLastLine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	if got := lastLine(file); got != "" {
		t.Errorf("of no file: %q", got)
	}
	for text, want := range map[string]string{"": "", "one\n": "one", "one\ntwo\n\n": "two", strings.Repeat("x\n", 5000) + "end": "end"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := lastLine(file); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
