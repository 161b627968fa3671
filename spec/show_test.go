package spec

import (
	"path/filepath"
	"strings"
	"testing"
)

const shownManifest = `
apiVersion: reconciler.dev/v1alpha1
kind: Profile
metadata: {name: a, annotations: {who: "yes", x-why: because}}
x-top: {kept: [1, 1.5, yes, null]}
spec:
  x-note: "0755"
  restart: {maxSeconds: 60, x-inner: true}
  actions: {start: {executable: ./bin//a, args: ["1", -x, $(server.name)]}}
status: {gone: true}
---
apiVersion: reconciler.dev/v1alpha1
kind: Server
metadata: {name: s, resourceVersion: "7"}
spec: {profile: a, parameters: {one: 1, word: "1"}}
`

// EC-2: what the file says comes back in its order and spelling, x- keys and annotations too; defaults are marked.
func TestShow(t *testing.T) {
	f := Decode("a.yaml", []byte(shownManifest))
	if len(f.Faults) > 0 {
		t.Fatal(faultLines(f.Faults))
	}
	profile := f.Documents[0].Profile.WithDefaults()
	if err := profile.Set("status", []byte(`{"state":"Running"}`)); err != nil {
		t.Fatal(err)
	}
	if err := profile.SetMetadata("uid", []byte(`"u-1"`)); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, s := range []*Shown{profile, f.Documents[1].Server.WithDefaults()} {
		text, err := s.YAML()
		if err != nil {
			t.Fatal(err)
		}
		b.Write(s.JSON())
		b.WriteString("\n---\n")
		b.Write(text)
	}
	golden(t, filepath.Join("testdata", "shown.txt"), b.String())
}

// What is shown is a manifest that means the same: the same launch, the same hash, whether as JSON or as YAML.
func TestShownMeansTheSame(t *testing.T) {
	h := HostView{Workspaces: map[string]string{"usr": "/usr", "data": "/srv/data"}, InheritAny: true, Users: []string{"games"}}
	for _, name := range []string{"minimal.yaml", "every-field.yaml"} {
		f := Decode(name, corpus(t, "good")[name])
		profile, server := f.Documents[0].Profile, f.Documents[1].Server
		want, faults := Resolve(server, profile, h)
		if len(faults) > 0 {
			t.Fatal(faultLines(faults))
		}
		text := func(s *Shown) string {
			b, err := s.YAML()
			if err != nil {
				t.Fatal(err)
			}
			return string(b)
		}
		for _, whole := range []string{
			text(profile.WithDefaults()) + "---\n" + text(server.WithDefaults()),
			`{"apiVersion":"v1","kind":"List","items":[` + string(profile.WithDefaults().JSON()) + "," + string(server.WithDefaults().JSON()) + "]}",
		} {
			got, faults := resolveText(t, whole, h)
			if len(faults) > 0 {
				t.Fatal(faultLines(faults))
			}
			if got.Hash() != want.Hash() {
				t.Errorf("%s: what is shown has another hash:\n%s", name, whole)
			}
		}
	}
}

// A list of objects keeps the marks of each.
func TestYAMLOfList(t *testing.T) {
	got, err := YAMLOf([]byte(`{"kind":"List","items":[{"spec":{"a":1,"b":{"c":"yes"}},"x-defaulted":["spec.a"]},{"spec":{"a":2}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	const want = "kind: List\nitems:\n  - spec:\n      a: 1 # default\n      b:\n        c: \"yes\"\n  - spec:\n      a: 2\n"
	if string(got) != want {
		t.Errorf("got:\n%s", got)
	}
	if _, err := YAMLOf([]byte("{")); err == nil {
		t.Error("half a document is no error")
	}
}

// EC-6: no argument, environment value or string parameter is in any fault.
func TestFaultsHideValues(t *testing.T) {
	const canary = "kanarienvogel"
	long := strings.Repeat(canary, 1000)
	f := Decode("a.yaml", []byte(`
apiVersion: reconciler.dev/v1alpha1
kind: Profile
metadata: {name: a}
spec:
  parameters:
  - {name: a, default: "`+canary+`\n"}
  - {name: b, type: Integer, default: `+canary+`}
  - {name: c, maxLength: 1, default: `+canary+`}
  actions: {start: {executable: bin/a, args: ["`+canary+`\0", "`+canary+`$(`+canary+` no)", "`+long+`", "$(`+canary+`", [`+canary+`]]}}
  env: [{name: A, value: "`+canary+`\0"}, {name: B, value: "`+long+`"}, {name: C, value: {a: `+canary+`}}, {name: D, inherit: true, value: `+canary+`}]
---
apiVersion: reconciler.dev/v1alpha1
kind: Server
metadata: {name: a}
spec: {profile: a, parameters: {a: "`+canary+`\n", b: "`+long+`"}}
`))
	if len(f.Faults) < 12 {
		t.Errorf("there are only %d faults", len(f.Faults))
	}
	if got := faultLines(f.Faults); strings.Contains(got, canary) {
		t.Errorf("a fault shows a value:\n%s", got)
	}
	_, faults := resolveText(t, `
apiVersion: reconciler.dev/v1alpha1
kind: Profile
metadata: {name: a}
spec:
  parameters: [{name: a, pattern: "[0-9]+"}, {name: b, type: Integer}, {name: c, enum: [x-ray]}, {name: d, maxLength: 4096}]
  actions: {start: {executable: bin/a, args: [$(d)$(d)$(d)]}}
---
apiVersion: reconciler.dev/v1alpha1
kind: Server
metadata: {name: a}
spec: {profile: a, parameters: {a: `+canary+`, b: `+canary+`, c: `+canary+`, d: `+long[:4096]+`}}
`, smallHost)
	if got := faultLines(faults); len(faults) != 3 || strings.Contains(got, canary) {
		t.Errorf("want three faults that show no value:\n%s", got)
	}
}
