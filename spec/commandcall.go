package spec

import (
	"strings"
)

// Beside is the launch of a program that is run beside a launch's own: all is the same but what is executed.
func (l *Launch) Beside(e *LaunchExec) *Launch {
	beside := *l
	beside.Workspace, beside.Executable, beside.Args, beside.Files = e.Workspace, e.Executable, e.Args, nil
	return &beside
}

// Checking is the launch of its check, which it must have: a program beside it that has its files.
func (l *Launch) Checking() *Launch {
	checking := l.Beside(&l.Check.Exec)
	checking.Files = l.Files
	return checking
}

// Command finds a command of a launch by its name; nil = there is none.
func (l *Launch) Command(name string) *LaunchCommand {
	for i := range l.Commands {
		if l.Commands[i].Name == name {
			return &l.Commands[i]
		}
	}
	return nil
}

// NoSuchCommand says that a launch declares no command of a name, for people.
func (l *Launch) NoSuchCommand(name string) string {
	names := make([]string, len(l.Commands))
	for i, c := range l.Commands {
		names[i] = c.Name
	}
	if len(names) == 0 {
		return "profile '" + l.Scope.Profile + "' declares no commands"
	}
	if hint := didYouMean(name, names); hint != "" {
		return "profile '" + l.Scope.Profile + "' declares no such command" + hint
	}
	return "profile '" + l.Scope.Profile + "' declares no such command; it has " + quoted(names)
}

// Rail names how a command reaches its server, as receipts do: Exec, Signal, HTTP or the console's input.
func (c *LaunchCommand) Rail(console *LaunchConsole) string {
	switch {
	case c.Exec != nil:
		return "Exec"
	case c.Signal != nil:
		return "Signal"
	case c.HTTP != nil:
		return "HTTP"
	case console != nil:
		return console.Input
	}
	return ConsoleNone
}

// Fill is what a command of a launch with this console does when it is called with these values of its parameters. Each value goes where its reference
// stands, whole, and is looked at no more. The faults carry the fields parameters[NAME], or those of the profile for what a
// value makes of them; none holds a value that is text. The action is of use only without faults.
func (c *LaunchCommand) Fill(given map[string]IntOrString, console *LaunchConsole) (LaunchAction, []Fault) {
	check := launchCheck{}
	values := settle(c.Parameters, given, "command '"+c.Name+"'", func(name, kind, shown, detail string) {
		check.fault("parameters["+name+"]", kind, shown, detail)
	})
	if len(check.faults) > 0 {
		return LaunchAction{}, check.faults
	}
	a := c.LaunchAction
	fillAs := func(text string, as func(string) string) string {
		if !strings.Contains(text, parameterMark) {
			return text
		}
		var b strings.Builder
		cutParameters(text, func(s string) { b.WriteString(s) }, func(name string) { b.WriteString(as(values[name])) })
		return b.String()
	}
	fill := func(text string) string { return fillAs(text, func(value string) string { return value }) }
	if a.Exec != nil {
		exec := *a.Exec
		exec.Args = make([]string, len(a.Exec.Args))
		for i, text := range a.Exec.Args {
			exec.Args[i] = fill(text)
		}
		a.Exec = &exec
	}
	if a.Console != nil {
		line := *a.Console
		line.Line = fill(line.Line)
		a.Console = &line
	}
	if a.HTTP != nil {
		a.HTTP = a.HTTP.filled(fillAs)
	}
	filled := actionCheck{launchCheck: &check, item: listOfCommands + "[]", console: console}
	filled.action("spec.actions.commands["+c.Name+"]", &a)
	return a, check.faults
}

// TextParameters reads the values of a command's parameters as they stand on a command line: digits are an integer where the
// command declares one.
func (c *LaunchCommand) TextParameters(given map[string]string) map[string]IntOrString {
	values := make(map[string]IntOrString, len(given))
	for name, text := range given {
		values[name] = IntOrString{IsString: true, String: text}
		if p := findParameter(c.Parameters, name); p != nil && p.typeName() == ParameterInteger {
			values[name] = ParseIntOrString(text)
		}
	}
	return values
}

// ParseIntOrString is an integer where a text is one as YAML writes it, and else the text.
func ParseIntOrString(text string) IntOrString {
	if plainScalar(text) == scalarInt {
		var v IntOrString
		if v.UnmarshalJSON([]byte(text)) == nil {
			return v
		}
	}
	return IntOrString{IsString: true, String: text}
}
