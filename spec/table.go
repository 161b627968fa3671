package spec

// The rows of API.md. A row reads: name, type and bounds, then what differs from its level.

func profileSchema() *schema { return profileRules(profileFields()) }

func profileFields() *schema {
	restart := level{ClassRestart, SinceLoop}
	live := level{ClassLive, SinceLoop}
	limits := level{ClassLive, SinceSecurity}
	return object(
		level{ClassByUse, SinceLoop}.field("parameters", listOf(parameterSchema(level{ClassByUse, SinceLoop}), 0, 64).keyed("name")),
		restart.field("actions", actionsSchema(), required),
		restart.field("env", listOf(envRules(object(
			restart.field("name", text(1, 256, ruleEnvName), required),
			restart.field("value", text(0, 4096, ruleLines).expands().hidden().maySecret(secretsAlways)),
			restart.field("inherit", boolean(), def(false)),
		)), 0, 256).keyed("name")),
		restart.field("directory", object(
			restart.field("workspace", label(), def("data")),
			restart.field("path", text(1, 1024, ruleRelative).expands(), def("$(server.name)")),
		), wholly),
		restart.field("user", text(1, 32, ruleUser), defNote("the first of the host's users, else who runs us")),
		limits.field("limits", object(
			limits.field("memory", quantity(refsWhole)),
			limits.field("cpu", quantity(refsWhole)),
			limits.field("pids", integer(1, 4194304)),
			limits.field("openFiles", integer(64, 1048576), class(ClassRestart)),
		)),
		restart.field("capabilities", listOf(text(5, 64, ruleCapability), 0, 8).unique(), since(SinceSecurity)),
		consoleField(),
		live.field("endpoints", listOf(object(
			live.field("name", label(), required),
			live.field("port", numberOrRef(1, 65535), required),
			live.field("protocol", word(ProtocolTCP, ProtocolUDP), def(ProtocolTCP)),
			live.field("address", text(1, 256, ruleAddress).expands()),
			live.field("appProtocol", word(AppHTTP, AppSOCKS5, AppMixed)),
		), 0, 32).keyed("name")),
		live.field("readinessProbe", probeSchema(live)),
		live.field("livenessProbe", livenessRules(probeSchema(live))),
		live.field("startDeadlineSeconds", integer(1, 86400)),
		live.field("players", playersRules(object(
			live.field("query", querySchema(live)),
			live.field("http", httpSchema(live)),
			live.field("field", text(1, 256, ruleJSONPath)),
			live.field("periodSeconds", integer(1, 3600), def(15)),
		).oneOf(playersUnion...))),
		filesField(),
		live.field("restart", restartRules(restartSchema(live)), wholly),
		live.field("disruption", disruptionRules(disruptionSchema(live)), wholly),
		live.field("schedules", listOf(object(
			live.field("name", label(), required),
			live.field("schedule", text(1, 256, ruleCron), required),
			live.field("timeZone", text(1, 64, ruleTimeZone), def("UTC")),
			live.field("startingDeadlineSeconds", integer(1, 86400), def(300)),
			live.field("job", jobRules(object(
				live.field("type", word(string(JobRestart), string(JobCommand)).later(SinceReady, string(JobReload), string(JobCheck)), def("Command")),
				live.field("command", label()),
				live.field("parameters", argumentsSchema()),
			)), required),
		), 0, 16).keyed("name")),
		tunField(),
	)
}

func actionsSchema() *schema {
	restart := level{ClassRestart, SinceLoop}
	live := level{ClassLive, SinceLoop}
	start := object(
		restart.field("workspace", label(), def("usr")),
		restart.field("executable", text(1, 1024, ruleExecutable), required),
		restart.field("args", argsSchema()),
	)
	stepMembers := append(actionMembers(live),
		live.field("waitFor", word(string(WaitForExit), string(WaitForDone)), def(string(WaitForExit))),
		live.field("waitSeconds", integer(1, 86400), required),
	)
	reloadMembers := append(actionMembers(live),
		live.field("disruptive", boolean(), def(false)),
		live.field("timeoutSeconds", integer(1, 86400), def(defaultReloadSeconds)),
	)
	commandMembers := append([]*member{live.field("name", label(), required)}, actionMembers(live)...)
	commandMembers = append(commandMembers,
		live.field("parameters", listOf(parameterSchema(live), 0, 16).keyed("name")),
		live.field("requires", word(string(RequiresAny), string(RequiresRunning), string(RequiresStopped)), def(string(RequiresAny))),
		live.field("before", listOf(label(), 0, 8).inOrder()),
		live.field("after", listOf(label(), 0, 8).inOrder()),
		live.field("timeoutSeconds", integer(1, 86400), def(defaultCommandSeconds)),
	)
	return object(
		restart.field("start", start, required),
		live.field("stop", object(
			live.field("steps", listOf(object(stepMembers...).oneOf(actionUnion...), 1, 16).inOrder(), required),
		), def(rawJSON(`{"steps":[{"signal":{"name":"SIGTERM","to":"Main"},"waitFor":"Exit","waitSeconds":30}]}`))),
		live.field("reload", object(reloadMembers...).oneOf(actionUnion...), defNote("restart")),
		live.field("check", object(
			live.field("exec", execSchema(live), required),
			live.field("timeoutSeconds", integer(1, 3600), def(defaultCheckSeconds)),
		)),
		live.field("commands", listOf(commandRules(object(commandMembers...).oneOf(actionUnion...)), 0, 64).keyed("name")),
	)
}

var actionUnion = []string{"exec", "console", "http", "signal"}

// actionMembers is the union of Action.
func actionMembers(l level) []*member {
	return []*member{
		l.field("exec", execSchema(l)),
		l.field("console", object(
			l.field("line", text(1, 1024, ruleLine).expands().hidden(), required),
			l.field("expect", text(1, 256, ruleLine)),
		)),
		l.field("http", httpSchema(l)),
		l.field("signal", object(
			l.field("name", text(1, 16, ruleStopSignal), required),
			l.field("to", word(string(ToMain), string(ToTree)), def(string(ToMain))),
		)),
	}
}

func argsSchema() *schema {
	return listOf(text(0, 8192, ruleArgument).expands().hidden().maySecret(secretsIfAllowed), 0, 256).inOrder()
}

// execSchema is an Exec beside actions.start, from which it takes what it leaves out.
func execSchema(l level) *schema {
	return object(
		l.field("workspace", label(), defNote("that of `actions.start`")),
		l.field("executable", text(1, 1024, ruleExecutable), defNote("that of `actions.start`")),
		l.field("args", argsSchema()),
	)
}

func httpSchema(l level) *schema {
	return httpRules(object(
		l.field("endpoint", label(), required),
		l.field("scheme", word(SchemeHTTP, SchemeHTTPS), def(SchemeHTTP)),
		l.field("method", word("GET", "POST", "PUT", "PATCH", "DELETE"), def("GET")),
		l.field("path", text(1, 2048, ruleURLPath).expands(), def("/")),
		l.field("headers", listOf(object(
			l.field("name", text(1, 256, ruleHeaderName), required),
			l.field("value", text(0, 4096, ruleLine).expands().hidden().maySecret(secretsAlways), required),
		), 0, 16).keyed("name")),
		l.field("body", text(0, 8192, ruleLines).expands().hidden()),
		l.field("basicAuth", basicAuthSchema(l)),
	))
}

func basicAuthSchema(l level) *schema {
	return object(
		l.field("username", text(1, 256, ruleUsername), required),
		l.field("password", text(1, 4096, ruleLine).expands().hidden().maySecret(secretsAlways), required),
	)
}

// queryNetworks is what each protocol is spoken over; of two the endpoint's counts.
var queryNetworks = map[string][]string{
	"Minecraft": {ProtocolTCP}, "Bedrock": {ProtocolUDP}, "A2S": {ProtocolUDP}, "Quake3": {ProtocolUDP},
	"OpenTTD": {ProtocolTCP, ProtocolUDP}, "Mumble": {ProtocolUDP},
}

var queryProtocols = []string{"Minecraft", "Bedrock", "A2S", "Quake3", "OpenTTD", "Mumble"}

func querySchema(l level) *schema {
	return object(
		l.field("protocol", word(queryProtocols...), required),
		l.field("endpoint", label(), required),
	)
}

var playersUnion = []string{"query", "http"}

var probeUnion = []string{"exec", "http", "socket", "log", "query", "proxy", "notify"}

func probeSchema(l level) *schema {
	return object(
		l.field("exec", execSchema(l)),
		l.field("http", httpSchema(l)),
		l.field("socket", socketRules(object(
			l.field("endpoint", label(), required),
			l.field("send", text(1, 8192, ruleText)),
			l.field("expect", text(1, 8192, ruleText)),
			l.field("encoding", word("Text", "Hex"), def("Text")),
		))),
		l.field("log", object(
			l.field("contains", listOf(text(1, 1024, ruleLine), 1, 8).unique(), required),
		)),
		l.field("query", querySchema(l)),
		l.field("proxy", object(
			l.field("endpoint", label(), required),
			l.field("url", text(1, 2048, ruleURL)),
			l.field("basicAuth", basicAuthSchema(l)),
		)),
		l.field("notify", object()),
		l.field("periodSeconds", integer(1, 3600), def(10)),
		l.field("timeoutSeconds", integer(1, 300), def(1)),
		l.field("failureThreshold", integer(1, 1000), def(3)),
		l.field("successThreshold", integer(1, 1000), def(1)),
	).oneOf(probeUnion...)
}

func parameterSchema(l level) *schema {
	return parameterRules(object(
		l.field("name", text(1, 63, ruleParameter), required),
		l.field("type", word(ParameterString, ParameterInteger, ParameterSecret), def(ParameterString)),
		l.field("default", valueSchema()),
		l.field("defaultFrom", object(
			l.field("parameter", text(1, 63, ruleParameter), required),
			l.field("add", integer(-65535, 65535), def(0)),
		)),
		l.field("enum", listOf(text(0, 4096, ruleLine), 0, 64).unique()),
		l.field("minimum", integer(minInt64, maxInt64)),
		l.field("maximum", integer(minInt64, maxInt64)),
		l.field("pattern", text(1, 1024, rulePattern)),
		l.field("maxLength", integer(1, 4096), defNote("256 for a String")),
		l.field("inArgs", boolean(), def(false)),
		l.field("description", text(0, 1024, ruleLines), class(ClassInert)),
	))
}

// valueSchema is the value of a parameter, bounded further by the parameter.
func valueSchema() *schema {
	return &schema{form: formIntOrString, min: minInt64, max: maxInt64, rule: ruleLine, private: true}
}

// argumentsSchema is the values of parameters by their names.
func argumentsSchema() *schema { return dictOf(valueSchema(), ruleParameter, 64) }

func consoleField() *member {
	live := level{ClassLive, SinceLoop}
	return live.field("console", consoleRules(object(
		live.field("input", word(ConsoleNone, ConsoleStdin, ConsoleFIFO, ConsoleRCON, ConsoleQuakeRCON, ConsoleWebRCON, ConsoleTelnet, ConsoleMailbox), def(ConsoleNone)),
		live.field("endpoint", label()),
		live.field("path", text(1, 1024, ruleRelative)),
		live.field("password", text(1, 128, ruleReference).expands().hidden().maySecret(secretsAlways)),
		live.field("tty", object(
			live.field("rows", integer(1, 1000), def(24), class(ClassRestart)),
			live.field("columns", integer(1, 1000), def(80), class(ClassRestart)),
		), class(ClassRestart)),
	)))
}

func filesField() *member {
	l := level{ClassRestart, SinceLoop}
	return l.field("files", listOf(fileRules(object(
		l.field("path", text(1, 1024, ruleExecutable), required),
		l.field("workspace", label(), defNote("the directory")),
		l.field("content", text(0, 256<<10, ruleContent).expands().hidden().maySecret(secretsAlways), class(ClassReload)),
		l.field("write", word(WriteEachStart, WriteIfMissing), defNote("EachStart, with `content`"), class(ClassInert)),
		l.field("onChange", word(ChangeApply, ChangeIgnore), def(ChangeApply), class(ClassLive)),
	)), 0, 32).keyed("path"))
}

func restartSchema(l level) *schema {
	return object(
		l.field("policy", word(RestartAlways, RestartOnFailure, RestartNever), def(RestartAlways)),
		l.field("initialSeconds", integer(0, 3600), def(1)),
		l.field("maxSeconds", integer(0, 86400), def(300)),
		l.field("resetSeconds", integer(1, 86400), def(600)),
		l.field("exits", listOf(object(
			l.field("codes", listOf(integer(0, 255), 1, 256).unique()),
			l.field("signals", listOf(text(1, 16, ruleSignal), 1, 64).unique()),
			l.field("action", word(string(ExitBackoff), string(ExitRestart), string(ExitComplete), string(ExitFail)), required),
		).oneOf(exitUnion...), 0, 16).inOrder()),
	)
}

var exitUnion = []string{"codes", "signals"}

func disruptionSchema(l level) *schema {
	return object(
		l.field("maxPlayers", integer(0, 100000), defNote("0, with `players`")),
		l.field("maxUnavailable", integer(0, 10000), def(1)),
		l.field("windows", listOf(object(
			l.field("schedule", text(1, 256, ruleCron), required),
			l.field("timeZone", text(1, 64, ruleTimeZone), def("UTC")),
			l.field("durationSeconds", integer(60, 604800), required),
		), 0, 16)),
		l.field("announce", listOf(object(
			l.field("beforeSeconds", integer(1, 86400), required),
			l.field("command", label(), required),
			l.field("parameters", argumentsSchema()),
		), 0, 8)),
		l.field("deadlineSeconds", integer(60, 2592000)),
		l.field("onDeadline", word(DeadlineHold, DeadlineForce), defNote("Hold, with `deadlineSeconds`")),
	)
}

func tunField() *member {
	l := level{ClassRestart, SinceReady}
	return l.field("tun", tunRules(object(
		l.field("provider", word("Tun2socks", "Core"), required),
		l.field("endpoint", label()),
		l.field("remote", listOf(text(1, 253, ruleHostName).expands(), 1, 16).unique(), required),
		l.field("device", text(1, 15, ruleDevice), required),
		l.field("addresses", listOf(text(1, 64, ruleCIDR), 1, 16).unique(), required),
		l.field("routes", listOf(text(1, 64, ruleCIDR), 0, 256).unique()),
	)))
}

func serverSchema() *schema {
	restart := level{ClassRestart, SinceLoop}
	live := level{ClassLive, SinceLoop}
	return object(
		restart.field("profile", label(), required),
		live.field("state", word(WishRunning, WishStopped), def(WishRunning)),
		level{ClassByUse, SinceLoop}.field("parameters", argumentsSchema()),
		live.field("dependsOn", listOf(dependencyRules(object(
			live.field("kind", word(KindServer, KindJob), def(KindServer)),
			live.field("name", label(), required),
			live.field("condition", word(DependReady, DependRunning, DependSucceeded), defNote("Ready; of a Job: Succeeded")),
		)), 0, 32).keyed("kind", "name")),
	)
}

func jobSchema() *schema {
	l := level{ClassInert, SinceLoop}
	return jobRules(object(
		l.field("server", label(), required),
		l.field("type", word(string(JobRestart), string(JobCommand), string(JobStart), string(JobStop)).
			later(SinceReady, string(JobReload), string(JobCheck)), def(string(JobCommand))),
		l.field("command", label()),
		l.field("parameters", argumentsSchema()),
		l.field("profile", label(), defNote("any")),
		l.field("deadlineSeconds", integer(1, 604800), def(3600)),
		l.field("attempt", integer(1, 1000), def(1), class(ClassLive)),
		l.field("cancel", boolean(), def(false), class(ClassLive)),
	)).must("!(self.type in ['Start', 'Stop'])", "type: must not be in a source: set `spec.state` of the Server")
}

func hostSchema() *schema {
	restart := level{ClassRestart, SinceLoop}
	live := level{ClassLive, SinceLoop}
	inert := level{ClassInert, SinceLoop}
	secure := level{ClassInert, SinceSecurity}
	tun := level{ClassRestart, SinceReady}
	return object(
		restart.field("workspaces", listOf(object(
			restart.field("name", label(), required),
			restart.field("path", text(1, 1024, ruleAbsolute), required),
			restart.field("writable", boolean(), def(false)),
			restart.field("executables", listOf(text(1, 1024, ruleGlob), 0, 64).unique(), defNote(`["**"]`)),
		), 0, 32).keyed("name"), defNote("usr=/usr, data=STATE/data")),
		secure.field("users", listOf(text(1, 32, ruleUser), 1, 64).unique().inOrder()),
		level{ClassByUse, SinceLoop}.field("secretsDirectory", text(1, 1024, ruleAbsolute), defNote("STATE/secrets")),
		inert.field("inheritEnv", listOf(text(1, 256, ruleEnvName), 0, 256).unique()),
		secure.field("capabilities", listOf(text(5, 64, ruleCapability), 0, 64).unique()),
		live.field("sources", listOf(object(
			live.field("name", label(), required),
			live.field("path", text(1, 1024, ruleAbsolute), required),
			live.field("trust", word("Full").later(SinceSecurity, "ParametersOnly"), def("Full")),
		), 0, 16).keyed("name")),
		live.field("logs", object(
			live.field("perServer", quantity(refsNone), def("64Mi")),
			live.field("total", quantity(refsNone), def("2Gi")),
		), wholly),
		live.field("startConcurrency", integer(0, 10000), def(0)),
		live.field("restartsPerMinute", integer(0, 10000), def(0)),
		tun.field("tunEngine", object(
			tun.field("workspace", label(), def("usr")),
			tun.field("executable", text(1, 1024, ruleExecutable), required),
			tun.field("args", argsSchema()),
		)),
	)
}
