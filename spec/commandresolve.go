package spec

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

const defaultCommandSeconds = 60

// A command of a launch waits for its caller's parameters. Where one goes the text has a mark: SOH, the parameter's name, SOH.
// No text of a manifest can hold SOH, so nothing that a reference was expanded to looks like one, and nothing is expanded twice.
const parameterMark = "\x01"

func markParameter(name string) string { return parameterMark + name + parameterMark }

// cutParameters cuts a text at its marks, and reports false for one whose last mark is not closed.
func cutParameters(text string, literal, parameter func(string)) bool {
	inside := false
	for part := range strings.SplitSeq(text, parameterMark) {
		if inside {
			parameter(part)
		} else if part != "" {
			literal(part)
		}
		inside = !inside
	}
	return inside
}

// commands resolves what can be resolved of the commands before somebody calls them.
func (r *resolver) commands() []LaunchCommand {
	var commands []LaunchCommand
	for i := range r.profile.Actions.Commands {
		c := &r.profile.Actions.Commands[i]
		r.own = c.Parameters
		a, ok := r.action(&c.Action, fmt.Sprintf("spec.actions.commands[%d]", i))
		r.own = nil
		if !ok {
			continue
		}
		commands = append(commands, LaunchCommand{
			Name: c.Name, LaunchAction: a, Parameters: undescribed(c.Parameters), Requires: Requires(or(c.Requires, string(RequiresAny))),
			Before: slices.Clone(c.Before), After: slices.Clone(c.After), TimeoutSeconds: valueOr(c.TimeoutSeconds, defaultCommandSeconds),
		})
	}
	return commands
}

// undescribed leaves out what is inert.
func undescribed(parameters []Parameter) []Parameter {
	list := slices.Clone(parameters)
	for i := range list {
		list[i].Description = ""
	}
	return list
}

// action resolves an action; it is no use when this version does not know its kind, which is reported.
func (r *resolver) action(a *Action, field string) (LaunchAction, bool) {
	switch {
	case a.Signal != nil:
		return LaunchAction{Signal: &SignalAction{Name: a.Signal.Name, To: SignalTo(or(a.Signal.To, string(ToMain)))}}, true
	case a.Console != nil:
		line := r.expand(a.Console.Line, func() string { return field + ".console.line" })
		return LaunchAction{Console: &ConsoleAction{Line: line, Expect: a.Console.Expect}}, true
	case a.Exec != nil:
		return LaunchAction{Exec: r.exec(a.Exec, field+".exec")}, true
	case a.HTTP != nil:
		return LaunchAction{HTTP: r.request(a.HTTP, field+".http")}, true
	}
	r.fault(field, FaultForbidden, "", notAvailable)
	return LaunchAction{}, false
}

// exec takes from actions.start what it leaves out.
func (r *resolver) exec(e *Exec, field string) *LaunchExec {
	start := &r.profile.Actions.Start
	x := &LaunchExec{
		Workspace:  or(e.Workspace, or(start.Workspace, defaultWorkspace)),
		Executable: filepath.Clean(or(e.Executable, start.Executable)),
	}
	r.workspace(x.Workspace, field+".workspace")
	for i, a := range e.Args {
		x.Args = append(x.Args, r.expand(a, func() string { return index(field+".args", i, "") }))
	}
	return x
}
