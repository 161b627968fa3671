package secret_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"reconciler.dev/reconciler/keeper/secret"
	"reconciler.dev/reconciler/spec"
)

func TestFill(t *testing.T) {
	dir := newDir(t)
	write(t, filepath.Join(dir, "town", "long"), canary+"-and-more\n", 0o600)
	rcon, long := spec.MarkSecret("town/rcon"), spec.MarkSecret("town/long")
	for name, c := range map[string]struct {
		text, want string
		parts      int
	}{
		"nothing":            {"", "", 0},
		"no secret":          {"$(town/rcon) town/rcon", "$(town/rcon) town/rcon", 0},
		"a secret alone":     {rcon, canary, 1},
		"in a text":          {"Bearer " + rcon + "!", "Bearer " + canary + "!", 1},
		"twice":              {rcon + rcon, canary + canary, 1},
		"two, one in a part": {rcon + "," + long, canary + "," + canary + "-and-more", 2},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := secret.Store{Directory: dir}.Fill(c.text)
			if err != nil || string(text.Reveal()) != c.want || len(text.Parts) != c.parts {
				t.Fatalf("%d parts, %q: %v", len(text.Parts), text.Reveal(), err)
			}
			mustHide(t, "printing it", fmt.Sprintf("%v %+v %#v %s", text, text, &text, text))
			if c.parts > 0 {
				shown := string(text.Redact([]byte("so " + c.want + " it is")))
				mustHide(t, "the redacted text", shown)
				if strings.Contains(shown, "-and-more") {
					t.Errorf("the end of a secret that begins with another is shown: %q", shown)
				}
			}
			text.Zero()
			if text.Set() {
				t.Error("the text is there after Zero")
			}
		})
	}
}

func TestFillRefuses(t *testing.T) {
	dir := newDir(t)
	write(t, filepath.Join(dir, "town", "large"), strings.Repeat("g", secret.Limit), 0o600)
	large := spec.MarkSecret("town/large")
	for name, c := range map[string]struct{ text, want string }{
		"a secret that is missing": {"x" + spec.MarkSecret("town/none"), "secret town/none: there is no such file"},
		"no reference":             {spec.MarkSecret("../etc/shadow"), "not NAME/KEY"},
		"no reference at all":      {spec.MarkSecret(""), "not NAME/KEY"},
		"an open mark":             {"x\x00town/rcon", "not closed"},
		"an open mark after one":   {spec.MarkSecret("town/rcon") + "\x00", "not NAME/KEY"},
		"more than is allowed":     {large + large, "secret town/large: with what else is in the same text it is larger than 256 KiB"},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := secret.Store{Directory: dir}.Fill(c.text)
			if err == nil || !strings.Contains(err.Error(), c.want) || text.Set() || len(text.Parts) > 0 {
				t.Fatalf("the error is %q; it must say %q", err, c.want)
			}
			mustHide(t, "the error", err.Error())
		})
	}
	if _, err := (secret.Store{}).Fill("plain"); err != nil {
		t.Errorf("a text without secrets needs a directory: %v", err)
	}
}

// A text without marks is what it was; one with them holds neither NUL nor a reference after it was filled.
func FuzzFill(f *testing.F) {
	dir := f.TempDir() + "/secrets"
	makeSecret(f, dir)
	for _, text := range []string{"", "plain", "$(x)", spec.MarkSecret("town/rcon"), "a" + spec.MarkSecret("town/rcon") + "b", "\x00", "\x00\x00", "\x00\x00\x00", "\x00town/rcon\x00\x00", spec.MarkSecret("town/..")} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		filled, err := secret.Store{Directory: dir}.Fill(text)
		marks := strings.Count(text, "\x00")
		switch {
		case marks == 0 && (err != nil || string(filled.Reveal()) != text):
			t.Errorf("%q becomes %q: %v", text, filled.Reveal(), err)
		case marks%2 == 1 && err == nil:
			t.Errorf("%q was filled", text)
		case marks > 0 && err == nil && string(filled.Reveal()) != strings.ReplaceAll(text, spec.MarkSecret("town/rcon"), canary):
			t.Errorf("%q becomes %q", text, filled.Reveal())
		}
	})
}
