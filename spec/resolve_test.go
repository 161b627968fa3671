package spec

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

var smallHost = HostView{Workspaces: map[string]string{"usr": "/usr", "data": "/var/lib/data"}, InheritAny: true}

// resolveText resolves the first Server of a file with its first Profile.
func resolveText(t testing.TB, text string, h HostView) (Launch, []Fault) {
	t.Helper()
	f := Decode("a.yaml", []byte(text))
	if len(f.Faults) > 0 {
		t.Fatalf("the manifest is refused:\n%s", faultLines(f.Faults))
	}
	var s *Server
	var p *Profile
	for _, d := range f.Documents {
		if d.Server != nil && s == nil {
			s = d.Server
		}
		if d.Profile != nil && p == nil {
			p = d.Profile
		}
	}
	return Resolve(s, p, h)
}

func TestResolve(t *testing.T) {
	got, faults := resolveText(t, small, smallHost)
	if len(faults) > 0 {
		t.Fatal(faultLines(faults))
	}
	want := Launch{
		Scope:      Scope{Namespace: "default", Server: "town", Profile: "openttd"},
		Workspace:  "usr",
		Executable: "games/openttd",
		Args:       []string{"-D", "127.0.0.1:3980", "$(x) 3981", "-x"},
		Env:        []LaunchEnv{{Name: "SDL_VIDEODRIVER", Value: "dummy"}, {Name: "A", Inherit: true}},
		Directory:  LaunchFolder{Workspace: "data", Path: "town"},
		Stop:       []StopStep{{Signal: &SignalAction{Name: "SIGINT", To: ToMain}, WaitFor: WaitForExit, WaitSeconds: 5}},
		Endpoints:  []LaunchEndpoint{{Name: "game", Port: 3980, Protocol: ProtocolTCP}},
		Readiness:  &LaunchProbe{Log: []string{"Map generated, starting game"}, PeriodSeconds: 10, TimeoutSeconds: 1, FailureThreshold: 3, SuccessThreshold: 1},
		Restart:    RestartPolicy{Policy: RestartAlways, InitialSeconds: 1, MaxSeconds: 300, ResetSeconds: 600},
		Disruption: LaunchDisruption{MaxUnavailable: 1},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// An absent field is its default, whatever is absent around it.
func TestResolveDefaults(t *testing.T) {
	got, faults := resolveText(t, string(corpus(t, "good")["minimal.yaml"]), smallHost)
	if len(faults) > 0 {
		t.Fatal(faultLines(faults))
	}
	want := Launch{
		Scope:      Scope{Namespace: "default", Server: "one", Profile: "small"},
		Workspace:  "usr",
		Executable: "bin/x",
		Directory:  LaunchFolder{Workspace: "data", Path: "one"},
		Stop:       []StopStep{{Signal: &SignalAction{Name: "SIGTERM", To: ToMain}, WaitFor: WaitForExit, WaitSeconds: 30}},
		Restart:    RestartPolicy{Policy: RestartAlways, InitialSeconds: 1, MaxSeconds: 300, ResetSeconds: 600},
		Disruption: LaunchDisruption{MaxUnavailable: 1},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestResolveEveryField(t *testing.T) {
	h := HostView{Workspaces: map[string]string{"usr": "/usr", "data": "/srv/data"}, InheritEnv: []string{"LANG"}, Users: []string{"nobody", "games"}}
	got, faults := resolveText(t, string(corpus(t, "good")["every-field.yaml"]), h)
	if len(faults) > 0 {
		t.Fatal(faultLines(faults))
	}
	wantArgs := []string{"-D", "127.0.0.1:4000", "town of games in /srv/data/games/town", "/usr/share", "$(literal)", "$host", "a;b`c`", "with\ttab", ""}
	if !reflect.DeepEqual(got.Args, wantArgs) {
		t.Errorf("the arguments are %q", got.Args)
	}
	if got.Env[1].Value != "yes\nsecond line" || got.User != "games" || got.Directory.Path != "games/town" {
		t.Errorf("got %+v", got)
	}
	if e := got.Endpoints[1]; e.Port != 4001 || e.Address != "::1" {
		t.Errorf("endpoint query is %+v", e)
	}
	if s := got.Readiness.Socket; string(s.Send) != "\xff\xff\xff\xff" || string(s.Expect) != "\xff" {
		t.Errorf("the probe is %+v", s)
	}
}

const template = `
apiVersion: reconciler.dev/v1alpha1
kind: Profile
metadata: {name: p}
spec: {parameters: [%s], actions: {start: {executable: bin/a, args: [%s]}}%s}
---
apiVersion: reconciler.dev/v1alpha1
kind: Server
metadata: {name: s}
spec: {profile: p, parameters: {%s}}
`

func TestResolveFaults(t *testing.T) {
	strict := HostView{Workspaces: smallHost.Workspaces, InheritEnv: []string{"LANG"}, Users: []string{"games"}}
	for _, c := range []struct{ name, parameters, args, more, given, want string }{
		{"unknown parameter", "{name: port}", "", "", "port: a, prot: b", "spec.parameters[prot]: Not found: profile 'p' has no such parameter: did you mean 'port'?\n"},
		{"missing parameter", "{name: port}", "$(port)", "", "", "spec.parameters[port]: Required value: must be given: profile 'p' has no default for it\n"},
		{"integer for a string", "{name: a}", "", "", "a: 5", "spec.parameters[a]: Invalid value: 5: must be a string: quote it\n"},
		{"string for an integer", "{name: a, type: Integer}", "", "", `a: "5"`, "spec.parameters[a]: Invalid value: must be an integer: take the quotes away\n"},
		{"out of bounds", "{name: a, type: Integer, minimum: 1, maximum: 9}", "", "", "a: 10", "spec.parameters[a]: Invalid value: 10: must be between 1 and 9, inclusive\n"},
		{"below", "{name: a, type: Integer, minimum: 1}", "", "", "a: 0", "spec.parameters[a]: Invalid value: 0: must be at least 1\n"},
		{"derived out of bounds", "{name: a, type: Integer}, {name: b, type: Integer, maximum: 9, defaultFrom: {parameter: a, add: 1}}", "", "", "a: 9", "spec.parameters[b]: Invalid value: 10: must be at most 9\n"},
		{"not in the list", `{name: a, enum: [on-line, x]}`, "", "", "a: z", "spec.parameters[a]: Unsupported value: must be one of 'on-line', 'x'\n"},
		{"pattern is for the whole value", `{name: a, pattern: "[0-9]+|x"}`, "", "", "a: 5x", "spec.parameters[a]: Invalid value: must match the pattern '[0-9]+|x'\n"},
		{"too long", "{name: a, maxLength: 2}", "", "", "a: abc", "spec.parameters[a]: Too long: must be at most 2 bytes\n"},
		{"port out of range", "{name: a, type: Integer}", "", ", endpoints: [{name: e, port: $(a)}]", "a: 70000", "spec.endpoints[0].port: Invalid value: 70000: must be between 1 and 65535, inclusive, when $(a) is expanded\n"},
		{"address", "{name: a}", "", ", endpoints: [{name: e, port: 1, address: $(a)}]", "a: localhost", `spec.endpoints[0].address: Invalid value: "localhost": must be an IP address such as '127.0.0.1' or '::1'` + "\n"},
		{"path climbs out", "{name: a}", "", ", directory: {path: b/$(a)}", "a: ../../etc", `spec.directory.path: Invalid value: "b/../../etc": must be a relative path: no leading '/', no '..', no control characters` + "\n"},
		{"path is absolute", "", "", ", directory: {path: $(workspace.usr)}", "", `spec.directory.path: Invalid value: "/usr": must be a relative path: no leading '/', no '..', no control characters` + "\n"},
		{"argument grows too long", "{name: a, maxLength: 4096}", "$(a)$(a)$(a)", "", "a: " + strings.Repeat("x", 4096), "spec.actions.start.args[0]: Too long: must be at most 8192 bytes\n"},
		{"no such workspace", "", "$(workspace.ust)", "", "", `spec.actions.start.args[0]: Not found: "ust": this host opens no such workspace: did you mean 'usr'?: name it with --workspace NAME=DIR or in the host configuration` + "\n"},
		{"inherit", "", "", ", env: [{name: LANG, inherit: true}, {name: TOKEN, inherit: true}]", "", "spec.env[1].inherit: Forbidden: this host does not let 'TOKEN' be inherited: name it in `spec.inheritEnv` of the host configuration\n"},
		{"user", "", "", ", user: root", "", "spec.user: Forbidden: \"root\": this host does not allow the user: name it in `spec.users` of the host configuration\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, faults := resolveText(t, fmt.Sprintf(template, c.parameters, c.args, c.more, c.given), strict)
			if got := faultLines(faults); got != c.want {
				t.Errorf("got:\n%swant:\n%s", got, c.want)
			}
		})
	}
}

// EC-4: a value is one argument, is never split and never expanded again.
func TestResolveExpandsOnce(t *testing.T) {
	l, faults := resolveText(t, fmt.Sprintf(template, "{name: a}, {name: b}", `$(a), "$$(a)", "$$$(a)", "x$(b)y", $, "$a"`, "",
		`a: "$(b) ; 'x' $(server.name)", b: "$$(a)"`), smallHost)
	if len(faults) > 0 {
		t.Fatal(faultLines(faults))
	}
	want := []string{"$(b) ; 'x' $(server.name)", "$(a)", "$$(a)", "x$$(a)y", "$", "$a"}
	if !reflect.DeepEqual(l.Args, want) {
		t.Errorf("got  %q\nwant %q", l.Args, want)
	}
}

func BenchmarkResolve(b *testing.B) {
	f := Decode("small.yaml", []byte(small))
	b.ReportAllocs()
	for b.Loop() {
		if _, faults := Resolve(f.Documents[1].Server, f.Documents[0].Profile, smallHost); len(faults) > 0 {
			b.Fatal(faults)
		}
	}
}

func BenchmarkHash(b *testing.B) {
	l, _ := resolveText(b, small, smallHost)
	b.ReportAllocs()
	for b.Loop() {
		_ = l.Hash()
	}
}
