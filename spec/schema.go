package spec

import (
	"reflect"
	"slices"
	"sync"
)

// Class says what a change of a field needs (API.md rule 6).
type Class string

// The classes, strongest first. ByUse is that of the strongest place that uses the parameter.
const (
	ClassRestart Class = "restart" // a new run
	ClassReload  Class = "reload"  // check and reload, or a new run
	ClassLive    Class = "live"    // applies to the run that is there
	ClassInert   Class = "inert"   // nothing
	ClassByUse   Class = "by use"
)

// Since is the part of the product in which a field begins to work. A field of a later one is refused by name.
type Since uint8

// The parts, in the order in which they are built.
const (
	SinceLoop     Since = iota + 1 // the loop
	SinceActions                   // typed actions
	SinceReady                     // readiness
	SinceSecurity                  // users, limits and trust
)

// String is the name by which the field reference calls the part: 1, 2, 4 and, last of all, 3*.
func (s Since) String() string {
	return [...]string{"0", "1", "2", "4", "3*"}[min(s, SinceSecurity)]
}

// available is what this version can do.
const available = SinceLoop

// form is the shape of a value.
type form uint8

const (
	formObject form = iota
	formList
	formDict // string keys, equal values
	formText
	formInteger
	formBoolean
	formIntOrString
	formQuantity
)

// schema is one node of the field tree: the one table that decoding, validation, the launch's validation, the CRDs,
// the list of classes and the walked tests all read.
type schema struct {
	form
	members []*member // object
	union   []string  // object: exactly one of these members is set

	item               *schema  // list and dict
	key                []string // list of objects: the members that tell items apart
	set                bool     // list of scalars: no value twice
	ordered            bool     // list: order counts
	minItems, maxItems int      // list and dict
	keyRule            *rule    // dict: of its keys

	min, max int64    // integer, intOrString: the value; text: its length in bytes
	enum     []choice // text
	rule     *rule    // text
	refs     refs     // where $(name) is expanded
	secrets  secrets  // whether a Secret may be referred to
	private  bool     // the value is shown in no fault
	cel      []celRule
}

// refs says how a value may refer to parameters.
type refs uint8

const (
	refsNone   refs = iota
	refsInside      // any number, anywhere in a text
	refsWhole       // the text is exactly one reference
)

// secrets says whether a text may refer to a parameter of type Secret.
type secrets uint8

const (
	secretsNever     secrets = iota
	secretsIfAllowed         // with inArgs
	secretsAlways
)

// choice is a value of an enumeration.
type choice struct {
	value string
	since Since
}

// member is one field of an object.
type member struct {
	name string
	*schema
	class    Class
	since    Since
	required bool
	def      any    // string, int64, bool or rawJSON; nil = none
	whole    bool   // an object whose absence means all of its defaults
	defNote  string // a default that is no constant, in words
	index    []int  // of the Go field, once bound
	doc      string // what it is for, once bound
}

// member finds a field by its name.
func (s *schema) member(name string) *member {
	for _, m := range s.members {
		if m.name == name {
			return m
		}
	}
	return nil
}

// level is what fields have in common unless they say otherwise.
type level struct {
	class Class
	since Since
}

// option refines a field.
type option func(*member)

func required(m *member) { m.required = true }

func def(v any) option {
	if n, ok := v.(int); ok {
		v = int64(n)
	}
	return func(m *member) { m.def = v }
}

// wholly marks an object that stands for all of its defaults when it is absent.
func wholly(m *member) { m.whole = true }

func defNote(words string) option { return func(m *member) { m.defNote = words } }

func class(c Class) option { return func(m *member) { m.class = c } }

func since(s Since) option { return func(m *member) { m.since = max(m.since, s) } }

// field is a member of the level's class and since.
func (l level) field(name string, s *schema, options ...option) *member {
	m := &member{name: name, schema: s, class: l.class, since: l.since}
	for _, o := range options {
		o(m)
	}
	return m
}

func object(members ...*member) *schema { return &schema{form: formObject, members: members} }

// oneOf makes the object a union of the named members.
func (s *schema) oneOf(members ...string) *schema { s.union = members; return s }

func listOf(item *schema, minItems, maxItems int) *schema {
	return &schema{form: formList, item: item, minItems: minItems, maxItems: maxItems}
}

func (s *schema) keyed(by ...string) *schema { s.key = by; return s }
func (s *schema) inOrder() *schema           { s.ordered = true; return s }
func (s *schema) unique() *schema            { s.set = true; return s }

func dictOf(item *schema, keys *rule, maxItems int) *schema {
	return &schema{form: formDict, item: item, keyRule: keys, maxItems: maxItems}
}

// text is a string of minBytes to maxBytes that follows a rule.
func text(minBytes, maxBytes int64, r *rule) *schema {
	return &schema{form: formText, min: minBytes, max: maxBytes, rule: r}
}

func (s *schema) expands() *schema            { s.refs = refsInside; return s }
func (s *schema) maySecret(m secrets) *schema { s.secrets = m; return s }

func (s *schema) hidden() *schema { s.private = true; return s }

// label is a DNS label.
func label() *schema { return text(1, 63, ruleLabel) }

// word is an enumeration whose values are all as old as the field.
func word(values ...string) *schema {
	s := &schema{form: formText}
	for _, v := range values {
		s.enum = append(s.enum, choice{value: v})
	}
	return s
}

// later adds values that come with a later part.
func (s *schema) later(since Since, values ...string) *schema {
	for _, v := range values {
		s.enum = append(s.enum, choice{value: v, since: since})
	}
	return s
}

func integer(minimum, maximum int64) *schema {
	return &schema{form: formInteger, min: minimum, max: maximum}
}

func boolean() *schema { return &schema{form: formBoolean} }

func quantity(r refs) *schema { return &schema{form: formQuantity, refs: r, min: 1, max: 64} }

// numberOrRef is an integer or exactly one reference to one.
func numberOrRef(minimum, maximum int64) *schema {
	return &schema{form: formIntOrString, min: minimum, max: maximum, refs: refsWhole}
}

// kinds is the table: the schema of each kind, bound to its Go type. It is built when it is first used, so that a
// program that decodes nothing pays nothing.
var kinds = sync.OnceValue(func() map[string]*schema {
	m := map[string]*schema{
		KindProfile: kindSchema(profileSchema()),
		KindServer:  kindSchema(serverSchema()),
		KindJob:     kindSchema(jobSchema()),
		KindHost:    kindSchema(hostSchema()),
	}
	m[KindProfile].bind(reflect.TypeFor[Profile]())
	m[KindServer].bind(reflect.TypeFor[Server]())
	m[KindJob].bind(reflect.TypeFor[Job]())
	m[KindHost].bind(reflect.TypeFor[Host]())
	return m
})

// The kinds and their version.
const (
	APIVersion  = "reconciler.dev/v1alpha1"
	KindProfile = "Profile"
	KindServer  = "Server"
	KindJob     = "Job"
	KindHost    = "Host"
)

func kindSchema(body *schema) *schema {
	inert := level{ClassInert, SinceLoop}
	scope := level{ClassRestart, SinceLoop}
	return object(
		inert.field("metadata", object(
			scope.field("name", label(), required),
			scope.field("namespace", label(), def(DefaultNamespace)),
			inert.field("labels", dictOf(text(0, 63, ruleLabelValue), ruleLabelKey, 256)),
			inert.field("annotations", dictOf(text(0, 256<<10, ruleText), ruleLabelKey, 256)),
		), required),
		inert.field("spec", body, required),
	)
}

// bind finds the Go field of every member. A member without a field, or a field without a member, is a mistake in
// this package that its tests meet first.
func (s *schema) bind(t reflect.Type) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch s.form {
	case formList, formDict:
		s.item.bind(t.Elem())
	case formObject:
		fields := map[string]goField{}
		jsonFields(t, nil, fields)
		for _, m := range s.members {
			f, ok := fields[m.name]
			if !ok {
				panic("spec: " + t.Name() + " has no field for " + m.name)
			}
			delete(fields, m.name)
			m.index = f.Index
			m.doc = descriptions[f.in+"."+m.name]
			m.bind(f.Type)
		}
		for name := range fields {
			panic("spec: the table has no row for " + t.Name() + "." + name)
		}
	}
}

// goField is a field of a Go type and the name of the type that declares it.
type goField struct {
	reflect.StructField
	in string
}

// jsonFields finds the fields of a Go type by their keys in a manifest; what is embedded without a key lies in line.
func jsonFields(t reflect.Type, index []int, into map[string]goField) {
	for i := range t.NumField() {
		f := t.Field(i)
		f.Index = append(slices.Clone(index), i)
		switch name := jsonName(f); {
		case name != "":
			into[name] = goField{f, t.Name()}
		case f.Anonymous:
			jsonFields(f.Type, f.Index, into)
		}
	}
}

// jsonName is the key of a Go field in a manifest, "" for one that is in none.
func jsonName(f reflect.StructField) string {
	tag := f.Tag.Get("json")
	for i := range len(tag) {
		if tag[i] == ',' {
			tag = tag[:i]
			break
		}
	}
	if tag == "-" {
		return ""
	}
	return tag
}

// FieldInfo is one row of the table.
type FieldInfo struct {
	Path     string // spec.actions.stop.steps[].waitSeconds
	Class    Class
	Since    Since
	Required bool
	Default  string // "" = none
	Doc      string // what it is for, in a sentence
}

// Fields lists every field of a kind, in the order of the table.
func Fields(kind string) []FieldInfo {
	var rows []FieldInfo
	walk(kinds()[kind], "", func(path string, m *member) {
		rows = append(rows, FieldInfo{Path: path, Class: m.class, Since: m.since, Required: m.required, Default: m.defaultText(), Doc: m.doc})
	})
	return rows
}

// walk visits every member below s in the table's order.
func walk(s *schema, path string, visit func(string, *member)) {
	switch s.form {
	case formList, formDict:
		walk(s.item, path+"[]", visit)
	case formObject:
		for _, m := range s.members {
			at := m.name
			if path != "" {
				at = path + "." + m.name
			}
			visit(at, m)
			walk(m.schema, at, visit)
		}
	}
}

// launchRows is the table by path, for the fields that a launch has. It is no part of kinds: the keeper needs no Go
// fields bound.
var launchRows = sync.OnceValue(func() map[string]*schema {
	rows := map[string]*schema{}
	var add func(s *schema, path string)
	add = func(s *schema, path string) {
		rows[path] = s
		switch s.form {
		case formList, formDict:
			add(s.item, path+"[]")
		case formObject:
			for _, m := range s.members {
				add(m.schema, path+"."+m.name)
			}
		}
	}
	add(profileSchema(), "spec")
	for _, m := range serverSchema().members {
		if m.name == "dependsOn" { // the one part of a launch that is the server's own
			add(m.schema, "spec."+m.name)
		}
	}
	return rows
})

// launchRow is the row of a field of a launch; asking for one that the table lacks is a mistake in this package.
func launchRow(path string) *schema {
	s := launchRows()[path]
	if s == nil {
		panic("spec: the table has no row " + path)
	}
	return s
}
