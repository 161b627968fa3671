package spec

import (
	"slices"
	"testing"
)

// A reference to a secret is found wherever a launch can have one.
func TestSecretsOfALaunch(t *testing.T) {
	mark := MarkSecret
	l := &Launch{
		Args:     []string{"x", "--token=" + mark("a/args")},
		Env:      []LaunchEnv{{Name: "A", Value: mark("a/env") + mark("a/args")}},
		Stop:     []StopStep{{HTTP: &HTTPAction{BasicAuth: &HTTPBasicAuth{Password: mark("a/auth")}}}, {Exec: &LaunchExec{Args: []string{mark("a/step")}}}},
		Console:  &LaunchConsole{Password: mark("a/console")},
		Files:    []LaunchFile{{Path: "x", Content: "password=" + mark("a/file")}},
		Players:  &LaunchPlayers{HTTP: &HTTPAction{Headers: []HTTPHeader{{Name: "X", Value: mark("a/players")}}}},
		Commands: []LaunchCommand{{LaunchAction: LaunchAction{HTTP: &HTTPAction{Headers: []HTTPHeader{{Name: "X", Value: mark("a/command")}}}}}},
		Liveness: &LaunchProbe{HTTP: &HTTPAction{Headers: []HTTPHeader{{Name: "X", Value: mark("a/probe")}}}},
	}
	want := []string{"a/args", "a/auth", "a/command", "a/console", "a/env", "a/file", "a/players", "a/probe", "a/step"}
	got := slices.Sorted(slices.Values(l.Secrets()))
	if !slices.Equal(got, want) {
		t.Errorf("found are %q, want %q", got, want)
	}
	if got := (&Launch{}).Secrets(); got != nil {
		t.Errorf("of none there is %q", got)
	}
}
