package spec

import "testing"

// reloadBy leaves the reload of a launch nothing but this to do.
func reloadBy(l *Launch, a LaunchAction) { l.Reload.LaunchAction = a }

func reloadRequest(l *Launch) *HTTPAction {
	reloadBy(l, LaunchAction{HTTP: goodRequest()})
	return l.Reload.HTTP
}

func reloadLine(l *Launch) *ConsoleAction {
	l.Console = &LaunchConsole{Input: ConsoleStdin}
	reloadBy(l, LaunchAction{Console: &ConsoleAction{Line: "a"}})
	return l.Reload.Console
}

func reloadExec(l *Launch) *LaunchExec {
	reloadBy(l, LaunchAction{Exec: &LaunchExec{Workspace: "usr", Executable: "bin/b"}})
	return l.Reload.Exec
}

func init() {
	const at = "spec.actions.reload"
	for row, set := range map[string]func(l *Launch, s string, n int64){
		"signal.name":             func(l *Launch, s string, _ int64) { l.Reload.Signal.Name = s },
		"signal.to":               func(l *Launch, s string, _ int64) { l.Reload.Signal.To = SignalTo(s) },
		"timeoutSeconds":          func(l *Launch, _ string, n int64) { l.Reload.TimeoutSeconds = n },
		"console.line":            func(l *Launch, s string, _ int64) { reloadLine(l).Line = s },
		"console.expect":          func(l *Launch, s string, _ int64) { reloadLine(l).Expect = s },
		"exec.workspace":          func(l *Launch, s string, _ int64) { reloadExec(l).Workspace = s },
		"exec.executable":         func(l *Launch, s string, _ int64) { reloadExec(l).Executable = s },
		"exec.args":               func(l *Launch, s string, _ int64) { reloadExec(l).Args = []string{s} },
		"http.endpoint":           func(l *Launch, s string, _ int64) { reloadRequest(l).Endpoint = s },
		"http.scheme":             func(l *Launch, s string, _ int64) { reloadRequest(l).Scheme = s },
		"http.method":             func(l *Launch, s string, _ int64) { reloadRequest(l).Method = s },
		"http.path":               func(l *Launch, s string, _ int64) { reloadRequest(l).Path = s },
		"http.body":               func(l *Launch, s string, _ int64) { reloadRequest(l).Body = s },
		"http.headers[].name":     func(l *Launch, s string, _ int64) { reloadRequest(l).Headers[0].Name = s },
		"http.headers[].value":    func(l *Launch, s string, _ int64) { reloadRequest(l).Headers[0].Value = s },
		"http.basicAuth.username": func(l *Launch, s string, _ int64) { reloadRequest(l).BasicAuth.Username = s },
		"http.basicAuth.password": func(l *Launch, s string, _ int64) { reloadRequest(l).BasicAuth.Password = s },
	} {
		launchSetters[at+"."+row] = set
	}
	launchLists[at+".exec.args"] = func(l *Launch, n int) { reloadExec(l).Args = make([]string, n) }
	launchLists[at+".http.headers"] = func(l *Launch, n int) { reloadRequest(l).Headers = make([]HTTPHeader, n) }
	notInLaunch = append(notInLaunch, at, at+".signal", at+".console", at+".exec", at+".http", at+".http.basicAuth", at+".disruptive")
	emptyIsAbsent[at+".console.expect"] = true
}

// A reload that disturbs people is another one than one that does not.
func TestDisruptiveReload(t *testing.T) {
	base, l := goodLaunch(), goodLaunch()
	l.Reload.Disruptive = true
	if l.LiveHash() == base.LiveHash() || l.SpecHash() != base.SpecHash() {
		t.Error("the live hash is the same, or the spec hash is another")
	}
}
