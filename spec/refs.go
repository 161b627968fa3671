package spec

import "strings"

// The references that are not parameters.
const (
	refServerName      = "server.name"
	refServerNamespace = "server.namespace"
	refServerDirectory = "server.directory"
	refWorkspace       = "workspace." // and a workspace's name
)

const literalHint = "write '$$(' for a literal '$('"

// references cuts a text at its references (API.md rule 4). It calls literal for what stands between, with `$$(`
// already turned into `$(`, and name for what stands in `$(...)`. It reports what is wrong, or "".
func references(s string, literal func(string), name func(string)) string {
	for {
		i := strings.Index(s, "$(")
		if i < 0 {
			literal(s)
			return ""
		}
		if i > 0 && s[i-1] == '$' {
			literal(s[:i-1])
			literal("$(")
			s = s[i+2:]
			continue
		}
		literal(s[:i])
		end := strings.IndexByte(s[i:], ')')
		if end < 0 {
			return "must close every '$(' with ')': " + literalHint
		}
		name(s[i+2 : i+end])
		s = s[i+end+1:]
	}
}

// wholeReference is the name in a text that is exactly one reference.
func wholeReference(s string) (string, bool) {
	inner, ok := strings.CutPrefix(s, "$(")
	if !ok {
		return "", false
	}
	inner, ok = strings.CutSuffix(inner, ")")
	return inner, ok && !strings.ContainsAny(inner, "()$")
}

// hasReference reports whether a text can only be judged when it is expanded.
func hasReference(s string) bool { return strings.Contains(s, "$(") }

// isBuiltin reports whether name is a reference that every profile may use. A workspace's name is known to the host alone.
func isBuiltin(name string) bool {
	switch name {
	case refServerName, refServerNamespace, refServerDirectory:
		return true
	}
	workspace, ok := strings.CutPrefix(name, refWorkspace)
	return ok && IsLabel(workspace)
}

// showName is a reference's name as a fault may show it: an argument's other text must not slip out.
func showName(name string) string {
	if name == "" {
		return "'$()'"
	}
	if len(name) > 63 || !all(name, func(c byte) bool { return isAlnum(c) || c == '.' || c == '-' || c == '_' }) {
		return "a '$(...)' of this value"
	}
	return "'$(" + name + ")'"
}
