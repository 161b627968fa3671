package api

import (
	"fmt"
	"slices"
	"strings"
)

// selector is a parsed label selector: every requirement must hold. The zero value selects all.
type selector []requirement

// requirement is one part of a selector, in Kubernetes' grammar: key, !key, key=value, key!=value, key in (a,b), key
// notin (a,b).
type requirement struct {
	key    string
	op     string // exists, !, in, notin
	values []string
}

func (s selector) matches(labels map[string]string) bool {
	for _, r := range s {
		if !r.matches(labels) {
			return false
		}
	}
	return true
}

func (r requirement) matches(labels map[string]string) bool {
	value, has := labels[r.key]
	switch r.op {
	case "exists":
		return has
	case "!":
		return !has
	case "in":
		return has && slices.Contains(r.values, value)
	}
	return !has || !slices.Contains(r.values, value) // as in Kubernetes, a label that is absent is in no set
}

// parseSelector reads a selector. The empty one selects all.
func parseSelector(text string) (selector, error) {
	var out selector
	for _, part := range splitRequirements(text) {
		part = strings.TrimSpace(part)
		if part == "" && strings.TrimSpace(text) == "" {
			return nil, nil
		}
		r, err := parseRequirement(part)
		if err != nil {
			return nil, fmt.Errorf("cannot parse the selector %q: %w", text, err)
		}
		out = append(out, r)
	}
	return out, nil
}

// splitRequirements splits at the commas outside of parentheses.
func splitRequirements(text string) []string {
	var parts []string
	depth, start := 0, 0
	for i, c := range text {
		switch {
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == ',' && depth == 0:
			parts = append(parts, text[start:i])
			start = i + 1
		}
	}
	return append(parts, text[start:])
}

func parseRequirement(part string) (requirement, error) {
	if key, ok := strings.CutPrefix(part, "!"); ok {
		return checked(requirement{key: strings.TrimSpace(key), op: "!"})
	}
	if set, ok := strings.CutSuffix(part, ")"); ok {
		return parseSet(set, part)
	}
	for _, op := range []struct{ text, name string }{{"!=", "notin"}, {"==", "in"}, {"=", "in"}} {
		if key, value, ok := strings.Cut(part, op.text); ok {
			return checked(requirement{key: strings.TrimSpace(key), op: op.name, values: []string{strings.TrimSpace(value)}})
		}
	}
	return checked(requirement{key: part, op: "exists"})
}

// parseSet reads `key in (a, b)` without its last parenthesis.
func parseSet(set, part string) (requirement, error) {
	head, list, ok := strings.Cut(set, "(")
	fields := strings.Fields(head)
	if !ok || len(fields) != 2 || fields[1] != "in" && fields[1] != "notin" {
		return requirement{}, fmt.Errorf("%q is not 'key in (a,b)' or 'key notin (a,b)'", part)
	}
	r := requirement{key: fields[0], op: fields[1]}
	for _, v := range strings.Split(list, ",") {
		r.values = append(r.values, strings.TrimSpace(v))
	}
	return checked(r)
}

// checked refuses what cannot be a label, so that a typing error does not select everything or nothing.
func checked(r requirement) (requirement, error) {
	if r.key == "" || strings.ContainsAny(r.key, " \t\r\n!=(),") {
		return requirement{}, fmt.Errorf("%q is no label key", r.key)
	}
	for _, v := range r.values {
		if len(v) > 63 || strings.ContainsAny(v, " \t\r\n!=(),/") {
			return requirement{}, fmt.Errorf("%q is no label value", v)
		}
	}
	return r, nil
}
