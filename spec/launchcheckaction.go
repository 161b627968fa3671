package spec

import (
	"fmt"
	"strings"
)

// CommandsLimit is how many bytes the commands of a launch may have together, those of its ladder, and the arguments of a probe: they are
// kept in the record of every run.
const CommandsLimit = 256 << 10

const (
	listOfSteps    = "spec.actions.stop.steps"
	listOfCommands = "spec.actions.commands"
)

// actionCheck judges the actions of one list.
type actionCheck struct {
	*launchCheck
	item    string // the row of one of them in the table
	console *LaunchConsole
	own     []Parameter // whose values the texts wait for
	bytes   int         // of the texts
}

// action judges an action; field is where it stands.
func (c *actionCheck) action(field string, a *LaunchAction) {
	set := 0
	for _, is := range []bool{a.Exec != nil, a.Console != nil, a.HTTP != nil, a.Signal != nil} {
		if is {
			set++
		}
	}
	if set != 1 {
		kind := FaultInvalid
		if set == 0 {
			kind = FaultRequired
		}
		c.fault(field, kind, "", "must have exactly one of "+quoted(actionUnion))
	}
	if a.Signal != nil {
		c.row(c.item+".signal.name", field+".signal.name", a.Signal.Name)
		c.row(c.item+".signal.to", field+".signal.to", string(a.Signal.To))
	}
	if a.Console != nil {
		c.line(field+".console", a.Console)
	}
	if a.Exec != nil {
		c.exec(c.item, field+".exec", a.Exec)
	}
	if a.HTTP != nil {
		c.request(c.item+".http", field+".http", a.HTTP)
	}
}

func (c *actionCheck) line(field string, a *ConsoleAction) {
	row := c.item + ".console"
	c.text(row+".line", field+".line", a.Line)
	if a.Expect != "" {
		c.row(row+".expect", field+".expect", a.Expect)
	}
	if c.console == nil {
		c.fault(field, FaultInvalid, "", noConsole)
	}
}

// exec judges a program; its rows are those below row.
func (c *actionCheck) exec(row, field string, e *LaunchExec) {
	row += ".exec"
	c.row(row+".workspace", field+".workspace", e.Workspace)
	c.row(row+".executable", field+".executable", e.Executable)
	c.countAt(row+".args", field+".args", len(e.Args))
	for i, a := range e.Args {
		c.text(row+".args[]", index(field+".args", i, ""), a)
	}
}

// text judges a text that may wait for parameters: a letter stands for each.
func (c *actionCheck) text(row, field, text string) {
	c.bytes += len(text)
	if strings.Contains(text, parameterMark) {
		var b strings.Builder
		closed := cutParameters(text, func(s string) { b.WriteString(s) }, func(name string) {
			b.WriteByte('p')
			if findParameter(c.own, name) == nil {
				c.fault(field, FaultNotFound, "", showName(name)+" names no parameter of the command")
			}
		})
		if !closed {
			c.fault(field, FaultInvalid, "", "must be one line without control characters (a tab is allowed)")
			return
		}
		text = b.String()
	}
	c.row(row, field, text)
}

func (c *launchCheck) steps(l *Launch) {
	c.count(listOfSteps, len(l.Stop))
	check := actionCheck{launchCheck: c, item: listOfSteps + "[]", console: l.Console}
	for i, s := range l.Stop {
		check.action(index(listOfSteps, i, ""), &LaunchAction{Exec: s.Exec, Console: s.Console, HTTP: s.HTTP, Signal: s.Signal})
		c.endpointOf(l, index(listOfSteps, i, ""), s.HTTP)
		c.row(listOfSteps+"[].waitFor", index(listOfSteps, i, "waitFor"), string(s.WaitFor))
		c.number(listOfSteps+"[].waitSeconds", index(listOfSteps, i, "waitSeconds"), s.WaitSeconds)
	}
	c.weight(listOfSteps, check.bytes)
}

func (c *launchCheck) commands(l *Launch) {
	c.count(listOfCommands, len(l.Commands))
	check := actionCheck{launchCheck: c, item: listOfCommands + "[]", console: l.Console}
	seen := map[string]bool{}
	for i := range l.Commands {
		command := &l.Commands[i]
		at := index(listOfCommands, i, "")
		c.row(listOfCommands+"[].name", at+".name", command.Name)
		c.distinct(at+".name", command.Name, mustBeUnique, seen)
		check.own = command.Parameters
		check.action(at, &command.LaunchAction)
		c.endpointOf(l, at, command.HTTP)
		check.bytes += c.ownParameters(at+".parameters", command.Parameters)
		c.row(listOfCommands+"[].requires", at+".requires", string(command.Requires))
		if command.Requires == RequiresStopped && command.Exec == nil {
			c.fault(at+".requires", FaultInvalid, "", needsExec)
		}
		c.commandNames(l, listOfCommands+"[].before", at+".before", command.Before)
		c.commandNames(l, listOfCommands+"[].after", at+".after", command.After)
		c.number(listOfCommands+"[].timeoutSeconds", at+".timeoutSeconds", command.TimeoutSeconds)
	}
	c.weight(listOfCommands, check.bytes)
}

func (c *launchCheck) commandNames(l *Launch, row, field string, names []string) {
	c.countAt(row, field, len(names))
	for i, name := range names {
		in := index(field, i, "")
		c.row(row+"[]", in, name)
		if l.Command(name) == nil {
			c.fault(in, FaultNotFound, name, noSuchCommand)
		}
	}
}

// weight refuses what would make every record too long.
func (c *launchCheck) weight(list string, bytes int) {
	if bytes > CommandsLimit {
		c.fault(list, FaultTooLong, "", fmt.Sprintf("must have at most %d bytes of arguments, lines and parameters together; there are %d", CommandsLimit, bytes))
	}
}

// ownParameters judges the parameters that a command declares, and counts their bytes.
func (c *launchCheck) ownParameters(field string, parameters []Parameter) (bytes int) {
	const row = listOfCommands + "[].parameters"
	c.countAt(row, field, len(parameters))
	seen := map[string]bool{}
	for i := range parameters {
		at := index(field, i, "")
		c.distinct(at+".name", parameters[i].Name, mustBeUnique, seen)
		bytes += c.ownParameter(row+"[]", at, &parameters[i])
	}
	var root *path
	c.rules().parameters(parameters, root.field(field))
	return bytes
}

func (c *launchCheck) ownParameter(row, at string, p *Parameter) (bytes int) {
	c.row(row+".name", at+".name", p.Name)
	c.row(row+".type", at+".type", p.typeName())
	if p.Default != nil {
		if kind, detail := launchRow(row + ".default").checkNumber(*p.Default); detail != "" {
			c.fault(at+".default", kind, "", detail)
		}
		bytes += len(p.Default.String)
	}
	if p.DefaultFrom != nil {
		c.row(row+".defaultFrom.parameter", at+".defaultFrom.parameter", p.DefaultFrom.Parameter)
		c.number(row+".defaultFrom.add", at+".defaultFrom.add", valueOr(p.DefaultFrom.Add, 0))
	}
	c.countAt(row+".enum", at+".enum", len(p.Enum))
	values := map[string]bool{}
	for i, v := range p.Enum {
		in := index(at+".enum", i, "")
		c.row(row+".enum[]", in, v)
		c.distinct(in, v, mustBeOnce, values)
		bytes += len(v)
	}
	if p.Pattern != "" {
		c.row(row+".pattern", at+".pattern", p.Pattern)
	}
	if p.MaxLength != nil {
		c.number(row+".maxLength", at+".maxLength", *p.MaxLength)
	}
	return bytes + len(p.Pattern)
}
