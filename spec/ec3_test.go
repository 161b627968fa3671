package spec

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// EC-3: everything is refused before a process exists. The cases are not written down; they are made by walking the
// table: every field with every kind of fault that its form can have. A rule without a sample fails the test.

// samples has a good and some bad values for every rule.
var samples = map[*rule]struct {
	good string
	bad  []string
}{
	ruleLabel:      {"a", []string{"A", "-a", "a.b", "a/b", "ä"}},
	ruleLabelKey:   {"a", []string{"a b", "/a", "A/b/c"}},
	ruleLabelValue: {"a", []string{"a b", "-a"}},
	ruleText:       {"a", []string{"a\x00b"}},
	ruleContent:    {"a", []string{"a\x00b"}},
	ruleLine:       {"a", []string{"a\x00b", "a\nb", "a\x1bb", "a\x7f"}},
	ruleArgument:   {"a", []string{"a\x00b", "a\nb", "a\x1bb", "a\x7f"}},
	ruleLines:      {"a", []string{"a\x00b", "a\x1bb", "a\x7f"}},
	ruleRelative:   {"a", []string{"/a", "..", "a/../b", "a\x00", "a\nb"}},
	ruleExecutable: {"a", []string{"/a", "a/../b", ".", "a/", "a/.", "a\x00"}},
	ruleAbsolute:   {"/a", []string{"a", "/a/../b", "/a\x00"}},
	ruleGlob:       {"a", []string{"/a", "..", "[a"}},
	ruleEnvName:    {"A", []string{"1A", "A=B", "A B", "A\x00"}},
	ruleUser:       {"a", []string{"A", "0", "a b"}},
	ruleCapability: {"CAP_A", []string{"CAP-A", "cap_net", "CAP_9X"}},
	ruleAddress:    {"::1", []string{"localhost", "1.2.3", "::1%lo", "127.0.0.1:80"}},
	ruleParameter:  {"a", []string{"A", "a-b", "1", "a.b"}},
	rulePattern:    {"a", []string{"[", "(?<=a)b", "a\x00"}},
	ruleReference:  {"$(a)", []string{"secret", "$(a)b", "$(A)"}},
	ruleSignal:     {"SIGHUP", []string{"HUP", "SIGNOPE", "sighup", "1x"}},
	ruleStopSignal: {"SIGHUP", []string{"HUP", "SIGNOPE", "SIGKILL", "SIGSTOP"}},
	ruleJSONPath:   {"a", []string{".a", "a..b", "a b"}},
	ruleURLPath:    {"/", []string{"a", "/a\nb", "/a b", "/a#b", "/ä"}},
	ruleURL:        {"http://a/", []string{"ftp://a/", "a", "http:///x"}},
	ruleHeaderName: {"A", []string{"a b", "a:", "Content-length"}},
	ruleUsername:   {"a", []string{"a:b", "a\nb", "a\x7f"}},
	ruleHostName:   {"a", []string{"-a", "a b"}},
	ruleDevice:     {"a", []string{".a", "a/b"}},
	ruleCIDR:       {"10.0.0.0/8", []string{"10.0.0.0", "10.0.0.0/33", "a/8"}},
	ruleCron:       {"0 4 * * *", []string{"0 4 * *", "every day", "@daily"}},
	ruleTimeZone:   {"UTC", []string{"Europe/", "a b"}},
}

// raw is a value of a manifest, as the text that stands in the file.
type raw = string

// quotedYAML escapes what JSON may leave and YAML may not: DEL.
func quotedYAML(s string) raw { return strings.ReplaceAll(string(quoteJSON(s)), "\x7f", `\u007f`) }

// goodValue is a smallest good value of a row.
func goodValue(t *testing.T, s *schema) raw {
	switch s.form {
	case formObject:
		return objectValue(t, s, "", "")
	case formList:
		items := make([]string, s.minItems)
		for i := range items {
			items[i] = goodValue(t, s.item)
		}
		return "[" + strings.Join(items, ", ") + "]"
	case formDict:
		return "{}"
	case formInteger, formIntOrString:
		return fmt.Sprint(max(s.min, 1))
	case formBoolean:
		return "false"
	case formQuantity:
		return quotedYAML("1Gi")
	}
	if len(s.enum) > 0 {
		return quotedYAML(s.enum[0].value)
	}
	sample, ok := samples[s.rule]
	if !ok {
		t.Fatalf("a rule has no sample: add one")
	}
	return quotedYAML(sample.good)
}

// objectValue is a smallest good object, but for one member that is given.
func objectValue(t *testing.T, s *schema, name string, value raw) raw {
	var parts []string
	union := slices.Contains(s.union, name)
	for _, m := range s.members {
		switch {
		case m.name == name:
			parts = append(parts, name+": "+value)
		case m.required:
			parts = append(parts, m.name+": "+goodValue(t, m.schema))
		case len(s.union) > 0 && !union && m.name == goodMember(s):
			parts = append(parts, m.name+": "+goodValue(t, m.schema))
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// goodMember is the member of a union that makes a good object.
func goodMember(s *schema) string {
	if slices.Contains(s.union, "signal") {
		return "signal"
	}
	if slices.Contains(s.union, "log") {
		return "log"
	}
	return s.union[0]
}

// ec3Case is one field with one fault.
type ec3Case struct {
	kind  string
	row   string // spec.env[].name
	field string // spec.env[0].name: where the fault must be
	fault string
	file  string
	since Since
}

// ec3Cases walks the table.
func ec3Cases(t *testing.T) []ec3Case {
	var cases []ec3Case
	for _, kind := range []string{KindProfile, KindServer, KindJob, KindHost} {
		root := kinds()[kind]
		// wrap puts a value in its place in a whole manifest.
		var visit func(s *schema, row, field string, since Since, wrap func(raw) raw)
		visit = func(s *schema, row, field string, since Since, wrap func(raw) raw) {
			for _, m := range s.members {
				in := row + m.name
				at := field + m.name
				since := max(since, m.since)
				put := func(v raw) raw { return wrap(objectValue(t, s, m.name, v)) }
				before := len(cases)
				for _, f := range faultsOf(t, m) {
					cases = append(cases, ec3Case{kind: kind, row: in, field: at + f.below, fault: f.name, since: since, file: put(f.value)})
				}
				if m.required {
					cases = append(cases, ec3Case{kind: kind, row: in, field: at, fault: "null", since: since, file: put("null")})
				}
				if len(cases) == before {
					t.Errorf("%s: %s has no case", kind, in)
				}
				switch m.form {
				case formObject:
					visit(m.schema, in+".", at+".", since, put)
				case formList:
					if m.item.form == formObject {
						visit(m.item, in+"[].", at+"[0].", since, func(v raw) raw { return put("[" + v + "]") })
					}
				}
			}
		}
		visit(root, "", "", SinceLoop, func(v raw) raw {
			return "{apiVersion: " + APIVersion + ", kind: " + kind + ", " + v[1:] + "\n"
		})
	}
	return cases
}

// faultOf is a bad value, and where below the field its fault is.
type faultOf struct{ name, below, value string }

// faultsOf lists the faults that a row can have.
func faultsOf(t *testing.T, m *member) []faultOf {
	s := m.schema
	var faults []faultOf
	add := func(name string, value raw) { faults = append(faults, faultOf{name: name, value: value}) }
	switch s.form {
	case formObject:
		add("a list", "[]")
		add("a word", "word")
		faults = append(faults, faultOf{"an unknown key", ".nonesuch", objectValue(t, s, "", "")[:1] + "nonesuch: 1}"})
		if len(s.union) > 0 {
			add("no member of the union", "{}")
			two := []string{}
			for _, name := range s.union[:2] {
				two = append(two, name+": "+goodValue(t, s.member(name).schema))
			}
			add("two members of the union", "{"+strings.Join(two, ", ")+"}")
		}
	case formList:
		add("an object", "{}")
		add("a word", "word")
		faults = append(faults, faultOf{"an item that is null", "[0]", "[null]"})
		add("too many", "["+strings.Repeat("x, ", s.maxItems+1)+"]")
		if s.minItems > 0 {
			add("too few", "[]")
		}
		if s.set {
			good := goodValue(t, s.item)
			faults = append(faults, faultOf{"an item twice", "[1]", "[" + good + ", " + good + "]"})
		}
		if len(s.key) > 0 {
			item := objectValue(t, s.item, "", "")
			faults = append(faults, faultOf{"a key twice", "[1]." + s.key[len(s.key)-1], "[" + item + ", " + item + "]"})
		}
		if s.item.form != formObject {
			for _, f := range scalarFaults(t, s.item) {
				faults = append(faults, faultOf{"an item: " + f.name, "[0]", "[" + f.value + "]"})
			}
		}
	case formDict:
		add("a list", "[]")
		for _, bad := range samples[s.keyRule].bad {
			faults = append(faults, faultOf{"a bad key", "[" + bad + "]", "{" + quotedYAML(bad) + ": a}"})
		}
		var many []string
		for i := range s.maxItems + 1 {
			many = append(many, fmt.Sprintf("a%d: a", i))
		}
		add("too many", "{"+strings.Join(many, ", ")+"}")
		for _, f := range scalarFaults(t, s.item) {
			faults = append(faults, faultOf{"a value: " + f.name, "[a]", "{a: " + f.value + "}"})
		}
	default:
		faults = scalarFaults(t, s)
	}
	return faults
}

func scalarFaults(t *testing.T, s *schema) []faultOf {
	var faults []faultOf
	add := func(name string, value raw) { faults = append(faults, faultOf{name: name, value: value}) }
	add("a list", "[a]")
	add("an object", "{a: b}")
	add("a boolean", map[bool]string{true: "1", false: "true"}[s.form == formBoolean])
	add("not a number", ".nan")
	add("infinite", ".inf")
	add("beyond every bound", "1e999")
	add("a fraction", "1.5")
	add("another notation", "0755")
	add("a tag", "!!binary aGk=")
	switch s.form {
	case formBoolean:
		add("YAML 1.1", "yes")
		add("a string", `"true"`)
	case formInteger:
		add("a word", "word")
		add("a number in quotes", `"1"`)
		add("an exponent", "1e1")
		if s.min > minInt64 {
			add("below its bound", fmt.Sprint(s.min-1))
		}
		if s.max < maxInt64 {
			add("above its bound", fmt.Sprint(s.max+1))
		}
		add("more than 64 bits", "99999999999999999999")
	case formIntOrString, formQuantity:
		add("YAML 1.1", "yes")
		if s.refs == refsWhole {
			add("a word", "word")
			add("more than a reference", "$(a)1")
		}
		if s.form == formQuantity {
			add("negative", "-1")
			add("zero", `"0"`)
			add("no quantity", "1XB")
		} else if s.min > minInt64 {
			add("below its bound", fmt.Sprint(s.min-1))
			add("above its bound", fmt.Sprint(s.max+1))
		} else {
			add("too long", quotedYAML(strings.Repeat("a", 4097)))
			add("NUL", `"\0"`)
		}
	case formText:
		add("YAML 1.1", "yes")
		add("a number", "1")
		add("a time", "22:22")
		if len(s.enum) > 0 {
			add("no value of the list", "Nonesuch")
			return faults
		}
		add("too long", quotedYAML(longText(s)))
		if s.min > 0 {
			add("empty", `""`)
		}
		if len(samples[s.rule].bad) == 0 {
			t.Errorf("a rule has no bad sample: add one")
		}
		for _, bad := range samples[s.rule].bad {
			add("a bad value", quotedYAML(bad))
		}
		if s.refs == refsInside && s.rule != ruleReference {
			add("an unknown reference", quotedYAML("$(nonesuch)"))
			add("an open reference", quotedYAML("$(nonesuch"))
		}
	}
	return faults
}

func longText(s *schema) string { return strings.Repeat("a", int(s.max)+1) }

func decodeCase(c ec3Case, upTo Since) []Fault {
	if c.kind == KindHost {
		_, faults := decodeHost("f.yaml", []byte(c.file), upTo)
		return faults
	}
	return decodeFile("f.yaml", []byte(c.file), upTo).Faults
}

// Every field with every fault is refused at its own place, with the message that the golden file has.
func TestEveryFieldWithEveryFault(t *testing.T) {
	var b strings.Builder
	cases := ec3Cases(t)
	for _, c := range cases {
		var lines []string
		for _, f := range decodeCase(c, SinceSecurity) {
			if f.Field == c.field || c.field == strings.ReplaceAll(c.field, "\x00", "") && f.Field == showPath(c.field) {
				f.Line, f.Column = 0, 0
				f.File = ""
				lines = append(lines, f.Error())
			}
		}
		if len(lines) == 0 {
			t.Errorf("%s %s with %s: no fault at %s; the faults are:\n%sof\n%s", c.kind, c.row, c.fault, c.field,
				faultLines(decodeCase(c, SinceSecurity)), shorten(c.file))
			continue
		}
		if c.since > available {
			continue // its messages are pinned when it can be used
		}
		for _, line := range lines {
			fmt.Fprintf(&b, "%s with %s: %s\n", c.kind, c.fault, line)
		}
	}
	if len(cases) < 3000 {
		t.Errorf("only %d cases: the walk is broken", len(cases))
	}
	golden(t, filepath.Join("testdata", "ec3.txt"), b.String())
}

// showPath is a path whose key is shown with its control characters escaped.
func showPath(field string) string {
	open := strings.IndexByte(field, '[')
	if open < 0 || !strings.HasSuffix(field, "]") {
		return field
	}
	return field[:open+1] + shorten(field[open+1:len(field)-1]) + "]"
}

// A field of a later version is refused by its name, whatever it holds, also when it holds nothing wrong.
func TestEveryLaterFieldIsRefused(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range ec3Cases(t) {
		if c.since <= available || c.kind == KindJob || c.fault == "null" {
			continue
		}
		refused := false
		for _, f := range decodeCase(c, available) {
			refused = refused || strings.HasSuffix(f.Detail, notAvailable) && strings.HasPrefix(c.field, f.Field)
		}
		if !refused {
			t.Errorf("%s %s with %s is not refused by name", c.kind, c.row, c.fault)
		}
		seen[c.kind+c.row] = true
	}
	if len(seen) < 10 {
		t.Errorf("only %d fields are of a later version: the walk is broken", len(seen))
	}
}
