package spec

import (
	"strconv"
	"strings"
	"testing"
)

// goodLaunch has every member set.
func goodLaunch() Launch {
	return Launch{
		Scope:      Scope{Namespace: DefaultNamespace, Server: "a", Profile: "a"},
		Workspace:  "usr",
		Executable: "bin/a",
		Args:       []string{"a"},
		Env:        []LaunchEnv{{Name: "A", Value: "a"}, {Name: "B", Inherit: true}},
		Directory:  LaunchFolder{Workspace: "data", Path: "a"},
		User:       "a",
		Files:      []LaunchFile{{Path: "a", Workspace: "data", Content: "a" + MarkSecret("a/b"), Write: WriteEachStart, OnChange: ChangeApply}},
		Stop:       []StopStep{{Signal: &SignalAction{Name: "SIGTERM", To: ToMain}, WaitFor: WaitForExit, WaitSeconds: 1}},
		Endpoints:  []LaunchEndpoint{{Name: "a", Port: 1, Protocol: ProtocolTCP, Address: "::1", AppProtocol: "HTTP"}},
		Readiness:  &LaunchProbe{Log: []string{"a"}, PeriodSeconds: 1, TimeoutSeconds: 1, FailureThreshold: 1, SuccessThreshold: 1},
		Liveness:   &LaunchProbe{Socket: &SocketProbe{Endpoint: "a"}, PeriodSeconds: 1, TimeoutSeconds: 1, FailureThreshold: 1, SuccessThreshold: 1},
		Players:    &LaunchPlayers{Query: &Query{Protocol: "Minecraft", Endpoint: "a"}, PeriodSeconds: 1},
		Restart:    RestartPolicy{Policy: RestartAlways, InitialSeconds: 1, MaxSeconds: 1, ResetSeconds: 1, Exits: []ExitRule{{Codes: []int64{1}, Action: ExitBackoff}}},
		Disruption: LaunchDisruption{MaxUnavailable: 1, MaxPlayers: new(int64), Windows: []LaunchWindow{{Schedule: "0 4 * * *", TimeZone: "UTC", DurationSeconds: 60}}, Announce: []Announcement{{BeforeSeconds: 1, Command: "a", Parameters: map[string]IntOrString{"a": {IsString: true, String: "a"}}}}, DeadlineSeconds: 60, OnDeadline: DeadlineHold},
		Check:      &LaunchCheck{Exec: LaunchExec{Workspace: "usr", Executable: "bin/a", Args: []string{"-t"}}, TimeoutSeconds: 1},
		Schedules:  []LaunchSchedule{{Name: "a", Schedule: "0 4 * * *", TimeZone: "UTC", StartingDeadlineSeconds: 1, Job: ScheduledJob{Type: "Command", Command: "a", Parameters: map[string]IntOrString{"a": {IsString: true, String: "a"}}}}},
		Reload:     &LaunchReload{LaunchAction: LaunchAction{Signal: &SignalAction{Name: "SIGHUP", To: ToMain}}, TimeoutSeconds: 1},
		DependsOn:  []Dependency{{Kind: KindServer, Name: "b", Condition: DependReady}},
		Commands: []LaunchCommand{{
			Name: "a", LaunchAction: LaunchAction{Exec: &LaunchExec{Workspace: "usr", Executable: "bin/b", Args: []string{"b", markParameter("a")}}},
			Parameters: []Parameter{{Name: "a", Type: ParameterString}}, Requires: RequiresAny, TimeoutSeconds: 1,
		}},
	}
}

func consoleStep(l *Launch) *ConsoleAction {
	l.Console = &LaunchConsole{Input: ConsoleStdin}
	l.Stop[0].Signal, l.Stop[0].Console = nil, &ConsoleAction{Line: "a"}
	return l.Stop[0].Console
}

func execStep(l *Launch) *LaunchExec {
	l.Stop[0].Signal, l.Stop[0].Exec = nil, &LaunchExec{Workspace: "usr", Executable: "bin/b"}
	return l.Stop[0].Exec
}

func goodRequest() *HTTPAction {
	return &HTTPAction{
		Endpoint: "a", Scheme: SchemeHTTP, Method: "POST", Path: "/a", Body: "a",
		Headers: []HTTPHeader{{Name: "A", Value: MarkSecret("a/b")}}, BasicAuth: &HTTPBasicAuth{Username: "a", Password: MarkSecret("a/b")},
	}
}

func requestStep(l *Launch) *HTTPAction {
	l.Stop[0].Signal, l.Stop[0].HTTP = nil, goodRequest()
	return l.Stop[0].HTTP
}

func requestCommand(l *Launch) *HTTPAction {
	onlyAction(l, LaunchAction{HTTP: goodRequest()})
	return l.Commands[0].HTTP
}

// onlyAction leaves the one command of a launch nothing but this to do.
func onlyAction(l *Launch, a LaunchAction) {
	l.Commands[0].LaunchAction, l.Commands[0].Parameters = a, nil
}

func consoleTTY(l *Launch) *LaunchTTY {
	l.Console = &LaunchConsole{Input: ConsoleStdin, TTY: &LaunchTTY{Rows: 24, Columns: 80}}
	return l.Console.TTY
}

func consoleCommand(l *Launch) *ConsoleAction {
	l.Console = &LaunchConsole{Input: ConsoleStdin}
	onlyAction(l, LaunchAction{Console: &ConsoleAction{Line: "a"}})
	return l.Commands[0].Console
}

func signalCommand(l *Launch) *SignalAction {
	onlyAction(l, LaunchAction{Signal: &SignalAction{Name: "SIGHUP", To: ToMain}})
	return l.Commands[0].Signal
}

func execCommand(l *Launch) *LaunchExec {
	onlyAction(l, LaunchAction{Exec: &LaunchExec{Workspace: "usr", Executable: "bin/b"}})
	return l.Commands[0].Exec
}

// ownParameter is the parameter of the one command of a launch.
func ownParameter(l *Launch, kind string) *Parameter {
	l.Commands[0].Parameters[0].Type = kind
	return &l.Commands[0].Parameters[0]
}

func signalRule(l *Launch) *ExitRule {
	l.Restart.Exits[0].Codes = nil
	return &l.Restart.Exits[0]
}

// launchSetters puts a value into the place in a launch that a field of a manifest goes to.
var launchSetters = map[string]func(l *Launch, text string, number int64){
	"metadata.name":                            func(l *Launch, s string, _ int64) { l.Scope.Server = s },
	"metadata.namespace":                       func(l *Launch, s string, _ int64) { l.Scope.Namespace = s },
	"spec.profile":                             func(l *Launch, s string, _ int64) { l.Scope.Profile = s },
	"spec.actions.start.workspace":             func(l *Launch, s string, _ int64) { l.Workspace = s },
	"spec.actions.start.executable":            func(l *Launch, s string, _ int64) { l.Executable = s },
	"spec.actions.start.args":                  func(l *Launch, s string, _ int64) { l.Args = []string{s} },
	"spec.env[].name":                          func(l *Launch, s string, _ int64) { l.Env[0].Name = s },
	"spec.env[].value":                         func(l *Launch, s string, _ int64) { l.Env[0].Value = s },
	"spec.directory.workspace":                 func(l *Launch, s string, _ int64) { l.Directory.Workspace = s },
	"spec.directory.path":                      func(l *Launch, s string, _ int64) { l.Directory.Path = s },
	"spec.user":                                func(l *Launch, s string, _ int64) { l.User = s },
	"spec.actions.check.exec.workspace":        func(l *Launch, s string, _ int64) { l.Check.Exec.Workspace = s },
	"spec.actions.check.exec.executable":       func(l *Launch, s string, _ int64) { l.Check.Exec.Executable = s },
	"spec.actions.check.exec.args":             func(l *Launch, s string, _ int64) { l.Check.Exec.Args = []string{s} },
	"spec.actions.check.timeoutSeconds":        func(l *Launch, _ string, n int64) { l.Check.TimeoutSeconds = n },
	"spec.files[].path":                        func(l *Launch, s string, _ int64) { l.Files[0].Path = s },
	"spec.files[].workspace":                   func(l *Launch, s string, _ int64) { l.Files[0].Workspace = s },
	"spec.files[].content":                     func(l *Launch, s string, _ int64) { l.Files[0].Content = s },
	"spec.files[].write":                       func(l *Launch, s string, _ int64) { l.Files[0].Write = s },
	"spec.files[].onChange":                    func(l *Launch, s string, _ int64) { l.Files[0].OnChange = s },
	"spec.actions.stop.steps[].signal.name":    func(l *Launch, s string, _ int64) { l.Stop[0].Signal.Name = s },
	"spec.actions.stop.steps[].signal.to":      func(l *Launch, s string, _ int64) { l.Stop[0].Signal.To = SignalTo(s) },
	"spec.actions.stop.steps[].console.line":   func(l *Launch, s string, _ int64) { consoleStep(l).Line = s },
	"spec.actions.stop.steps[].console.expect": func(l *Launch, s string, _ int64) { consoleStep(l).Expect = s },
	"spec.console.input":                       func(l *Launch, s string, _ int64) { l.Console = &LaunchConsole{Input: s} },
	"spec.console.path":                        func(l *Launch, s string, _ int64) { l.Console = &LaunchConsole{Input: ConsoleFIFO, Path: s} },
	"spec.console.endpoint":                    func(l *Launch, s string, _ int64) { l.Console = &LaunchConsole{Input: ConsoleTelnet, Endpoint: s} },
	"spec.console.tty.rows":                    func(l *Launch, _ string, n int64) { consoleTTY(l).Rows = n },
	"spec.console.tty.columns":                 func(l *Launch, _ string, n int64) { consoleTTY(l).Columns = n },
	"spec.console.password": func(l *Launch, s string, _ int64) {
		l.Console = &LaunchConsole{Input: ConsoleTelnet, Endpoint: "a", Password: s}
	},
	"spec.actions.stop.steps[].http.endpoint":           func(l *Launch, s string, _ int64) { requestStep(l).Endpoint = s },
	"spec.actions.stop.steps[].http.scheme":             func(l *Launch, s string, _ int64) { requestStep(l).Scheme = s },
	"spec.actions.stop.steps[].http.method":             func(l *Launch, s string, _ int64) { requestStep(l).Method = s },
	"spec.actions.stop.steps[].http.path":               func(l *Launch, s string, _ int64) { requestStep(l).Path = s },
	"spec.actions.stop.steps[].http.body":               func(l *Launch, s string, _ int64) { requestStep(l).Body = s },
	"spec.actions.stop.steps[].http.headers[].name":     func(l *Launch, s string, _ int64) { requestStep(l).Headers[0].Name = s },
	"spec.actions.stop.steps[].http.headers[].value":    func(l *Launch, s string, _ int64) { requestStep(l).Headers[0].Value = s },
	"spec.actions.stop.steps[].http.basicAuth.username": func(l *Launch, s string, _ int64) { requestStep(l).BasicAuth.Username = s },
	"spec.actions.stop.steps[].http.basicAuth.password": func(l *Launch, s string, _ int64) { requestStep(l).BasicAuth.Password = s },
	"spec.actions.commands[].http.endpoint":             func(l *Launch, s string, _ int64) { requestCommand(l).Endpoint = s },
	"spec.actions.commands[].http.scheme":               func(l *Launch, s string, _ int64) { requestCommand(l).Scheme = s },
	"spec.actions.commands[].http.method":               func(l *Launch, s string, _ int64) { requestCommand(l).Method = s },
	"spec.actions.commands[].http.path":                 func(l *Launch, s string, _ int64) { requestCommand(l).Path = s },
	"spec.actions.commands[].http.body":                 func(l *Launch, s string, _ int64) { requestCommand(l).Body = s },
	"spec.actions.commands[].http.headers[].name":       func(l *Launch, s string, _ int64) { requestCommand(l).Headers[0].Name = s },
	"spec.actions.commands[].http.headers[].value":      func(l *Launch, s string, _ int64) { requestCommand(l).Headers[0].Value = s },
	"spec.actions.commands[].http.basicAuth.username":   func(l *Launch, s string, _ int64) { requestCommand(l).BasicAuth.Username = s },
	"spec.actions.commands[].http.basicAuth.password":   func(l *Launch, s string, _ int64) { requestCommand(l).BasicAuth.Password = s },
	"spec.actions.stop.steps[].exec.workspace":          func(l *Launch, s string, _ int64) { execStep(l).Workspace = s },
	"spec.actions.stop.steps[].exec.executable":         func(l *Launch, s string, _ int64) { execStep(l).Executable = s },
	"spec.actions.stop.steps[].exec.args":               func(l *Launch, s string, _ int64) { execStep(l).Args = []string{s} },
	"spec.actions.commands[].name":                      func(l *Launch, s string, _ int64) { l.Commands[0].Name = s },
	"spec.actions.commands[].exec.workspace":            func(l *Launch, s string, _ int64) { execCommand(l).Workspace = s },
	"spec.actions.commands[].exec.executable":           func(l *Launch, s string, _ int64) { execCommand(l).Executable = s },
	"spec.actions.commands[].exec.args":                 func(l *Launch, s string, _ int64) { execCommand(l).Args = []string{s} },
	"spec.actions.commands[].console.line":              func(l *Launch, s string, _ int64) { consoleCommand(l).Line = s },
	"spec.actions.commands[].console.expect":            func(l *Launch, s string, _ int64) { consoleCommand(l).Expect = s },
	"spec.actions.commands[].signal.name":               func(l *Launch, s string, _ int64) { signalCommand(l).Name = s },
	"spec.actions.commands[].signal.to":                 func(l *Launch, s string, _ int64) { signalCommand(l).To = SignalTo(s) },
	"spec.actions.commands[].parameters[].name":         func(l *Launch, s string, _ int64) { ownParameter(l, ParameterString).Name = s },
	"spec.actions.commands[].parameters[].type":         func(l *Launch, s string, _ int64) { ownParameter(l, s) },
	"spec.actions.commands[].parameters[].default": func(l *Launch, s string, _ int64) {
		ownParameter(l, ParameterString).Default = &IntOrString{IsString: true, String: s}
	},
	"spec.actions.commands[].parameters[].defaultFrom.parameter": func(l *Launch, s string, _ int64) {
		ownParameter(l, ParameterInteger).DefaultFrom = &DefaultFrom{Parameter: s}
	},
	"spec.actions.commands[].parameters[].defaultFrom.add": func(l *Launch, _ string, n int64) {
		ownParameter(l, ParameterInteger).DefaultFrom = &DefaultFrom{Parameter: "b", Add: &n}
	},
	"spec.actions.commands[].parameters[].enum":      func(l *Launch, s string, _ int64) { ownParameter(l, ParameterString).Enum = []string{s} },
	"spec.actions.commands[].parameters[].pattern":   func(l *Launch, s string, _ int64) { ownParameter(l, ParameterString).Pattern = s },
	"spec.actions.commands[].parameters[].maxLength": func(l *Launch, _ string, n int64) { ownParameter(l, ParameterString).MaxLength = &n },
	"spec.actions.commands[].requires":               func(l *Launch, s string, _ int64) { l.Commands[0].Requires = Requires(s) },
	"spec.actions.commands[].before":                 func(l *Launch, s string, _ int64) { l.Commands[0].Before = []string{s} },
	"spec.actions.commands[].after":                  func(l *Launch, s string, _ int64) { l.Commands[0].After = []string{s} },
	"spec.actions.commands[].timeoutSeconds":         func(l *Launch, _ string, n int64) { l.Commands[0].TimeoutSeconds = n },
	"spec.actions.stop.steps[].waitFor":              func(l *Launch, s string, _ int64) { l.Stop[0].WaitFor = WaitFor(s) },
	"spec.actions.stop.steps[].waitSeconds":          func(l *Launch, _ string, n int64) { l.Stop[0].WaitSeconds = n },
	"spec.endpoints[].name":                          func(l *Launch, s string, _ int64) { l.Endpoints[0].Name = s },
	"spec.endpoints[].port":                          func(l *Launch, _ string, n int64) { l.Endpoints[0].Port = int(n) },
	"spec.endpoints[].protocol":                      func(l *Launch, s string, _ int64) { l.Endpoints[0].Protocol = s },
	"spec.endpoints[].address":                       func(l *Launch, s string, _ int64) { l.Endpoints[0].Address = s },
	"spec.endpoints[].appProtocol":                   func(l *Launch, s string, _ int64) { l.Endpoints[0].AppProtocol = s },
	"spec.restart.policy":                            func(l *Launch, s string, _ int64) { l.Restart.Policy = s },
	"spec.restart.initialSeconds":                    func(l *Launch, _ string, n int64) { l.Restart.InitialSeconds = n },
	"spec.restart.maxSeconds":                        func(l *Launch, _ string, n int64) { l.Restart.MaxSeconds = n },
	"spec.restart.resetSeconds":                      func(l *Launch, _ string, n int64) { l.Restart.ResetSeconds = n },
	"spec.restart.exits[].codes":                     func(l *Launch, _ string, n int64) { l.Restart.Exits[0].Codes = []int64{n} },
	"spec.restart.exits[].signals":                   func(l *Launch, s string, _ int64) { signalRule(l).Signals = []string{s} },
	"spec.restart.exits[].action":                    func(l *Launch, s string, _ int64) { l.Restart.Exits[0].Action = ExitAction(s) },
	"spec.disruption.maxUnavailable":                 func(l *Launch, _ string, n int64) { l.Disruption.MaxUnavailable = n },
	"spec.disruption.maxPlayers":                     func(l *Launch, _ string, n int64) { l.Disruption.MaxPlayers = &n },
	"spec.disruption.windows[].schedule":             func(l *Launch, s string, _ int64) { l.Disruption.Windows[0].Schedule = s },
	"spec.disruption.windows[].timeZone":             func(l *Launch, s string, _ int64) { l.Disruption.Windows[0].TimeZone = s },
	"spec.disruption.windows[].durationSeconds":      func(l *Launch, _ string, n int64) { l.Disruption.Windows[0].DurationSeconds = n },
	"spec.disruption.announce[].beforeSeconds":       func(l *Launch, _ string, n int64) { l.Disruption.Announce[0].BeforeSeconds = n },
	"spec.disruption.announce[].command":             func(l *Launch, s string, _ int64) { l.Disruption.Announce[0].Command = s },
	"spec.disruption.deadlineSeconds":                func(l *Launch, _ string, n int64) { l.Disruption.DeadlineSeconds = n },
	"spec.disruption.onDeadline":                     func(l *Launch, s string, _ int64) { l.Disruption.OnDeadline = s },
	"spec.schedules[].name":                          func(l *Launch, s string, _ int64) { l.Schedules[0].Name = s },
	"spec.schedules[].schedule":                      func(l *Launch, s string, _ int64) { l.Schedules[0].Schedule = s },
	"spec.schedules[].timeZone":                      func(l *Launch, s string, _ int64) { l.Schedules[0].TimeZone = s },
	"spec.schedules[].startingDeadlineSeconds":       func(l *Launch, _ string, n int64) { l.Schedules[0].StartingDeadlineSeconds = n },
	"spec.schedules[].job.type":                      func(l *Launch, s string, _ int64) { l.Schedules[0].Job.Type = s },
	"spec.schedules[].job.command":                   func(l *Launch, s string, _ int64) { l.Schedules[0].Job.Command = s },
	"spec.dependsOn[].kind":                          func(l *Launch, s string, _ int64) { l.DependsOn[0].Kind = s },
	"spec.dependsOn[].name":                          func(l *Launch, s string, _ int64) { l.DependsOn[0].Name = s },
	"spec.dependsOn[].condition":                     func(l *Launch, s string, _ int64) { l.DependsOn[0].Condition = s },
}

// launchLists makes a launch's list as long as a fault wants it.
var launchLists = map[string]func(l *Launch, n int){
	"spec.actions.start.args":                   func(l *Launch, n int) { l.Args = make([]string, n) },
	"spec.actions.check.exec.args":              func(l *Launch, n int) { l.Check.Exec.Args = make([]string, n) },
	"spec.files":                                func(l *Launch, n int) { l.Files = make([]LaunchFile, n) },
	"spec.env":                                  func(l *Launch, n int) { l.Env = make([]LaunchEnv, n) },
	"spec.disruption.windows":                   func(l *Launch, n int) { l.Disruption.Windows = make([]LaunchWindow, n) },
	"spec.schedules":                            func(l *Launch, n int) { l.Schedules = make([]LaunchSchedule, n) },
	"spec.disruption.announce":                  func(l *Launch, n int) { l.Disruption.Announce = make([]Announcement, n) },
	"spec.dependsOn":                            func(l *Launch, n int) { l.DependsOn = make([]Dependency, n) },
	"spec.actions.stop.steps":                   func(l *Launch, n int) { l.Stop = make([]StopStep, n) },
	"spec.actions.stop.steps[].http.headers":    func(l *Launch, n int) { requestStep(l).Headers = make([]HTTPHeader, n) },
	"spec.actions.commands[].http.headers":      func(l *Launch, n int) { requestCommand(l).Headers = make([]HTTPHeader, n) },
	"spec.actions.stop.steps[].exec.args":       func(l *Launch, n int) { execStep(l).Args = make([]string, n) },
	"spec.actions.commands":                     func(l *Launch, n int) { l.Commands = make([]LaunchCommand, n) },
	"spec.actions.commands[].exec.args":         func(l *Launch, n int) { execCommand(l).Args = make([]string, n) },
	"spec.actions.commands[].parameters":        func(l *Launch, n int) { l.Commands[0].Parameters = make([]Parameter, n) },
	"spec.actions.commands[].parameters[].enum": func(l *Launch, n int) { ownParameter(l, ParameterString).Enum = make([]string, n) },
	"spec.actions.commands[].before":            func(l *Launch, n int) { l.Commands[0].Before = make([]string, n) },
	"spec.actions.commands[].after":             func(l *Launch, n int) { l.Commands[0].After = make([]string, n) },
	"spec.endpoints":                            func(l *Launch, n int) { l.Endpoints = make([]LaunchEndpoint, n) },
	"spec.restart.exits":                        func(l *Launch, n int) { l.Restart.Exits = make([]ExitRule, n) },
	"spec.restart.exits[].codes":                func(l *Launch, n int) { l.Restart.Exits[0].Codes = make([]int64, n) },
	"spec.restart.exits[].signals":              func(l *Launch, n int) { signalRule(l).Signals = make([]string, n) },
}

// notInLaunch are the fields that a launch has in no form of their own: what they do is in other fields, or they
// never reach a run.
var notInLaunch = []string{
	"metadata", "metadata.labels", "metadata.annotations", "spec", "spec.parameters", "spec.actions", "spec.actions.start",
	"spec.actions.stop", "spec.actions.stop.steps[].signal", "spec.actions.stop.steps[].console", "spec.actions.stop.steps[].exec",
	"spec.actions.stop.steps[].http", "spec.actions.stop.steps[].http.basicAuth", "spec.actions.commands[].http", "spec.actions.commands[].http.basicAuth",
	"spec.actions.commands[].signal", "spec.actions.commands[].console", "spec.actions.commands[].exec", "spec.actions.commands[].parameters[].description",
	"spec.actions.commands[].parameters[].defaultFrom", "spec.actions.commands[].parameters[].minimum", "spec.actions.commands[].parameters[].maximum", "spec.actions.commands[].parameters[].inArgs", "spec.console", "spec.console.tty", "spec.env[].inherit", "spec.directory",
	"spec.restart", "spec.disruption", "spec.disruption.announce[].parameters", "spec.schedules[].job", "spec.schedules[].job.parameters", "spec.state", "spec.actions.check", "spec.actions.check.exec",
}

// emptyIsAbsent are the fields that are absent from a launch when they are empty, or 0.
var emptyIsAbsent = map[string]bool{
	"spec.actions.stop.steps[].console.expect": true, "spec.actions.commands[].console.expect": true, "spec.actions.commands[].parameters[].pattern": true, "spec.console.path": true,
	"spec.console.endpoint": true, "spec.console.password": true, "spec.schedules[].job.command": true, "spec.startDeadlineSeconds": true,
	"spec.user": true, "spec.files[].workspace": true, "spec.endpoints[].address": true,
}

// isBytes are the fields that a launch has decoded: any byte is good in them, and they are not shown.
var isBytes = map[string]bool{}

// EC-17: what a manifest may not say a launch may not say either, at the same field, in the same words. The cases
// are those of EC-3; a field that is neither in the launch nor listed as absent from it fails the test.
func TestLaunchRefusesWhatAManifestRefuses(t *testing.T) {
	l := goodLaunch()
	if faults := l.Validate(); len(faults) > 0 {
		t.Fatalf("the good launch is refused:\n%s", faultLines(faults))
	}
	absent := map[string]bool{}
	for _, row := range notInLaunch {
		absent[row] = true
	}
	compared, rows := 0, map[string]bool{}
	for _, c := range ec3Cases(t) {
		if c.since > available || c.kind == KindHost || c.kind == KindJob || strings.HasPrefix(c.row, "spec.parameters[].") {
			continue
		}
		set, list := launchSetters[c.row], launchLists[c.row]
		if set == nil && list == nil {
			if !absent[c.row] {
				t.Errorf("%s is neither in a launch nor listed as absent from it", c.row)
			}
			continue
		}
		if (c.fault == "empty" || c.fault == "below its bound" && c.row == "spec.startDeadlineSeconds") && emptyIsAbsent[c.row] || c.fault == "a bad value" && isBytes[c.row] {
			continue
		}
		l := goodLaunch()
		if !applyFault(t, &l, c, set, list) {
			continue // a fault that only YAML can have: Go's types refuse it
		}
		var want Fault
		for _, f := range decodeCase(c, available) {
			if f.Field == c.field {
				want = f
				break
			}
		}
		compared++
		rows[c.row] = true
		found := false
		for _, f := range l.Validate() {
			found = found || f.Field == want.Field && f.Kind == want.Kind && (f.Value == want.Value || isBytes[c.row]) && f.Detail == want.Detail
		}
		if !found {
			t.Errorf("%s with %s: the manifest says\n%s\nthe launch says\n%s", c.row, c.fault, want.Error(), faultLines(l.Validate()))
		}
	}
	for row := range launchSetters {
		if !rows[row] {
			t.Errorf("no fault of %s was compared", row)
		}
	}
	if compared < 100 {
		t.Errorf("only %d cases were compared: the walk is broken", compared)
	}
}

// applyFault puts a case's value into a launch, if a launch can hold it.
func applyFault(t *testing.T, l *Launch, c ec3Case, set func(*Launch, string, int64), list func(*Launch, int)) bool {
	t.Helper()
	switch c.fault {
	case "too many":
		list(l, launchRow(c.row).maxItems+1)
		return true
	case "too few":
		list(l, 0)
		if c.row == "spec.readinessProbe.log.contains" {
			l.Readiness.Log = []string{}
		}
		return true
	case "an item twice":
		switch c.row {
		case "spec.readinessProbe.log.contains", "spec.livenessProbe.log.contains":
			probeOf(l, strings.TrimSuffix(c.row, ".log.contains")).Log = []string{"a", "a"}
		case "spec.restart.exits[].codes":
			l.Restart.Exits[0].Codes = []int64{1, 1}
		case "spec.restart.exits[].signals":
			signalRule(l).Signals = []string{"SIGHUP", "SIGHUP"}
		case "spec.actions.commands[].parameters[].enum":
			ownParameter(l, ParameterString).Enum = []string{"a", "a"}
		default:
			t.Fatalf("%s has items that the test does not know", c.row)
		}
		return true
	case "a key twice":
		switch c.row {
		case "spec.env":
			l.Env = []LaunchEnv{{Name: "A"}, {Name: "A"}}
		case "spec.files":
			l.Files = append(l.Files, l.Files[0])
		case "spec.endpoints":
			l.Endpoints = append(l.Endpoints, l.Endpoints[0])
		case "spec.schedules":
			l.Schedules = append(l.Schedules, l.Schedules[0])
		case "spec.dependsOn":
			l.DependsOn[0].Name = "a"
			l.DependsOn = append(l.DependsOn, l.DependsOn[0])
		case "spec.actions.commands":
			l.Commands = append(l.Commands, l.Commands[0])
		case "spec.actions.stop.steps[].http.headers":
			a := requestStep(l)
			a.Headers = append(a.Headers, a.Headers[0])
		case "spec.actions.reload.http.headers":
			a := reloadRequest(l)
			a.Headers = append(a.Headers, a.Headers[0])
		case "spec.actions.commands[].http.headers":
			a := requestCommand(l)
			a.Headers = append(a.Headers, a.Headers[0])
		case "spec.readinessProbe.http.headers", "spec.livenessProbe.http.headers", "spec.players.http.headers":
			a := requestOf(l, strings.TrimSuffix(c.row, ".http.headers"))
			a.Headers = append(a.Headers, a.Headers[0])
		case "spec.actions.commands[].parameters":
			l.Commands[0].Parameters = append(l.Commands[0].Parameters, l.Commands[0].Parameters[0])
		default:
			t.Fatalf("%s has a key that the test does not know", c.row)
		}
		return true
	}
	if set == nil {
		return false
	}
	value := decodeValue(t, c)
	switch strings.TrimPrefix(c.fault, "an item: ") {
	case "too long", "empty", "a bad value", "no value of the list":
		set(l, value, 0)
	case "below its bound", "above its bound":
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		set(l, "", n)
	default:
		return false
	}
	return true
}

// decodeValue finds the value of a case in its file.
func decodeValue(t *testing.T, c ec3Case) string {
	t.Helper()
	documents, faults := readDocuments("f.yaml", []byte(c.file))
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	n := documents[0].root
	for part := range strings.SplitSeq(strings.ReplaceAll(c.field, "[0]", ".[0]"), ".") {
		if part == "[0]" {
			n = n.Content[0]
		} else if n = value(n, part); n == nil {
			t.Fatalf("%s is not in\n%s", c.field, c.file)
		}
	}
	return n.Value
}

// A launch is judged on its own, also where no manifest could have made it.
func TestLaunchWithoutItsParts(t *testing.T) {
	var l Launch
	for _, field := range []string{"metadata.name", "metadata.namespace", "spec.profile", "spec.actions.start.workspace",
		"spec.actions.start.executable", "spec.directory.workspace", "spec.directory.path", "spec.actions.stop.steps",
		"spec.restart.policy", "spec.restart.resetSeconds"} {
		found := false
		for _, f := range l.Validate() {
			found = found || f.Field == field
		}
		if !found {
			t.Errorf("an empty launch has no fault at %s", field)
		}
	}
	l = goodLaunch()
	l.Stop[0].Signal = nil
	l.Readiness.Log = nil
	l.Env[1].Value = "b"
	l.Restart.MaxSeconds = 0
	got := faultLines(l.Validate())
	want := `spec.env[1]: Invalid value: must have either 'value' or 'inherit: true'
spec.actions.stop.steps[0]: Required value: must have exactly one of 'exec', 'console', 'http', 'signal'
spec.readinessProbe: Required value: must have exactly one of 'exec', 'http', 'socket', 'log', 'query', 'proxy', 'notify'
spec.restart.maxSeconds: Invalid value: must be at least ` + "`initialSeconds`" + ` (1)
`
	if got != want {
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
}

// No argument and no value of the environment is in any fault (EC-6).
func TestLaunchFaultsHideValues(t *testing.T) {
	const canary = "kanarienvogel"
	l := goodLaunch()
	l.Args = []string{canary + "\x00", strings.Repeat(canary, 1000)}
	l.Env = []LaunchEnv{{Name: "A", Value: canary + "\x00"}}
	faults := l.Validate()
	if len(faults) != 3 {
		t.Errorf("there are %d faults, want 3", len(faults))
	}
	if strings.Contains(faultLines(faults), canary) {
		t.Errorf("a fault shows a value:\n%s", faultLines(faults))
	}
}
