package spec

import "strings"

// The rules between fields, as a cluster's schema says them. Each is the twin of one in validate.go; the corpus goes
// through both.

// celRule is an expression over self that a good value makes true.
type celRule struct{ expression, message string }

// must adds a rule for a cluster's schema.
func (s *schema) must(expression, message string) *schema {
	s.cel = append(s.cel, celRule{expression, message})
	return s
}

func envRules(s *schema) *schema {
	return s.must("has(self.value) != (has(self.inherit) && self.inherit)", "must have either 'value' or 'inherit: true'")
}

// parameterRules leave out one twin: that a default matches its pattern is beyond what a cluster lets a rule cost.
func parameterRules(s *schema) *schema {
	for _, c := range []struct{ name, kind string }{
		{"defaultFrom", ParameterInteger}, {"minimum", ParameterInteger}, {"maximum", ParameterInteger},
		{"enum", ParameterString}, {"pattern", ParameterString}, {"maxLength", ParameterString},
	} {
		s.must("!has(self."+c.name+") || self.type == '"+c.kind+"'", c.name+": is for parameters of type "+c.kind+" alone")
	}
	return s.
		must("!has(self.inArgs) || !self.inArgs || self.type == 'Secret'", "inArgs: is for parameters of type Secret alone").
		must("!has(self.default) || self.type != 'Secret'", "default: is for parameters of type String or Integer alone").
		must("!has(self.default) || !has(self.defaultFrom)", "defaultFrom: must not stand beside 'default'").
		must("!has(self.default) || (self.type == 'Integer') == (type(self.default) == int)", "default: must be of the parameter's type").
		must("!has(self.minimum) || !has(self.maximum) || self.minimum <= self.maximum", "minimum: must be at most `maximum`").
		must("!has(self.default) || type(self.default) != int || !has(self.minimum) || int(self.default) >= self.minimum", "default: must be at least `minimum`").
		must("!has(self.default) || type(self.default) != int || !has(self.maximum) || int(self.default) <= self.maximum", "default: must be at most `maximum`").
		must("!has(self.default) || type(self.default) != string || !has(self.enum) || size(self.enum) == 0 || string(self.default) in self.enum", "default: must be one of `enum`").
		must("!has(self.default) || type(self.default) != string || size(string(self.default)) <= (has(self.maxLength) ? self.maxLength : 256)", "default: must be at most `maxLength` long").
		must("!has(self.pattern) || (''.matches(self.pattern) ? true : true)", "pattern: must be a regular expression of RE2").
		must("!has(self.enum) || self.enum.all(e, size(e) <= (has(self.maxLength) ? self.maxLength : 256))", "enum: must be at most `maxLength` long")
}

func socketRules(s *schema) *schema {
	const hexadecimal = "'^([0-9A-Fa-f][0-9A-Fa-f])+$'"
	return s.
		must("self.encoding != 'Hex' || !has(self.send) || self.send.matches("+hexadecimal+")", "send: must be pairs of hexadecimal digits").
		must("self.encoding != 'Hex' || !has(self.expect) || self.expect.matches("+hexadecimal+")", "expect: must be pairs of hexadecimal digits")
}

func livenessRules(s *schema) *schema {
	return s.
		must("!has(self.log)", "log: a line once printed says nothing of life: use another probe").
		must("self.successThreshold == 1", "successThreshold: must be 1 in a liveness probe")
}

func restartRules(s *schema) *schema {
	// An API server judges the default, an empty object, before it fills in what is below.
	return s.must("(has(self.maxSeconds) ? self.maxSeconds : 300) >= (has(self.initialSeconds) ? self.initialSeconds : 1)", "maxSeconds: must be at least `initialSeconds`")
}

func playersRules(s *schema) *schema {
	return s.must("has(self.http) == has(self.field)", "field: must be given with 'http', and only then")
}

func fileRules(s *schema) *schema {
	return s.must("!has(self.write) || has(self.content)", "write: needs 'content': without it the file is somebody else's")
}

func disruptionRules(s *schema) *schema {
	return s.must("!has(self.onDeadline) || has(self.deadlineSeconds)", "onDeadline: needs `deadlineSeconds`")
}

func commandRules(s *schema) *schema {
	return s.
		must("self.requires != 'Stopped' || has(self.exec)", "requires: "+needsExec).
		must(derivedParameters, "parameters: `defaultFrom` must name a parameter of type Integer that has none itself")
}

// jobRules hold command and parameters to the type Command.
func jobRules(s *schema) *schema {
	return s.
		must("(self.type == 'Command') == has(self.command)", "command: must be given with type Command, and only then").
		must("self.type == 'Command' || !has(self.parameters) || size(self.parameters) == 0", "parameters: is for type Command alone")
}

func httpRules(s *schema) *schema {
	return s.must("!has(self.basicAuth) || !has(self.headers) || self.headers.all(h, h.name.lowerAscii() != 'authorization')", "basicAuth: "+besideAuthorization)
}

func consoleRules(s *schema) *schema {
	const network = "['RCON', 'QuakeRCON', 'WebRCON', 'Telnet']"
	return s.
		must("(self.input in "+network+") == has(self.endpoint)", "endpoint: must be given for input RCON, QuakeRCON, WebRCON and Telnet, and only then").
		must("(self.input == 'FIFO') == has(self.path)", "path: must be given for input FIFO, and only then").
		must("!has(self.password) || self.input in "+network, "password: is for input RCON, QuakeRCON, WebRCON or Telnet alone").
		must("has(self.password) || !(self.input in ['RCON', 'QuakeRCON', 'WebRCON'])", "password: must be given with input RCON, QuakeRCON and WebRCON").
		must("!has(self.tty) || self.input == 'Stdin'", "tty: is for input Stdin alone")
}

func dependencyRules(s *schema) *schema {
	return s.must("!has(self.condition) || (self.kind == 'Job') == (self.condition == 'Succeeded')", "condition: must be 'Ready' or 'Running' for a Server, 'Succeeded' for a Job")
}

func tunRules(s *schema) *schema {
	return s.must("(self.provider == 'Tun2socks') == has(self.endpoint)", "endpoint: must be given with provider Tun2socks, and only then")
}

const derivedParameters = "!has(self.parameters) || self.parameters.all(p, !has(p.defaultFrom) || self.parameters.exists(q, q.name == p.defaultFrom.parameter && q.type == 'Integer' && !has(q.defaultFrom)))"

// profileRules are those between the parts of a Profile: what is named is declared.
func profileRules(s *schema) *schema {
	const declared = "has(self.endpoints) && self.endpoints.exists(e, e.name == "
	s.must(derivedParameters, "parameters: `defaultFrom` must name a parameter of type Integer that has none itself").
		must("!has(self.endpoints) || self.endpoints.all(e, type(e.port) == int || (has(self.parameters) && self.parameters.exists(p, p.type == 'Integer' && '$(' + p.name + ')' == string(e.port))))",
			"endpoints: a port's reference must name a parameter of type Integer").
		must("!has(self.disruption) || !has(self.disruption.maxPlayers) || has(self.players)", "disruption.maxPlayers: needs `players`: nobody counts").
		must("!has(self.console) || !has(self.console.endpoint) || "+declared+"self.console.endpoint && (e.protocol == 'UDP') == (self.console.input == 'QuakeRCON'))",
			"console.endpoint: must name an endpoint of `endpoints`, of protocol UDP for input QuakeRCON and else of TCP").
		must("!has(self.console) || !has(self.console.password) || (has(self.parameters) && self.parameters.exists(p, p.type == 'Secret' && '$(' + p.name + ')' == self.console.password))",
			"console.password: must name a parameter of type Secret").
		must("!has(self.actions.stop) || self.actions.stop.steps.all(s, !has(s.http) || "+declared+"s.http.endpoint && e.protocol == 'TCP'))", "actions.stop: a request must name an endpoint of `endpoints` of protocol TCP").
		must("!has(self.actions.commands) || self.actions.commands.all(c, !has(c.http) || "+declared+"c.http.endpoint && e.protocol == 'TCP'))", "actions.commands: a request must name an endpoint of `endpoints` of protocol TCP").
		must("!has(self.actions.reload) || !has(self.actions.reload.http) || "+declared+"self.actions.reload.http.endpoint && e.protocol == 'TCP')", "actions.reload: a request must name an endpoint of `endpoints` of protocol TCP").
		must("!has(self.actions.reload) || has(self.console) && self.console.input != 'None' || !has(self.actions.reload.console)", "actions.reload: a line needs `console.input`: there is no console to write to").
		must("!has(self.actions.stop) || has(self.console) && self.console.input != 'None' || self.actions.stop.steps.all(s, !has(s.console))", "actions.stop: a console step needs `console.input`: there is no console to write to").
		must("!has(self.actions.commands) || has(self.console) && self.console.input != 'None' || self.actions.commands.all(c, !has(c.console))", "actions.commands: a console command needs `console.input`: there is no console to write to").
		must("!has(self.actions.commands) || self.actions.commands.all(c, (!has(c.before) || c.before.all(n, self.actions.commands.exists(d, d.name == n))) && (!has(c.after) || c.after.all(n, self.actions.commands.exists(d, d.name == n))))",
			"actions.commands: before and after must name commands").
		must("!has(self.actions.commands) || !has(self.parameters) || self.actions.commands.all(c, !has(c.parameters) || c.parameters.all(p, !self.parameters.exists(q, q.name == p.name)))",
			"actions.commands: a parameter must not have the name of one of the profile's")
	for _, probe := range []string{"readinessProbe", "livenessProbe"} {
		at := "self." + probe
		s.must("!has("+at+") || !has("+at+".socket) || "+declared+at+".socket.endpoint && (e.protocol == 'TCP' || has("+at+".socket.send)))",
			probe+".socket: must name an endpoint of `endpoints`, and have `send` if that is of protocol UDP")
		s.must("!has("+at+") || !has("+at+".http) || "+declared+at+".http.endpoint && e.protocol == 'TCP')", probe+".http: must name an endpoint of `endpoints` of protocol TCP")
		s.must("!has("+at+") || !has("+at+".query) || "+declared+at+".query.endpoint && "+queryFits(at+".query")+")", probe+".query: "+queryNeeds)
		s.must("!has("+at+") || !has("+at+".proxy) || "+declared+at+".proxy.endpoint && e.protocol == 'TCP' && has(e.appProtocol))", probe+".proxy: must name an endpoint of `endpoints` of protocol TCP with an `appProtocol`")
	}
	s.must("!has(self.players) || !has(self.players.http) || "+declared+"self.players.http.endpoint && e.protocol == 'TCP')", "players.http: must name an endpoint of `endpoints` of protocol TCP")
	return s.must("!has(self.players) || !has(self.players.query) || "+declared+"self.players.query.endpoint && "+queryFits("self.players.query")+")", "players.query: "+queryNeeds)
}

const queryNeeds = "must name an endpoint of `endpoints`, of a protocol that the game is asked over"

// queryFits holds an endpoint e to what a query is spoken over.
func queryFits(at string) string {
	var only []string
	for _, protocol := range queryProtocols {
		if n := queryNetworks[protocol]; len(n) == 1 {
			only = append(only, "("+at+".protocol != '"+protocol+"' || e.protocol == '"+n[0]+"')")
		}
	}
	return strings.Join(only, " && ")
}
