package secret_test

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"reconciler.dev/reconciler/keeper/secret"
)

const canary = "kanarienvogel-7391"

// forms are the ways in which a canary's bytes would show.
func forms() []string {
	b := []byte(canary)
	return []string{canary, fmt.Sprintf("%x", b), fmt.Sprintf("%X", b), fmt.Sprint(b), strings.Trim(fmt.Sprint(b), "[]"), fmt.Sprintf("%#x", b[0]) + ", " + fmt.Sprintf("%#x", b[1])}
}

func mustHide(t *testing.T, how, text string) {
	t.Helper()
	for _, f := range forms() {
		if strings.Contains(text, f) {
			t.Errorf("%s reveals the secret as %q", how, f)
		}
	}
}

type hiddenField struct {
	name  string
	value secret.Value
	deep  struct{ list []secret.Value }
	ptr   *secret.Value
	any   any
}

func TestNoVerbReveals(t *testing.T) {
	v := secret.New([]byte(canary))
	h := hiddenField{name: "x", value: v, ptr: &v, any: v}
	h.deep.list = []secret.Value{v}
	all := map[string]any{
		"value": v, "pointer": &v, "slice": []secret.Value{v}, "array": [1]secret.Value{v},
		"element": map[string]secret.Value{"a": v}, "exported": struct{ V secret.Value }{v}, "unexported": h, "pointer to unexported": &h,
		"any": []any{v, &v, h},
	}
	for name, x := range all {
		for _, flags := range []string{"", "+", "#", "-", " ", "0", "+#", "20", ".3"} {
			for verb := 'A'; verb <= 'z'; verb++ {
				if verb > 'Z' && verb < 'a' {
					continue
				}
				format := "%" + flags + string(verb)
				mustHide(t, name+" by "+format, fmt.Sprintf(format, x))
			}
		}
		mustHide(t, name+" by Println", fmt.Sprintln(x))
	}
	if got := fmt.Sprintf("%s %v %#v %d %q %x", v, v, v, v, v, v); got != strings.Repeat(" [secret]", 6)[1:] {
		t.Errorf("got %q", got)
	}
}

func TestNoEncodingReveals(t *testing.T) {
	v := secret.New([]byte(canary))
	b, err := json.Marshal(map[string]any{"a": v, "b": &v, "c": struct{ V secret.Value }{v}})
	if err != nil {
		t.Fatal(err)
	}
	mustHide(t, "JSON", string(b))
	if want := `{"a":"[secret]","b":"[secret]","c":{"V":"[secret]"}}`; string(b) != want {
		t.Errorf("JSON is %s, not %s", b, want)
	}
	var log bytes.Buffer
	for _, h := range []slog.Handler{slog.NewTextHandler(&log, nil), slog.NewJSONHandler(&log, nil)} {
		slog.New(h).Info("m", "v", v, "p", &v, "list", []secret.Value{v}, slog.Group("g", "v", v))
	}
	mustHide(t, "slog", log.String())
	if !strings.Contains(log.String(), "v=[secret]") {
		t.Errorf("the log does not name the secret: %s", log.String())
	}
	var wire bytes.Buffer
	if err := gob.NewEncoder(&wire).Encode(v); err != nil {
		mustHide(t, "gob's error", err.Error())
	}
	mustHide(t, "gob", wire.String())
	mustHide(t, "an error", fmt.Errorf("x: %v %w", v, errors.New(v.String())).Error())
	if err := json.Unmarshal([]byte(`"`+canary+`"`), &v); err == nil {
		t.Error("a secret was decoded from JSON")
	} else {
		mustHide(t, "the decoding error", err.Error())
	}
}

func TestValue(t *testing.T) {
	var none secret.Value
	if none.Set() || none.Reveal() != nil || string(none.Redact([]byte("a"))) != "a" || none.String() != "[secret]" {
		t.Error("the zero Value holds something")
	}
	none.Zero()
	b := []byte(canary)
	v := secret.New(b)
	other := v
	if !v.Set() || string(v.Reveal()) != canary || !v.Equal(secret.New([]byte(canary))) || v.Equal(secret.New([]byte("x"))) || v.Equal(none) {
		t.Error("the Value does not hold what it was made of")
	}
	if got := v.Redact([]byte("a " + canary + canary + " b")); string(got) != "a [secret][secret] b" {
		t.Errorf("redacted to %q", got)
	}
	v.Zero()
	if other.Set() || !bytes.Equal(b, make([]byte, len(canary))) {
		t.Error("the secret is still in memory")
	}
}

func TestRedactAll(t *testing.T) {
	short, long := secret.New([]byte(canary)), secret.New([]byte(canary+"-and-more"))
	for _, order := range [][]secret.Value{{short, long}, {long, short}, {{}, short, {}, long}} {
		if got := string(secret.Redact([]byte(canary+"-and-more, "+canary+"!"), order...)); got != "[secret], [secret]!" {
			t.Errorf("what is left is %q", got)
		}
	}
}

// A print tells secrets and keys apart, and is no secret.
func TestPrint(t *testing.T) {
	v := secret.New([]byte(canary))
	if v.Print("run") != secret.New([]byte(canary)).Print("run") {
		t.Error("equal secrets have two prints")
	}
	for what, other := range map[string]string{
		"another secret": secret.New([]byte(canary + "x")).Print("run"), "another key": v.Print("nur"), "no secret": secret.Value{}.Print("run"),
	} {
		if other == v.Print("run") || len(other) != 32 {
			t.Errorf("%s has the print %s", what, other)
		}
	}
	mustHide(t, "the print", v.Print("run"))
}

// Of a secret of several lines each is replaced where it was written line by line.
func TestRedactLine(t *testing.T) {
	v := secret.New([]byte("-----BEGIN\r\n" + canary + "\n\nend of it"))
	for line, want := range map[string]string{canary: "[secret]", "x" + canary: "x[secret]", "-----BEGIN": "[secret]", "the end of it!": "the [secret]!", "free": "free", "": ""} {
		if got := string(secret.RedactLine([]byte(line), v)); got != want {
			t.Errorf("%q becomes %q", line, got)
		}
	}
}
