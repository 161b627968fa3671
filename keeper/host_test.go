package keeper

import (
	"slices"
	"strings"
	"testing"

	"reconciler.dev/reconciler/spec"
)

func TestMayExecute(t *testing.T) {
	tests := []struct {
		globs []string
		path  string
		want  bool
	}{
		{nil, "games/openttd", true},
		{[]string{}, "games/openttd", false},
		{[]string{"**"}, "games/openttd", true},
		{[]string{"games/*"}, "games/openttd", true},
		{[]string{"games/*"}, "games/deep/openttd", false},
		{[]string{"games/**"}, "games/deep/openttd", true},
		{[]string{"games/**"}, "games", true},
		{[]string{"**/openttd"}, "openttd", true},
		{[]string{"**/openttd"}, "a/b/openttd", true},
		{[]string{"**/bin/*"}, "a/bin/b/x", false},
		{[]string{"games/open*d"}, "games/openttd", true},
		{[]string{"games/o?enttd"}, "games/openttd", true},
		{[]string{"games/o?enttd"}, "games/oenttd", false},
		{[]string{"*"}, "games/openttd", false},
		{[]string{"bin/x", "games/openttd"}, "games/openttd", true},
		{[]string{"games/openttd"}, "games/openttd2", false},
	}
	for _, tt := range tests {
		if got := mayExecute(spec.Workspace{Executables: tt.globs}, tt.path); got != tt.want {
			t.Errorf("%q by %q: %v", tt.path, tt.globs, got)
		}
	}
}

// A glob with many stars costs no more than its length times that of the name.
func TestGlobIsLinear(t *testing.T) {
	name := strings.Repeat("a", 1000)
	if matchElement(strings.Repeat("*a", 400)+"b", name) {
		t.Error("it matches")
	}
}

func FuzzMatchGlob(f *testing.F) {
	f.Add("games/**", "games/x/y")
	f.Add("*a*b", "aab")
	f.Fuzz(func(t *testing.T, glob, path string) {
		if len(glob) > 64 || len(path) > 256 || strings.Count(glob, "**") > 4 {
			return
		}
		g, p := strings.Split(glob, "/"), strings.Split(path, "/")
		if matchGlob(g, p) && !matchGlob(append([]string{"**"}, g...), p) {
			t.Errorf("%q matches %q, and not with ** before it", glob, path)
		}
	})
}

func TestEnvironmentOverridesByName(t *testing.T) {
	l := &spec.Launch{Env: []spec.LaunchEnv{{Name: "HOME", Value: "/else"}, {Name: "HOMELY", Value: "x"}, {Name: "A", Value: "1"}, {Name: "A", Value: "2"}}}
	got := strings.Join(environment(l, "/home", "me", "/run/n"), " ")
	want := "HOME=/else PATH=/usr/local/bin:/usr/bin:/bin LANG=C.UTF-8 USER=me LOGNAME=me NOTIFY_SOCKET=/run/n HOMELY=x A=2"
	if got != want {
		t.Errorf("%s, not %s", got, want)
	}
	l.Console = &spec.LaunchConsole{Input: spec.ConsoleStdin, TTY: &spec.LaunchTTY{}}
	for _, term := range []string{"xterm", "vt100"} {
		if env := environment(l, "/home", "me", "/run/n"); !slices.Contains(env, "TERM="+term) {
			t.Errorf("on a terminal: %q, want TERM=%s", env, term)
		}
		l.Env = []spec.LaunchEnv{{Name: "TERM", Value: "vt100"}}
	}
}
