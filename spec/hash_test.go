package spec

import (
	"path/filepath"
	"strings"
	"testing"
)

// The hashes of what real directories hold. A change of this file restarts servers on every host that is upgraded:
// it is a mistake, unless a restart is what the new version needs - then say so in the commit.
func TestHashGolden(t *testing.T) {
	var b strings.Builder
	h := HostView{Workspaces: map[string]string{"usr": "/usr", "data": "/srv/data"}, InheritAny: true, Users: []string{"games"}}
	for _, name := range []string{"minimal.yaml", "every-field.yaml", "exits.yaml", "console.yaml", "commands.yaml", "rails.yaml", "queries.yaml", "files.yaml"} {
		l, faults := resolveText(t, string(corpus(t, "good")[name]), h)
		if len(faults) > 0 {
			t.Fatal(faultLines(faults))
		}
		b.WriteString(name + " spec " + l.SpecHash() + " live " + l.LiveHash() + " all " + l.Hash() + "\n")
	}
	golden(t, filepath.Join("testdata", "hashes.txt"), b.String())
}

const hashed = `
apiVersion: reconciler.dev/v1alpha1
kind: Profile
metadata: {name: p}
spec:
  parameters: [{name: port, type: Integer, default: 1000}, {name: word, default: a}]
  actions:
    start: {executable: bin/a, args: [a, b, $(word)]}
    stop: {steps: [{signal: {name: SIGINT}, waitSeconds: 5}, {signal: {name: SIGTERM}, waitSeconds: 5}]}
  env: [{name: A, value: a}, {name: B, value: b}]
  endpoints: [{name: e, port: $(port)}, {name: f, port: 2}]
  readinessProbe: {log: {contains: [x-ray, yard]}}
---
apiVersion: reconciler.dev/v1alpha1
kind: Server
metadata: {name: s}
spec: {profile: p}
`

// What changes which hash (API.md rules 1 and 6).
func TestHashChanges(t *testing.T) {
	base, faults := resolveText(t, hashed, smallHost)
	if len(faults) > 0 {
		t.Fatal(faultLines(faults))
	}
	for _, c := range []struct {
		why, from, to string
		spec, live    bool
	}{
		{"a comment", "spec:\n  parameters", "# why\nspec:  # here\n  parameters", false, false},
		{"another spelling", "value: a}", `"value": 'a'}`, false, false},
		{"the order of variables", "{name: A, value: a}, {name: B, value: b}", "{name: B, value: b}, {name: A, value: a}", false, false},
		{"the order of endpoints", "{name: e, port: $(port)}, {name: f, port: 2}", "{name: f, port: 2}, {name: e, port: $(port)}", false, false},
		{"the order of literals", "[x-ray, yard]", "[yard, x-ray]", false, false},
		{"the order of parameters", "{name: port, type: Integer, default: 1000}, {name: word, default: a}", "{name: word, default: a}, {name: port, type: Integer, default: 1000}", false, false},
		{"a default written out", "start: {executable", "start: {workspace: usr, executable", false, false},
		{"all defaults written out", "readinessProbe: {log: {contains: [x-ray, yard]}}",
			"restart: {policy: Always, initialSeconds: 1, maxSeconds: 300, resetSeconds: 600}\n  disruption: {maxUnavailable: 1}\n  directory: {workspace: data, path: $(server.name)}\n  readinessProbe: {log: {contains: [x-ray, yard]}, periodSeconds: 10, timeoutSeconds: 1, failureThreshold: 3, successThreshold: 1}", false, false},
		{"a step's defaults written out", "{signal: {name: SIGTERM}, waitSeconds: 5}", "{signal: {name: SIGTERM, to: Main}, waitFor: Exit, waitSeconds: 5}", false, false},
		{"a path's spelling", "bin/a", "./bin//a", false, false},
		{"a parameter nobody uses", "{name: word", "{name: more, default: x}, {name: word", false, false},
		{"a label", "{name: s}", "{name: s, labels: {a: b}}", false, false},
		{"a key of one's own", "spec: {profile: p}", "spec: {profile: p, x-a: 1}", false, false},
		{"an argument instead of a parameter", "$(word)", "a", false, false},

		{"the order of arguments", "[a, b, ", "[b, a, ", true, false},
		{"an argument's end", "[a, b, ", "[ab, ", true, false},
		{"an argument", "[a, b, ", "[a, c, ", true, false},
		{"a parameter in an argument", "default: a}", "default: b}", true, false},
		{"a variable", "value: b", "value: c", true, false},
		{"an inherited variable", "value: b", "inherit: true", true, false},
		{"an empty variable is not an inherited one", "value: b", `value: ""`, true, false},
		{"the executable", "bin/a", "bin/b", true, false},
		{"the directory", "  env:", "  directory: {path: other}\n  env:", true, false},
		{"the workspace", "start: {executable", "start: {workspace: data, executable", true, false},

		{"the order of steps", "[{signal: {name: SIGINT}, waitSeconds: 5}, {signal: {name: SIGTERM}, waitSeconds: 5}]", "[{signal: {name: SIGTERM}, waitSeconds: 5}, {signal: {name: SIGINT}, waitSeconds: 5}]", false, true},
		{"no console", "  env:", "  console: {input: None}\n  env:", false, false},
		{"a console", "  env:", "  console: {input: Stdin}\n  env:", false, true},
		{"a terminal", "  env:", "  console: {input: Stdin, tty: {}}\n  env:", true, true},
		{"a line for a signal", "{signal: {name: SIGINT}, waitSeconds: 5}, {signal: {name: SIGTERM}, waitSeconds: 5}]}", "{console: {line: SIGINT}, waitSeconds: 5}, {signal: {name: SIGTERM}, waitSeconds: 5}]}\n  console: {input: FIFO, path: a}", false, true},
		{"a step's time", "SIGTERM}, waitSeconds: 5", "SIGTERM}, waitSeconds: 6", false, true},
		{"a parameter in a port", "default: 1000", "default: 1001", false, true},
		{"a protocol", "port: 2}", "port: 2, protocol: UDP}", false, true},
		{"a literal", "yard]", "yarn]", false, true},
		{"no probe", "  readinessProbe: {log: {contains: [x-ray, yard]}}\n", "", false, true},
		{"the restart policy", "  env:", "  restart: {policy: Never}\n  env:", false, true},
		{"no exit rules", "  env:", "  restart: {exits: []}\n  env:", false, false},
		{"an exit rule", "  env:", "  restart: {exits: [{codes: [0], action: Backoff}]}\n  env:", false, true},
		{"a program in the ladder", "{signal: {name: SIGINT}, waitSeconds: 5}, ", "{exec: {}, waitSeconds: 5}, ", false, true},
		{"no commands", "a, b, $(word)]}", "a, b, $(word)]}\n    commands: []", false, false},
		{"a command", "a, b, $(word)]}", "a, b, $(word)]}\n    commands: [{name: c, exec: {}}]", false, true},
		{"a window", "  env:", "  disruption: {windows: [{schedule: 0 4 * * *, durationSeconds: 60}]}\n  env:", false, true},
		{"no dependencies", "spec: {profile: p}", "spec: {profile: p, dependsOn: []}", false, false},
		{"a dependency", "spec: {profile: p}", "spec: {profile: p, dependsOn: [{name: b}]}", false, true},
		{"a check", "a, b, $(word)]}", "a, b, $(word)]}\n    check: {exec: {}}", false, true},
		{"no files", "  env:", "  files: []\n  env:", false, false},
		{"a file", "  env:", "  files: [{path: a, content: a}]\n  env:", true, false},
		{"maxUnavailable", "  env:", "  disruption: {maxUnavailable: 0}\n  env:", false, true},
	} {
		t.Run(c.why, func(t *testing.T) {
			text := strings.Replace(hashed, c.from, c.to, 1)
			if text == hashed {
				t.Fatalf("%q is not in the manifest", c.from)
			}
			l, faults := resolveText(t, text, smallHost)
			if len(faults) > 0 {
				t.Fatal(faultLines(faults))
			}
			if got := l.SpecHash() != base.SpecHash(); got != c.spec {
				t.Errorf("the spec hash changes: %v, want %v", got, c.spec)
			}
			if got := l.LiveHash() != base.LiveHash(); got != c.live {
				t.Errorf("the live hash changes: %v, want %v", got, c.live)
			}
			if got := l.Hash() != base.Hash(); got != (c.spec || c.live) {
				t.Errorf("the hash changes: %v, want %v", got, c.spec || c.live)
			}
		})
	}
}

// otherValue is a good value that the good launch does not have.
var otherValue = map[string]string{
	"spec.actions.stop.steps[].signal.name": "SIGINT", "spec.actions.stop.steps[].signal.to": string(ToTree),
	"spec.actions.stop.steps[].waitFor": string(WaitForDone), "spec.endpoints[].protocol": ProtocolUDP,
	"spec.endpoints[].address": "127.0.0.1", "spec.endpoints[].appProtocol": "Mixed", "spec.restart.policy": RestartNever,
	"spec.restart.exits[].action": string(ExitFail), "spec.disruption.onDeadline": DeadlineForce, "spec.disruption.windows[].timeZone": "Europe/Berlin", "spec.actions.reload.signal.name": "SIGINT", "spec.actions.reload.signal.to": string(ToTree), "spec.files[].write": WriteIfMissing, "spec.files[].onChange": ChangeIgnore, "spec.dependsOn[].kind": KindJob, "spec.dependsOn[].condition": DependRunning,
}

// likeFor makes of a launch one that differs in a field from what its setter makes, and in nothing else.
func likeFor(l *Launch, row string) {
	for part, like := range map[string]func(){
		"readinessProbe.socket.": func() { socketOf(l, "spec.readinessProbe") },
		"readinessProbe.query.":  func() { queryOf(l, "spec.readinessProbe") },
		"readinessProbe.proxy.":  func() { proxyOf(l, "spec.readinessProbe") },
		"readinessProbe.http.":   func() { requestOf(l, "spec.readinessProbe") },
		"livenessProbe.http.":    func() { requestOf(l, "spec.livenessProbe") },
		"spec.players.http.":     func() { requestOf(l, "spec.players") },
		"spec.players.field":     func() { requestOf(l, "spec.players") },
		"livenessProbe.log.":     func() { probeOf(l, "spec.livenessProbe").Log = []string{"a"} },
		"livenessProbe.socket.":  func() { socketOf(l, "spec.livenessProbe") },
		"livenessProbe.query.":   func() { queryOf(l, "spec.livenessProbe") },
		"livenessProbe.proxy.":   func() { proxyOf(l, "spec.livenessProbe") },
		"steps[].exec.":          func() { execStep(l) },
		"steps[].console.":       func() { consoleStep(l) },
		"steps[].http.":          func() { requestStep(l) },
		"commands[].http.":       func() { requestCommand(l) },
		"reload.http.":           func() { reloadRequest(l) },
		"reload.exec.":           func() { reloadExec(l) },
		"reload.console.":        func() { reloadLine(l) },
		"commands[].exec.":       func() { execCommand(l) },
		"commands[].console.":    func() { consoleCommand(l) },
		"commands[].signal.":     func() { signalCommand(l) },
		"parameters[].default":   func() { ownParameter(l, ParameterString).Default = &IntOrString{IsString: true, String: "a"} },
		"parameters[].defaultFrom": func() {
			ownParameter(l, ParameterInteger).Default, l.Commands[0].Parameters[0].DefaultFrom = nil, &DefaultFrom{Parameter: "b"}
		},
		"spec.console.tty.":           func() { consoleTTY(l) },
		"spec.restart.exits[].signal": func() { signalRule(l).Signals = []string{"SIGHUP"} },
	} {
		if strings.Contains(row, part) {
			like()
		}
	}
}

// API.md rule 6: a change of a field changes the hash of the field's class and no other. Walks every field of a
// launch, so that one that no hash knows fails the test.
func TestHashFollowsTheClass(t *testing.T) {
	classes := map[string]Class{}
	for _, row := range append(Fields(KindProfile), Fields(KindServer)...) {
		classes[row.Path] = row.Class
	}
	for row, set := range launchSetters {
		if row == "metadata.name" || row == "metadata.namespace" || row == "spec.profile" {
			continue // another scope
		}
		base, l := goodLaunch(), goodLaunch()
		likeFor(&base, row)
		value := otherValue[row]
		if value == "" {
			value = "other"
		}
		set(&l, value, 2)
		spec, live, files := l.SpecHash() != base.SpecHash(), l.LiveHash() != base.LiveHash(), l.FilesHash() != base.FilesHash()
		if row == "spec.files[].path" || row == "spec.files[].write" { // what is at another path is another file; how one is written is for the next run
			files = !files
		}
		if spec != (classes[row] == ClassRestart) || live != (classes[row] == ClassLive) || files != (classes[row] == ClassReload) {
			t.Errorf("%s is of class %s; the spec hash changes: %v, the live hash: %v, that of the files: %v", row, classes[row], spec, live, files)
		}
		if print := l.Files[0].Print() != base.Files[0].Print(); print != (classes[row] == ClassReload) {
			t.Errorf("%s is of class %s; the print of a file changes: %v", row, classes[row], print)
		}
	}
}

// API.md rule 1: order is a change where the table says so, and nowhere else.
func TestHashFollowsTheOrder(t *testing.T) {
	turned := map[string]func(l *Launch, turned bool){
		"spec.actions.start.args": func(l *Launch, turned bool) { l.Args = pair("a", "b", turned) },
		"spec.env": func(l *Launch, turned bool) {
			l.Env = pair(LaunchEnv{Name: "A"}, LaunchEnv{Name: "B", Inherit: true}, turned)
		},
		"spec.actions.reload.exec.args": func(l *Launch, turned bool) { reloadExec(l).Args = pair("a", "b", turned) },
		"spec.actions.reload.http.headers": func(l *Launch, turned bool) {
			reloadRequest(l).Headers = pair(HTTPHeader{Name: "A", Value: "a"}, HTTPHeader{Name: "B", Value: "b"}, turned)
		},
		"spec.actions.check.exec.args": func(l *Launch, turned bool) { l.Check.Exec.Args = pair("a", "b", turned) },
		"spec.files": func(l *Launch, turned bool) {
			l.Files = pair(LaunchFile{Path: "a", OnChange: ChangeIgnore}, LaunchFile{Path: "b", Content: "b", Workspace: "data"}, turned)
		},
		"spec.actions.stop.steps": func(l *Launch, turned bool) {
			l.Stop = pair(StopStep{WaitFor: WaitForExit, WaitSeconds: 1}, StopStep{WaitFor: WaitForDone, WaitSeconds: 2}, turned)
		},
		"spec.endpoints": func(l *Launch, turned bool) {
			l.Endpoints = pair(LaunchEndpoint{Name: "a", Port: 1}, LaunchEndpoint{Name: "b", Port: 2}, turned)
		},
		"spec.disruption.windows": func(l *Launch, turned bool) {
			l.Disruption.Windows = pair(LaunchWindow{Schedule: "0 4 * * *", TimeZone: "UTC", DurationSeconds: 60}, LaunchWindow{Schedule: "0 5 * * *", TimeZone: "UTC", DurationSeconds: 60}, turned)
		},
		"spec.disruption.announce": func(l *Launch, turned bool) {
			l.Disruption.Announce = pair(Announcement{BeforeSeconds: 1, Command: "a"}, Announcement{BeforeSeconds: 1, Command: "b"}, turned)
		},
		"spec.schedules": func(l *Launch, turned bool) {
			l.Schedules = pair(LaunchSchedule{Name: "a", Schedule: "0 4 * * *"}, LaunchSchedule{Name: "b", Schedule: "0 4 * * *"}, turned)
		},
		"spec.dependsOn": func(l *Launch, turned bool) {
			l.DependsOn = pair(Dependency{Kind: KindServer, Name: "a"}, Dependency{Kind: KindServer, Name: "b"}, turned)
		},
		"spec.readinessProbe.log.contains": func(l *Launch, turned bool) { l.Readiness.Log = pair("a", "b", turned) },
		"spec.livenessProbe.log.contains":  func(l *Launch, turned bool) { l.Liveness.Log = pair("a", "b", turned) },
		"spec.restart.exits": func(l *Launch, turned bool) {
			l.Restart.Exits = pair(ExitRule{Codes: []int64{1}, Action: ExitFail}, ExitRule{Codes: []int64{2}, Action: ExitFail}, turned)
		},
		"spec.restart.exits[].codes": func(l *Launch, turned bool) { l.Restart.Exits[0].Codes = pair[int64](1, 2, turned) },
		"spec.restart.exits[].signals": func(l *Launch, turned bool) {
			signalRule(l).Signals = pair("SIGHUP", "SIGINT", turned)
		},
		"spec.actions.stop.steps[].exec.args": func(l *Launch, turned bool) { execStep(l).Args = pair("a", "b", turned) },
		"spec.actions.commands": func(l *Launch, turned bool) {
			l.Commands = pair(LaunchCommand{Name: "a"}, LaunchCommand{Name: "b"}, turned)
		},
		"spec.actions.stop.steps[].http.headers": func(l *Launch, turned bool) {
			requestStep(l).Headers = pair(HTTPHeader{Name: "A", Value: "a"}, HTTPHeader{Name: "B", Value: "b"}, turned)
		},
		"spec.actions.commands[].http.headers": func(l *Launch, turned bool) {
			requestCommand(l).Headers = pair(HTTPHeader{Name: "A", Value: "a"}, HTTPHeader{Name: "B", Value: "b"}, turned)
		},
		"spec.readinessProbe.http.headers": func(l *Launch, turned bool) {
			requestOf(l, "spec.readinessProbe").Headers = pair(HTTPHeader{Name: "A", Value: "a"}, HTTPHeader{Name: "B", Value: "b"}, turned)
		},
		"spec.livenessProbe.http.headers": func(l *Launch, turned bool) {
			requestOf(l, "spec.livenessProbe").Headers = pair(HTTPHeader{Name: "A", Value: "a"}, HTTPHeader{Name: "B", Value: "b"}, turned)
		},
		"spec.players.http.headers": func(l *Launch, turned bool) {
			requestOf(l, "spec.players").Headers = pair(HTTPHeader{Name: "A", Value: "a"}, HTTPHeader{Name: "B", Value: "b"}, turned)
		},
		"spec.actions.commands[].exec.args": func(l *Launch, turned bool) { execCommand(l).Args = pair("a", "b", turned) },
		"spec.readinessProbe.exec.args":     func(l *Launch, turned bool) { probeExecOf(l, "spec.readinessProbe").Args = pair("a", "b", turned) },
		"spec.livenessProbe.exec.args":      func(l *Launch, turned bool) { probeExecOf(l, "spec.livenessProbe").Args = pair("a", "b", turned) },
		"spec.actions.commands[].before":    func(l *Launch, turned bool) { l.Commands[0].Before = pair("a", "b", turned) },
		"spec.actions.commands[].after":     func(l *Launch, turned bool) { l.Commands[0].After = pair("a", "b", turned) },
		"spec.actions.commands[].parameters": func(l *Launch, turned bool) {
			l.Commands[0].Parameters = pair(Parameter{Name: "a"}, Parameter{Name: "b"}, turned)
		},
		"spec.actions.commands[].parameters[].enum": func(l *Launch, turned bool) {
			ownParameter(l, ParameterString).Enum = pair("a", "b", turned)
		},
	}
	for row, two := range turned {
		one, other := goodLaunch(), goodLaunch()
		two(&one, false)
		two(&other, true)
		if got, want := one.Hash() != other.Hash(), launchRow(row).ordered; got != want {
			t.Errorf("the order of %s changes the hash: %v, want %v", row, got, want)
		}
	}
	for row := range launchLists {
		if turned[row] == nil {
			t.Errorf("the order of %s is not tried", row)
		}
	}
}

func pair[T any](a, b T, turned bool) []T {
	if turned {
		return []T{b, a}
	}
	return []T{a, b}
}
