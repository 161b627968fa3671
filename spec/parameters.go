package spec

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// parameters checks what each type allows.
func (r rules) parameters(parameters []Parameter, at *path) {
	for i := range parameters {
		p, in := &parameters[i], at.item(i)
		r.parameterMembers(p, in)
		if p.Minimum != nil && p.Maximum != nil && *p.Minimum > *p.Maximum {
			r.report(in.field("minimum"), FaultInvalid, "", fmt.Sprintf("must be at most `maximum` (%d)", *p.Maximum))
		}
		for j, v := range p.Enum {
			if detail := p.checkLength(v); detail != "" {
				r.report(in.field("enum").item(j), FaultInvalid, "", detail)
			}
		}
		if p.Default != nil && p.typeName() != ParameterSecret {
			if kind, detail := p.check(*p.Default); detail != "" {
				r.report(in.field("default"), kind, "", detail)
			}
		}
		r.defaultFrom(p, parameters, in.field("defaultFrom"))
	}
}

// parameterMembers refuses what a parameter's type does not have.
func (r rules) parameterMembers(p *Parameter, in *path) {
	only := func(name string, given bool, types ...string) {
		if given && !slices.Contains(types, p.typeName()) {
			r.report(in.field(name), FaultForbidden, "", "is for parameters of type "+strings.Join(types, " or ")+" alone")
		}
	}
	only("default", p.Default != nil, ParameterString, ParameterInteger)
	only("defaultFrom", p.DefaultFrom != nil, ParameterInteger)
	only("enum", p.Enum != nil, ParameterString)
	only("minimum", p.Minimum != nil, ParameterInteger)
	only("maximum", p.Maximum != nil, ParameterInteger)
	only("pattern", p.Pattern != "", ParameterString)
	only("maxLength", p.MaxLength != nil, ParameterString)
	only("inArgs", p.InArgs, ParameterSecret)
}

// defaultFrom is one step deep: the parameter it names has none itself.
func (r rules) defaultFrom(p *Parameter, parameters []Parameter, at *path) {
	if p.DefaultFrom == nil {
		return
	}
	if p.Default != nil {
		r.report(at, FaultForbidden, "", "must not stand beside 'default'")
	}
	name := p.DefaultFrom.Parameter
	from := findParameter(parameters, name)
	switch {
	case name == "":
	case from == nil:
		r.report(at.field("parameter"), FaultNotFound, name, "there is no such parameter"+didYouMean(name, parameterNames(parameters)))
	case from.typeName() != ParameterInteger:
		r.report(at.field("parameter"), FaultInvalid, name, "must name a parameter of type Integer")
	case from.DefaultFrom != nil:
		r.report(at.field("parameter"), FaultInvalid, name, "must name a parameter that has no 'defaultFrom' itself")
	}
}

func findParameter(parameters []Parameter, name string) *Parameter {
	for i := range parameters {
		if parameters[i].Name == name {
			return &parameters[i]
		}
	}
	return nil
}

func parameterNames(parameters []Parameter) []string {
	names := make([]string, len(parameters))
	for i, p := range parameters {
		names[i] = p.Name
	}
	return names
}

func (p *Parameter) typeName() string {
	if p.Type == "" {
		return ParameterString
	}
	return p.Type
}

// check judges a value by the parameter's type and bounds. The detail never holds the value.
func (p *Parameter) check(v IntOrString) (kind, detail string) {
	switch p.typeName() {
	case ParameterInteger:
		if v.IsString {
			if plainScalar(v.String) == scalarInt {
				return FaultInvalid, "must be an integer: take the quotes away"
			}
			return FaultInvalid, "must be an integer"
		}
		low, high := int64(minInt64), int64(maxInt64)
		if p.Minimum != nil {
			low = *p.Minimum
		}
		if p.Maximum != nil {
			high = *p.Maximum
		}
		if detail := checkRange(v.Int, low, high); detail != "" {
			return FaultInvalid, detail
		}
	case ParameterString:
		if !v.IsString {
			return FaultInvalid, "must be a string: quote it"
		}
		return p.checkString(v.String)
	case ParameterSecret:
		if !v.IsString || checkSecretName(v.String) != "" {
			return FaultInvalid, checkSecretName("")
		}
	}
	return "", ""
}

func (p *Parameter) checkString(s string) (kind, detail string) {
	if detail := ruleLine.check(s); detail != "" {
		return FaultInvalid, detail
	}
	if len(p.Enum) > 0 && !slices.Contains(p.Enum, s) {
		return FaultUnsupported, "must be one of " + quoted(p.Enum)
	}
	if detail := p.checkLength(s); detail != "" {
		return FaultTooLong, detail
	}
	if p.Pattern != "" {
		re, err := regexp.Compile(`^(?:` + p.Pattern + `)$`)
		if err == nil && !re.MatchString(s) {
			return FaultInvalid, "must match the pattern '" + p.Pattern + "'"
		}
	}
	return "", ""
}

const defaultMaxLength = 256

func (p *Parameter) checkLength(s string) string {
	most := valueOr(p.MaxLength, defaultMaxLength)
	if int64(len(s)) > most {
		return fmt.Sprintf("must be at most %d bytes", most)
	}
	return ""
}

func checkSecretName(s string) string {
	name, key, ok := strings.Cut(s, "/")
	if !ok || !IsLabel(name) || key == "" || len(key) > 253 || key[0] == '.' ||
		!all(key, func(c byte) bool { return isAlnum(c) || c == '-' || c == '_' || c == '.' }) {
		return "must be the name of a secret's file, 'NAME/KEY', never the secret"
	}
	return ""
}
