package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"reconciler.dev/reconciler/cmd/reconciler/internal/api"
	"reconciler.dev/reconciler/spec"
)

func FuzzCondition(f *testing.F) {
	for _, seed := range []string{"delete", "condition=Ready", "condition=Ready=False", "jsonpath={.status.state}=Running", "jsonpath=.a=b",
		"jsonpath={.items[?(@.a==\"b\")]}=x", "jsonpath=", "jsonpath={", "=", "jsonpath={..x}="} {
		f.Add(seed)
	}
	raw := json.RawMessage(`{"metadata":{"name":"town"},"items":[{"a":"b"}],"status":{"state":"Running"}}`)
	s := &api.Server{Metadata: api.ObjectMeta{Name: "town"}, Status: spec.ServerStatus{State: spec.StateRunning}}
	f.Fuzz(func(t *testing.T, text string) {
		judgeOf, err := parseCondition(text)
		if err != nil {
			return
		}
		j := judgeOf(spec.Key{Namespace: "default", Name: "town"}, time.Time{})
		for _, look := range []*api.Server{s, nil} {
			if v, err := j(look, raw); (v == missed) != (err != nil) {
				t.Errorf("%q: verdict %d with error %v", text, v, err)
			}
		}
	})
}

func TestParseServer(t *testing.T) {
	for arg, want := range map[string]string{"town": "town", "server/town": "town", "servers/town": "town", "Server/town": "town"} {
		if k, err := parseServer(arg, "default"); err != nil || k.Name != want || k.Namespace != "default" {
			t.Errorf("%q: %v, %v", arg, k, err)
		}
	}
	for _, arg := range []string{"", "/", "server/", "profile/x", "a/b/c", "Town", "server/-x", strings.Repeat("x", 64)} {
		if k, err := parseServer(arg, "default"); err == nil {
			t.Errorf("%q is read as %v", arg, k)
		}
	}
}

// Progress is one line on a terminal that is drawn over, and is gone in the end; a pipe sees nothing.
func TestProgress(t *testing.T) {
	one := &waiting{key: spec.Key{Namespace: "default", Name: "town"}, state: "Stopping"}
	var b bytes.Buffer
	p := newProgress(&env{stderr: &b, progress: true})
	p.show([]*waiting{one})
	p.show([]*waiting{one}) // nothing new: not drawn again
	many := []*waiting{one, one, one, one, one}
	p.show(many)
	p.clear()
	p.clear()
	want := "\rwaiting: town is Stopping\x1b[K" +
		"\rwaiting: town is Stopping; town is Stopping; town is Stopping; and 2 more\x1b[K" +
		"\r\x1b[K"
	if b.String() != want {
		t.Errorf("got %q", b.String())
	}
	b.Reset()
	p = newProgress(&env{stderr: &b})
	p.show(many)
	p.clear()
	if b.Len() > 0 {
		t.Errorf("a pipe got %q", b.String())
	}
}

// Where things are: flags first, then the environment, then the defaults.
func TestLayout(t *testing.T) {
	for _, tt := range []struct {
		name           string
		p              place
		uid            int
		env            map[string]string
		state, runtime string
	}{
		{"root", place{}, 0, nil, "/var/lib/reconciler", "/run/reconciler"},
		{"a user", place{}, 1000, map[string]string{"HOME": "/home/u"}, "/home/u/.local/state/reconciler", "/home/u/.local/state/reconciler/runtime"},
		{"a user's session", place{}, 1000, map[string]string{"HOME": "/home/u", "XDG_RUNTIME_DIR": "/run/user/1000"}, "/home/u/.local/state/reconciler", "/run/user/1000/reconciler"},
		{"the environment", place{}, 0, map[string]string{envStateDir: "/s", envRuntimeDir: "/r"}, "/s", "/r"},
		{"flags", place{state: "/fs", runtime: "/fr"}, 0, map[string]string{envStateDir: "/s", envRuntimeDir: "/r"}, "/fs", "/fr"},
		{"a state directory alone, of root", place{state: "/fs"}, 0, nil, "/fs", "/fs/runtime"},
		{"the usual state directory, named", place{state: "/var/lib/reconciler"}, 0, nil, "/var/lib/reconciler", "/run/reconciler"},
		{"a state directory alone, of a user", place{state: "/fs"}, 1000, map[string]string{"HOME": "/home/u"}, "/fs", "/fs/runtime"},
		{"a state directory alone, without a home", place{state: "/fs"}, 1000, nil, "/fs", "/fs/runtime"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, err := tt.p.layout(&env{uid: tt.uid, getenv: func(n string) string { return tt.env[n] }})
			if err != nil || l.State != tt.state || l.Runtime != tt.runtime {
				t.Errorf("got %+v, %v", l, err)
			}
		})
	}
	if _, err := (place{}).layout(&env{uid: 1000, getenv: func(string) string { return "" }}); err == nil {
		t.Error("a user without a home has a layout")
	}
}
