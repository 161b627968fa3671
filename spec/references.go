package spec

import (
	"reflect"
	"slices"
)

// references checks every `$(name)` of a profile: the name is known, and of a type that may stand there.
func (r rules) references(p *ProfileSpec, at *path) {
	schema := kinds()[KindProfile].member("spec").schema
	list := schema.member("actions").member("commands").schema
	r.expanded(schema, reflect.ValueOf(p).Elem(), at, p.Parameters, list)
	for i := range p.Actions.Commands {
		c := &p.Actions.Commands[i]
		names := slices.Concat(p.Parameters, c.Parameters)
		r.expanded(list.item, reflect.ValueOf(c).Elem(), at.field("actions").field("commands").item(i), names, nil)
	}
}

// expanded visits every value in which references are expanded, but for those below skip.
func (r rules) expanded(s *schema, v reflect.Value, at *path, parameters []Parameter, skip *schema) {
	for v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return
		}
		v = v.Elem()
	}
	switch s.form {
	case formObject:
		for _, m := range s.members {
			if m.schema != skip && m.holdsReferences() {
				r.expanded(m.schema, v.FieldByIndex(m.index), at.field(m.name), parameters, skip)
			}
		}
	case formList:
		for i := range v.Len() {
			r.expanded(s.item, v.Index(i), at.item(i), parameters, skip)
		}
	case formText:
		if s.refs != refsNone {
			r.referencesIn(s, v.String(), at, parameters)
		}
	case formIntOrString, formQuantity:
		if value := v.Interface().(IntOrString); s.refs == refsWhole && value.IsString {
			r.numberReference(s, value.String, at, parameters)
		}
	}
}

// holdsReferences reports whether anything below takes a reference.
func (s *schema) holdsReferences() bool {
	if s.refs != refsNone {
		return true
	}
	if s.item != nil {
		return s.item.holdsReferences()
	}
	return slices.ContainsFunc(s.members, func(m *member) bool { return m.holdsReferences() })
}

func (r rules) referencesIn(s *schema, text string, at *path, parameters []Parameter) {
	detail := references(text, func(string) {}, func(name string) {
		p := findParameter(parameters, name)
		switch {
		case p == nil && !isBuiltin(name):
			r.report(at, FaultNotFound, "", unknownReference(name, parameters))
		case p != nil && p.typeName() == ParameterSecret && s.secrets == secretsNever:
			r.report(at, FaultForbidden, "", "a Secret must not stand here: "+showName(name))
		case p != nil && p.typeName() == ParameterSecret && s.secrets == secretsIfAllowed && !p.InArgs:
			r.report(at, FaultForbidden, "", showName(name)+" is a Secret and arguments are seen by every user: allow it with `inArgs: true`")
		}
	})
	if detail != "" {
		r.report(at, FaultInvalid, "", detail)
	}
}

func unknownReference(name string, parameters []Parameter) string {
	known := append(parameterNames(parameters), refServerName, refServerNamespace, refServerDirectory)
	return showName(name) + " names no parameter" + didYouMean(name, known) + "; " + literalHint
}

func (r rules) numberReference(s *schema, text string, at *path, parameters []Parameter) {
	name, ok := wholeReference(text)
	if !ok {
		return
	}
	p := findParameter(parameters, name)
	switch {
	case p == nil:
		r.report(at, FaultNotFound, "", unknownReference(name, parameters))
	case p.typeName() == ParameterSecret, s.form == formIntOrString && p.typeName() != ParameterInteger:
		r.report(at, FaultInvalid, "", showName(name)+" must be a parameter of type Integer")
	}
}
