package cli

import (
	"bytes"
	"testing"

	"reconciler.dev/reconciler/spec"
)

// What is said to try next is what this person can type: with the program's name and the directories as they named them.
func TestFirstHint(t *testing.T) {
	for _, tt := range []struct {
		name string
		r    runCommand
		key  spec.Key
		want string
	}{
		{
			"the usual place", runCommand{}, spec.Key{Namespace: "default", Name: "echo"},
			`hint: echo is running. In another terminal try
  bin/reconciler get servers
  bin/reconciler logs echo -f
  bin/reconciler describe server echo
or change a file in the directory of manifests and look again. Ctrl-C ends the reconciler alone: what runs goes on until 'bin/reconciler shutdown'.
`,
		},
		{
			"another place and namespace",
			runCommand{place: place{state: "demo/state", runtime: "a b"}, manifests: []string{"demo/manifests", "more"}, stopOnExit: true},
			spec.Key{Namespace: "games", Name: "town"},
			`hint: games/town is running. In another terminal try
  bin/reconciler get servers --state-dir demo/state --runtime-dir 'a b'
  bin/reconciler logs town -n games -f --state-dir demo/state --runtime-dir 'a b'
  bin/reconciler describe server town -n games --state-dir demo/state --runtime-dir 'a b'
or change a file in demo/manifests and look again. Ctrl-C stops everything.
`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.r.e = &env{self: "bin/reconciler"}
			var out bytes.Buffer
			hint := tt.r.firstHint(&out)
			hint(tt.key)
			hint(spec.Key{Namespace: "default", Name: "another"})
			if out.String() != tt.want {
				t.Errorf("got:\n%swant:\n%s", out.String(), tt.want)
			}
		})
	}
}

func TestQuoted(t *testing.T) {
	for word, want := range map[string]string{
		"demo/state": "demo/state", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "$HOME": "'$HOME'", "häuser": "'häuser'",
	} {
		if got := quoted(word); got != want {
			t.Errorf("quoted(%q) = %s, want %s", word, got, want)
		}
	}
}
