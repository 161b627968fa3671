package spec

import (
	"fmt"
	"slices"
	"strconv"
)

// Validate checks every field of a launch, whoever made it (EC-17): the keeper trusts no decoder. The rows of the
// table judge it, so that what a manifest may not say a launch may not say either, in the same words. The faults name
// the manifest's fields and never hold an argument or a value of the environment.
func (l *Launch) Validate() []Fault {
	c := launchCheck{}
	c.text("metadata.namespace", l.Scope.Namespace, label())
	c.text("metadata.name", l.Scope.Server, label())
	c.text("spec.profile", l.Scope.Profile, label())
	c.row("spec.actions.start.workspace", "", l.Workspace)
	c.row("spec.actions.start.executable", "", l.Executable)
	c.count("spec.actions.start.args", len(l.Args))
	for i, a := range l.Args {
		c.row("spec.actions.start.args[]", index("spec.actions.start.args", i, ""), a)
	}
	c.env(l.Env)
	c.row("spec.directory.workspace", "", l.Directory.Workspace)
	c.row("spec.directory.path", "", l.Directory.Path)
	if l.User != "" {
		c.row("spec.user", "", l.User)
	}
	c.console(l)
	c.steps(l)
	c.commands(l)
	c.endpoints(l.Endpoints)
	c.probe("spec.readinessProbe", l.Readiness, l, false)
	c.probe("spec.livenessProbe", l.Liveness, l, true)
	if l.StartDeadlineSeconds != 0 {
		c.number("spec.startDeadlineSeconds", "", l.StartDeadlineSeconds)
	}
	c.players(l)
	c.row("spec.restart.policy", "", l.Restart.Policy)
	c.number("spec.restart.initialSeconds", "", l.Restart.InitialSeconds)
	c.number("spec.restart.maxSeconds", "", l.Restart.MaxSeconds)
	c.number("spec.restart.resetSeconds", "", l.Restart.ResetSeconds)
	policy := Restart{InitialSeconds: &l.Restart.InitialSeconds, MaxSeconds: &l.Restart.MaxSeconds}
	c.exits(l.Restart.Exits)
	c.rules().restart(&policy, (*path)(nil).field("spec").field("restart"))
	c.disruption(l)
	c.schedules(l)
	c.dependencies(l)
	c.files(l.Files)
	if a := l.Reload; a != nil {
		const at = "spec.actions.reload"
		check := actionCheck{launchCheck: &c, item: at, console: l.Console}
		check.action(at, &a.LaunchAction)
		c.endpointOf(l, at, a.HTTP)
		c.number(at+".timeoutSeconds", "", a.TimeoutSeconds)
	}
	if l.Check != nil {
		check := actionCheck{launchCheck: &c}
		check.exec("spec.actions.check", "spec.actions.check.exec", &l.Check.Exec)
		c.number("spec.actions.check.timeoutSeconds", "", l.Check.TimeoutSeconds)
	}
	return c.faults
}

func (c *launchCheck) disruption(l *Launch) {
	d := &l.Disruption
	c.number("spec.disruption.maxUnavailable", "", d.MaxUnavailable)
	if d.MaxPlayers != nil {
		c.number("spec.disruption.maxPlayers", "", *d.MaxPlayers)
		if l.Players == nil {
			c.fault("spec.disruption.maxPlayers", FaultInvalid, "", needsPlayers)
		}
	}
	const windows = "spec.disruption.windows"
	c.count(windows, len(d.Windows))
	for i, w := range d.Windows {
		c.row(windows+"[].schedule", index(windows, i, "schedule"), w.Schedule)
		c.row(windows+"[].timeZone", index(windows, i, "timeZone"), w.TimeZone)
		c.number(windows+"[].durationSeconds", index(windows, i, "durationSeconds"), w.DurationSeconds)
	}
	const announce = "spec.disruption.announce"
	c.count(announce, len(d.Announce))
	for i, a := range d.Announce {
		c.number(announce+"[].beforeSeconds", index(announce, i, "beforeSeconds"), a.BeforeSeconds)
		c.call(l, a.Command, a.Parameters, announce+"[].command", index(announce, i, ""))
	}
	if d.OnDeadline == "" && d.DeadlineSeconds == 0 {
		return
	}
	c.number("spec.disruption.deadlineSeconds", "", d.DeadlineSeconds)
	c.row("spec.disruption.onDeadline", "", d.OnDeadline)
}

func (c *launchCheck) dependencies(l *Launch) {
	c.count("spec.dependsOn", len(l.DependsOn))
	seen := map[string]bool{}
	for i, d := range l.DependsOn {
		if seen[d.String()] {
			c.fault(index("spec.dependsOn", i, "name"), FaultDuplicate, d.Name, mustBeUnique)
		}
		seen[d.String()] = true
		c.row("spec.dependsOn[].kind", index("spec.dependsOn", i, "kind"), d.Kind)
		c.row("spec.dependsOn[].name", index("spec.dependsOn", i, "name"), d.Name)
		c.row("spec.dependsOn[].condition", index("spec.dependsOn", i, "condition"), d.Condition)
	}
	c.rules().dependencies(l.DependsOn, l.Scope.Server)
}

// launchCheck collects the faults of a launch.
type launchCheck struct{ faults []Fault }

func (c *launchCheck) fault(field, kind, shown, detail string) {
	for _, f := range c.faults {
		if f.Field == field {
			return
		}
	}
	c.faults = append(c.faults, Fault{Field: field, Kind: kind, Value: showValue(shown), Detail: detail})
}

func (c *launchCheck) rules() rules {
	return rules{report: func(at *path, kind, shown, detail string) {
		c.fault(at.String(), kind, shown, detail)
	}}
}

// row judges a text by its row of the table; field is where it stands, "" for the row's own path.
func (c *launchCheck) row(row, field, value string) {
	if field == "" {
		field = row
	}
	c.text(field, value, launchRow(row))
}

func (c *launchCheck) text(field, value string, s *schema) {
	if s.secrets != secretsNever && HasSecret(value) {
		var detail string
		if value, detail = s.withoutSecrets(value); detail != "" {
			c.fault(field, FaultInvalid, "", detail)
			return
		}
	}
	if kind, detail := s.checkText(value, true); detail != "" {
		if s.private {
			value = ""
		}
		c.fault(field, kind, value, detail)
	}
}

func (c *launchCheck) number(row, field string, value int64) {
	if field == "" {
		field = row
	}
	s := launchRow(row)
	if detail := checkRange(value, s.min, s.max); detail != "" {
		c.fault(field, FaultInvalid, strconv.FormatInt(value, 10), detail)
	}
}

func (c *launchCheck) count(row string, n int) { c.countAt(row, row, n) }

func (c *launchCheck) countAt(row, field string, n int) {
	s := launchRow(row)
	if detail, kind := checkCount(n, s.minItems, s.maxItems); detail != "" {
		c.fault(field, kind, "", detail)
	}
}

// distinct finds what a list has twice.
func (c *launchCheck) distinct(field, text, detail string, seen map[string]bool) {
	if seen[text] {
		c.fault(field, FaultDuplicate, text, detail)
	}
	seen[text] = true
}

func (c *launchCheck) env(env []LaunchEnv) {
	c.count("spec.env", len(env))
	seen := map[string]bool{}
	for i, e := range env {
		c.row("spec.env[].name", index("spec.env", i, "name"), e.Name)
		c.distinct(index("spec.env", i, "name"), e.Name, mustBeUnique, seen)
		c.row("spec.env[].value", index("spec.env", i, "value"), e.Value)
		if e.Inherit && e.Value != "" {
			c.fault(index("spec.env", i, ""), FaultInvalid, "", "must have either 'value' or 'inherit: true'")
		}
	}
}

func (c *launchCheck) console(l *Launch) {
	if l.Console == nil {
		return
	}
	console := *l.Console
	c.row("spec.console.input", "", console.Input)
	if !slices.Contains([]string{ConsoleStdin, ConsoleFIFO, ConsoleRCON, ConsoleQuakeRCON, ConsoleWebRCON, ConsoleTelnet, ConsoleMailbox}, console.Input) {
		c.fault("spec.console.input", FaultForbidden, console.Input, notAvailable) // None is no console at all
	}
	if console.Path != "" {
		c.row("spec.console.path", "", console.Path)
	}
	if console.Endpoint != "" {
		c.row("spec.console.endpoint", "", console.Endpoint)
	}
	if console.Password != "" {
		c.row("spec.console.password", "", console.Password)
	}
	p := declaredEndpoints(l)
	p.Console = &Console{Input: console.Input, Path: console.Path, Endpoint: console.Endpoint, Password: console.Password}
	if t := console.TTY; t != nil {
		c.number("spec.console.tty.rows", "", t.Rows)
		c.number("spec.console.tty.columns", "", t.Columns)
		p.Console.TTY = &TTY{Rows: &t.Rows, Columns: &t.Columns}
	}
	c.rules().console(p, (*path)(nil).field("spec").field("console"))
}

// CheckLine judges a line for a console as that of a ladder is judged: it returns what is allowed, or "" for a good one.
func CheckLine(line string) string {
	_, detail := launchRow("spec.actions.stop.steps[].console.line").checkText(line, true)
	return detail
}

// CheckTyped is CheckLine for a line that somebody typed: it may be empty, which is the end of a line alone.
func CheckTyped(line string) string {
	if line == "" {
		return ""
	}
	return CheckLine(line)
}

func (c *launchCheck) exits(rules []ExitRule) {
	const list = "spec.restart.exits"
	c.count(list, len(rules))
	for i, r := range rules {
		at := index(list, i, "")
		if (r.Codes != nil) == (r.Signals != nil) {
			kind := FaultInvalid
			if r.Codes == nil {
				kind = FaultRequired
			}
			c.fault(at, kind, "", "must have exactly one of "+quoted(exitUnion))
		}
		if r.Codes != nil {
			c.countAt(list+"[].codes", at+".codes", len(r.Codes))
		}
		if r.Signals != nil {
			c.countAt(list+"[].signals", at+".signals", len(r.Signals))
		}
		seen := map[string]bool{}
		for j, code := range r.Codes {
			in := index(at+".codes", j, "")
			c.number(list+"[].codes[]", in, code)
			c.distinct(in, strconv.FormatInt(code, 10), mustBeOnce, seen)
		}
		for j, name := range r.Signals {
			in := index(at+".signals", j, "")
			c.row(list+"[].signals[]", in, name)
			c.distinct(in, name, mustBeOnce, seen)
		}
		c.row(list+"[].action", at+".action", string(r.Action))
	}
}

func (c *launchCheck) endpoints(endpoints []LaunchEndpoint) {
	const list = "spec.endpoints"
	c.count(list, len(endpoints))
	seen := map[string]bool{}
	for i, e := range endpoints {
		c.row(list+"[].name", index(list, i, "name"), e.Name)
		c.distinct(index(list, i, "name"), e.Name, mustBeUnique, seen)
		c.number(list+"[].port", index(list, i, "port"), int64(e.Port))
		c.row(list+"[].protocol", index(list, i, "protocol"), e.Protocol)
		if e.Address != "" {
			c.row(list+"[].address", index(list, i, "address"), e.Address)
		}
		if e.AppProtocol != "" {
			c.row(list+"[].appProtocol", index(list, i, "appProtocol"), e.AppProtocol)
		}
	}
}

func (c *launchCheck) bytes(row string, b []byte) {
	if most := launchRow(row).max; int64(len(b)) > most {
		c.fault(row, FaultTooLong, "", fmt.Sprintf("must be at most %d bytes", most))
	}
}

// index is the path of an item, or of a member of it.
func index(list string, i int, member string) string {
	if member != "" {
		member = "." + member
	}
	return list + "[" + strconv.Itoa(i) + "]" + member
}
