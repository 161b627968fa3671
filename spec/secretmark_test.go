package spec

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// EC-6: a launch carries references, never what they lead to; which reference it is, is part of the spec.
func TestResolveSecrets(t *testing.T) {
	text := string(corpus(t, "good")["secrets.yaml"])
	l, faults := resolveText(t, text, smallHost)
	if len(faults) > 0 {
		t.Fatal(faultLines(faults))
	}
	password, token := MarkSecret("town/rcon-password"), MarkSecret("shared/API_Token.txt")
	if want := []string{"--region=eu", "--token=" + token, token}; !reflect.DeepEqual(l.Args, want) {
		t.Errorf("the arguments are %q, not %q", l.Args, want)
	}
	want := []LaunchEnv{
		{Name: "RCON_PASSWORD", Value: password},
		{Name: "DATABASE", Value: "postgres://game:" + password + "@db.eu/game?token=" + token},
	}
	if !reflect.DeepEqual(l.Env, want) {
		t.Errorf("the variables are %+v, not %+v", l.Env, want)
	}
	other, faults := resolveText(t, strings.Replace(text, "town/rcon-password", "town/rcon-password2", 1), smallHost)
	if len(faults) > 0 || other.SpecHash() == l.SpecHash() || other.LiveHash() != l.LiveHash() {
		t.Errorf("another reference is no change of the restart-class fields alone: %v", faults)
	}
	plain := l
	plain.Env = []LaunchEnv{{Name: "RCON_PASSWORD", Value: "town/rcon-password"}, want[1]}
	if plain.SpecHash() == l.SpecHash() {
		t.Error("a secret and its reference as a text have one hash")
	}
}

// What is not NAME/KEY may be the secret itself: it is refused, and shown nowhere.
func TestSecretReferences(t *testing.T) {
	long := strings.Repeat("k", 253)
	for _, ref := range []string{"town/rcon", "a/b", "a-1/B.c_d-e", "a/" + long, strings.Repeat("n", 63) + "/k"} {
		if detail := CheckSecretRef(ref); detail != "" {
			t.Errorf("%q is refused: %s", ref, detail)
		}
	}
	for _, ref := range []string{
		"hunter2-canary", "Town/canary", "canary/", "/canary", "canary/..", "../canary", "town/canary/x", "town/.canary", "town/..data",
		"town/canary x", "town/canary\tx", "-a/canary", "a/" + long + "k", strings.Repeat("n", 64) + "/canary", "town/cänary", "",
	} {
		_, faults := resolveText(t, fmt.Sprintf(template, "{name: s, type: Secret}", "", ", env: [{name: A, value: $(s)}]", "s: "+string(quoteJSON(ref))), smallHost)
		const want = "spec.parameters[s]: Invalid value: must be the name of a secret's file, 'NAME/KEY', never the secret\n"
		if got := faultLines(faults); got != want {
			t.Errorf("%q: %s", ref, got)
		}
	}
	_, faults := resolveText(t, fmt.Sprintf(template, "{name: s, type: Secret}", "", "", "s: 12345678"), smallHost)
	if got := faultLines(faults); !strings.Contains(got, "must be the name of a secret's file") || strings.Contains(got, "12345678") {
		t.Errorf("a secret that is a number: %s", got)
	}
}

// EC-17: the keeper judges the marks in a launch, whoever wrote it.
func TestLaunchMarks(t *testing.T) {
	good := MarkSecret("town/rcon")
	const notRef = "must be the name of a secret's file, 'NAME/KEY', never the secret"
	for name, c := range map[string]struct {
		spoil func(l *Launch)
		want  string
	}{
		"in a variable":        {func(l *Launch) { l.Env[0].Value = "x" + good + good }, ""},
		"in an argument":       {func(l *Launch) { l.Args[0] = good }, ""},
		"the longest":          {func(l *Launch) { l.Args[0] = good + strings.Repeat("a", 8191) }, ""},
		"longer":               {func(l *Launch) { l.Args[0] = good + strings.Repeat("a", 8192) }, "spec.actions.start.args[0]: Too long: must be at most 8192 bytes"},
		"not closed":           {func(l *Launch) { l.Env[0].Value = "\x00town/rcon" }, "spec.env[0].value: Invalid value: must not contain NUL"},
		"one more":             {func(l *Launch) { l.Env[0].Value = good + "\x00" }, "spec.env[0].value: Invalid value: must not contain NUL"},
		"of nothing":           {func(l *Launch) { l.Env[0].Value = "\x00\x00" }, "spec.env[0].value: Invalid value: " + notRef},
		"out of the directory": {func(l *Launch) { l.Args[0] = MarkSecret("../shadow") }, "spec.actions.start.args[0]: Invalid value: " + notRef},
		"a bad text around":    {func(l *Launch) { l.Args[0] = good + "\x1b" }, "spec.actions.start.args[0]: Invalid value: must be one line without control characters (a tab is allowed)"},
		"in a path":            {func(l *Launch) { l.Directory.Path = good }, "spec.directory.path: Invalid value: "},
		"in a line":            {func(l *Launch) { consoleStep(l).Line = good }, "spec.actions.stop.steps[0].console.line: Invalid value: must not contain NUL"},
		"in an address":        {func(l *Launch) { l.Endpoints[0].Address = good }, "spec.endpoints[0].address: Invalid value: "},
	} {
		t.Run(name, func(t *testing.T) {
			l := goodLaunch()
			c.spoil(&l)
			got := faultLines(l.Validate())
			if c.want == "" && got != "" || !strings.HasPrefix(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// A password of a console is one secret and nothing else.
func TestPasswordMark(t *testing.T) {
	row := launchRow("spec.console.password")
	for text, want := range map[string]string{
		MarkSecret("town/rcon"):                        "",
		"x" + MarkSecret("town/rcon"):                  "must be one secret and nothing else",
		MarkSecret("town/rcon") + MarkSecret("town/b"): "must be one secret and nothing else",
		MarkSecret("town"):                             "must be the name of a secret's file, 'NAME/KEY', never the secret",
	} {
		rest, detail := row.withoutSecrets(text)
		if detail != want {
			t.Errorf("%q: %q", text, detail)
		}
		if _, bad := row.checkText(rest, true); detail == "" && bad != "" {
			t.Errorf("%q: %s", text, bad)
		}
	}
}

// What is cut at its marks is whole when it is put together again.
func FuzzCutSecrets(f *testing.F) {
	for _, text := range []string{"", "a", MarkSecret("town/rcon"), "a" + MarkSecret("b/c") + "d", "\x00", "\x00\x00\x00", "$(a)\x00town/rcon\x00\x00"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var again strings.Builder
		refs := 0
		closed := CutSecrets(text, func(s string) {
			if s == "" || HasSecret(s) {
				t.Errorf("%q: the literal %q", text, s)
			}
			again.WriteString(s)
		}, func(ref string) {
			refs++
			again.WriteString(MarkSecret(ref))
		})
		if marks := strings.Count(text, "\x00"); closed != (marks%2 == 0) || closed && (again.String() != text || refs != marks/2) {
			t.Errorf("%q: closed %v, %d references, together %q", text, closed, refs, again.String())
		}
	})
}
