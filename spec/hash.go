package spec

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"slices"
	"strconv"
	"strings"
)

// The hashes are over a form of their own, not over Go's or JSON's: named values, each with its length, in a fixed
// order. A value at its default is left out, so that a field which a new version adds changes no hash; what API.md
// rule 1 calls no change is sorted. The names are never renamed.

// SpecHash is over the restart-class fields: a difference needs a new run.
func (l *Launch) SpecHash() string {
	h := newHasher("spec")
	h.text("workspace", l.Workspace, defaultWorkspace)
	h.text("executable", l.Executable, "")
	for _, a := range l.Args {
		h.always("arg", a)
	}
	for _, e := range sortedBy(l.Env, func(e LaunchEnv) string { return e.Name }) {
		h.always("env", e.Name)
		if e.Inherit {
			h.always("inherit", "")
		} else {
			h.always("value", e.Value)
		}
	}
	h.always("directory.workspace", l.Directory.Workspace)
	h.always("directory.path", l.Directory.Path)
	h.text("user", l.User, "")
	for _, f := range l.sortedFiles() {
		h.always("file", f.Path)
		h.text("file.workspace", f.Workspace, "")
	}
	if c := l.Console; c != nil && c.TTY != nil {
		h.always("tty", "")
		h.number("rows", c.TTY.Rows, defaultRows)
		h.number("columns", c.TTY.Columns, defaultColumns)
	}
	return h.sum()
}

// LiveHash is over the live-class fields: a difference applies to the run that is there.
func (l *Launch) LiveHash() string {
	h := newHasher("live")
	for _, s := range l.Stop {
		h.always("step", "")
		h.action(&LaunchAction{Exec: s.Exec, Console: s.Console, HTTP: s.HTTP, Signal: s.Signal})
		h.text("waitFor", string(s.WaitFor), string(WaitForExit))
		h.number("waitSeconds", s.WaitSeconds, 0)
	}
	if c := l.Console; c != nil {
		h.always("console", c.Input)
		h.text("path", c.Path, "")
		h.text("console.endpoint", c.Endpoint, "")
		h.text("console.password", c.Password, "")
	}
	for _, e := range sortedBy(l.Endpoints, func(e LaunchEndpoint) string { return e.Name }) {
		h.always("endpoint", e.Name)
		h.number("port", int64(e.Port), 0)
		h.text("protocol", e.Protocol, ProtocolTCP)
		h.text("address", e.Address, "")
		h.text("appProtocol", e.AppProtocol, "")
	}
	h.probe("readiness", l.Readiness)
	h.probe("liveness", l.Liveness)
	h.number("startDeadlineSeconds", l.StartDeadlineSeconds, 0)
	h.players(l.Players)
	h.text("restart.policy", l.Restart.Policy, RestartAlways)
	h.number("restart.initialSeconds", l.Restart.InitialSeconds, defaultInitialSeconds)
	h.number("restart.maxSeconds", l.Restart.MaxSeconds, defaultMaxSeconds)
	h.number("restart.resetSeconds", l.Restart.ResetSeconds, defaultResetSeconds)
	for _, r := range l.Restart.Exits {
		h.always("restart.exit", string(r.Action))
		for _, code := range slices.Sorted(slices.Values(r.Codes)) {
			h.number("code", code, -1)
		}
		for _, name := range slices.Sorted(slices.Values(r.Signals)) {
			h.always("signal", name)
		}
	}
	h.disruption(&l.Disruption)
	for _, c := range sortedBy(l.Commands, func(c LaunchCommand) string { return c.Name }) {
		h.command(&c)
	}
	if a := l.Reload; a != nil {
		h.always("reload", "")
		h.action(&a.LaunchAction)
		if a.Disruptive {
			h.always("reload.disruptive", "")
		}
		h.number("reload.timeoutSeconds", a.TimeoutSeconds, defaultReloadSeconds)
	}
	if c := l.Check; c != nil {
		h.always("check", "")
		h.action(&LaunchAction{Exec: &c.Exec})
		h.number("check.timeoutSeconds", c.TimeoutSeconds, defaultCheckSeconds)
	}
	for _, s := range sortedBy(l.Schedules, func(s LaunchSchedule) string { return s.Name }) {
		h.schedule(&s)
	}
	for _, d := range sortedBy(l.DependsOn, Dependency.String) {
		h.always("dependsOn", d.Kind)
		h.always("dependsOn.name", d.Name)
		h.always("dependsOn.condition", d.Condition)
	}
	for _, f := range l.sortedFiles() {
		if f.OnChange != ChangeApply {
			h.always("file", f.Path)
			h.always("file.onChange", f.OnChange)
		}
	}
	return h.sum()
}

func (h *hasher) disruption(d *LaunchDisruption) {
	h.number("disruption.maxUnavailable", d.MaxUnavailable, defaultMaxUnavailable)
	if d.MaxPlayers != nil {
		h.number("disruption.maxPlayers", *d.MaxPlayers, -1)
	}
	for _, w := range sortedBy(d.Windows, func(w LaunchWindow) string { return w.Schedule + " " + w.TimeZone }) {
		h.always("window", w.Schedule)
		h.text("window.timeZone", w.TimeZone, "UTC")
		h.number("window.durationSeconds", w.DurationSeconds, 0)
	}
	for _, a := range sortedBy(d.Announce, Announcement.order) {
		h.number("announce.beforeSeconds", a.BeforeSeconds, 0)
		h.call(a.Command, a.Parameters)
	}
	h.number("disruption.deadlineSeconds", d.DeadlineSeconds, 0)
	h.text("disruption.onDeadline", d.OnDeadline, "")
}

func (h *hasher) action(a *LaunchAction) {
	if a.Signal != nil {
		h.always("signal", a.Signal.Name)
		h.text("to", string(a.Signal.To), string(ToMain))
	}
	if a.Console != nil {
		h.always("line", a.Console.Line)
		h.text("expect", a.Console.Expect, "")
	}
	h.exec(a.Exec)
	if a.HTTP != nil {
		h.request(a.HTTP)
	}
}

func (h *hasher) exec(e *LaunchExec) {
	if e == nil {
		return
	}
	h.always("exec", e.Executable)
	h.always("exec.workspace", e.Workspace)
	for _, arg := range e.Args {
		h.always("exec.arg", arg)
	}
}

func (h *hasher) request(a *HTTPAction) {
	h.always("http", a.Endpoint)
	h.text("http.scheme", a.Scheme, SchemeHTTP)
	h.text("http.method", a.Method, "GET")
	h.text("http.path", a.Path, "/")
	for _, x := range sortedBy(a.Headers, func(x HTTPHeader) string { return x.Name }) {
		h.always("http.header", x.Name)
		h.always("http.value", x.Value)
	}
	h.text("http.body", a.Body, "")
	if a.BasicAuth != nil {
		h.always("http.username", a.BasicAuth.Username)
		h.always("http.password", a.BasicAuth.Password)
	}
}

func (h *hasher) command(c *LaunchCommand) {
	h.always("command", c.Name)
	h.action(&c.LaunchAction)
	for _, p := range sortedBy(c.Parameters, func(p Parameter) string { return p.Name }) {
		h.parameter(&p)
	}
	h.text("command.requires", string(c.Requires), string(RequiresAny))
	for _, name := range c.Before {
		h.always("before", name)
	}
	for _, name := range c.After {
		h.always("after", name)
	}
	h.number("command.timeoutSeconds", c.TimeoutSeconds, defaultCommandSeconds)
}

// parameter is over what a caller's value is judged by.
func (h *hasher) parameter(p *Parameter) {
	h.always("parameter", p.Name)
	h.text("type", p.typeName(), ParameterString)
	if p.Default != nil {
		h.always("default", p.Default.Text())
	}
	if p.DefaultFrom != nil {
		h.always("defaultFrom", p.DefaultFrom.Parameter)
		h.number("add", valueOr(p.DefaultFrom.Add, 0), 0)
	}
	for _, v := range slices.Sorted(slices.Values(p.Enum)) {
		h.always("enum", v)
	}
	for _, bound := range []struct {
		name string
		at   *int64
	}{{"minimum", p.Minimum}, {"maximum", p.Maximum}} {
		if bound.at != nil {
			h.always(bound.name, strconv.FormatInt(*bound.at, 10))
		}
	}
	h.number("maxLength", valueOr(p.MaxLength, defaultMaxLength), defaultMaxLength)
	h.text("pattern", p.Pattern, "")
	if p.InArgs {
		h.always("inArgs", "")
	}
}

// Hash is over all of the launch, the scope left out: a difference is a new generation.
func (l *Launch) Hash() string {
	h := newHasher("launch")
	h.always("spec", l.SpecHash())
	h.always("live", l.LiveHash())
	h.text("files", l.FilesHash(), "")
	return h.sum()
}

// hasher writes named values so that no two sequences of them look alike.
type hasher struct {
	sha hash.Hash
	buf []byte
}

func newHasher(of string) *hasher {
	h := &hasher{sha: sha256.New(), buf: make([]byte, 0, 512)}
	h.always(of, "v1")
	return h
}

func (h *hasher) always(name, value string) {
	h.buf = binary.AppendUvarint(h.buf, uint64(len(name)))
	h.buf = append(h.buf, name...)
	h.buf = binary.AppendUvarint(h.buf, uint64(len(value)))
	h.buf = append(h.buf, value...)
}

func (h *hasher) text(name, value, otherwise string) {
	if value != otherwise {
		h.always(name, value)
	}
}

func (h *hasher) number(name string, value, otherwise int64) {
	if value != otherwise {
		h.always(name, string(binary.AppendVarint(nil, value)))
	}
}

// sum is 128 bits of SHA-256 in hexadecimal.
func (h *hasher) sum() string {
	h.sha.Write(h.buf)
	return hex.EncodeToString(h.sha.Sum(nil)[:16])
}

// sortedBy is a sorted copy, or the list itself when it is sorted.
func sortedBy[T any](list []T, key func(T) string) []T {
	less := func(a, b T) int { return strings.Compare(key(a), key(b)) }
	if slices.IsSortedFunc(list, less) {
		return list
	}
	list = slices.Clone(list)
	slices.SortStableFunc(list, less)
	return list
}
