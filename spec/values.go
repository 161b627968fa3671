package spec

import (
	"math"
	"reflect"
	"strconv"

	yaml "sigs.k8s.io/yaml/goyaml.v3"
)

// string reads a scalar that must be a string.
func (d *decoder) string(s *schema, n *yaml.Node, at *path) (string, bool) {
	if n.Kind != yaml.ScalarNode {
		d.faultAt(n, at, FaultInvalid, "", "must be a string")
		return "", false
	}
	kind := scalarOf(n)
	if kind == scalarString {
		return n.Value, true
	}
	shown := n.Value
	if s.private {
		shown = ""
	}
	remedy := ": quote it"
	if kind == scalarTagged {
		remedy = ": take the tag away"
	}
	d.faultAt(n, at, FaultInvalid, shown, "must be a string; without quotes this is "+kind.what()+remedy)
	return "", false
}

// text checks a string by the table.
func (d *decoder) text(s *schema, n *yaml.Node, text string, at *path) {
	if s.refs == refsNone && !s.private && s.rule != rulePattern && hasReference(text) {
		d.note(at, "references are not expanded in this field: the '$(' stays as it is")
	}
	for _, c := range s.enum {
		if c.value == text && c.since > d.upTo {
			d.faultAt(n, at, FaultForbidden, text, notAvailable)
			return
		}
	}
	kind, detail := s.checkText(text, false)
	if detail == "" {
		return
	}
	if s.private {
		text = ""
	}
	d.faultAt(n, at, kind, text, detail)
}

// integer reads a scalar that must be a whole number in decimal notation.
func (d *decoder) integer(n *yaml.Node, at *path) (int64, bool) {
	if n.Kind != yaml.ScalarNode {
		d.faultAt(n, at, FaultInvalid, "", "must be an integer")
		return 0, false
	}
	detail := ""
	switch scalarOf(n) {
	case scalarInt:
		if i, err := strconv.ParseInt(n.Value, 10, 64); err == nil {
			return i, true
		}
		detail = "must be an integer of at most 64 bits"
	case scalarString:
		detail = "must be an integer"
		if plainScalar(n.Value) == scalarInt {
			detail = "must be an integer: take the quotes away"
		}
	case scalarFloat:
		detail = "must be a whole number without a fraction or an exponent"
		if f, err := strconv.ParseFloat(n.Value, 64); err != nil || math.IsInf(f, 0) {
			detail = "must be a whole number; this is beyond every bound"
		}
	case scalarSpecial:
		detail = "must be a whole number; this is none"
	case scalarOddInt:
		detail = "must be an integer in decimal notation: no sign '+', leading zero, '_' or prefix"
	default:
		detail = "must be an integer"
	}
	d.faultAt(n, at, FaultInvalid, n.Value, detail)
	return 0, false
}

func (d *decoder) boolean(n *yaml.Node, v reflect.Value, at *path) {
	switch {
	case n.Kind != yaml.ScalarNode:
		d.faultAt(n, at, FaultInvalid, "", "must be true or false")
	case scalarOf(n) == scalarBool:
		v.SetBool(n.Value == "true")
	default:
		d.faultAt(n, at, FaultInvalid, n.Value, "must be true or false, without quotes")
	}
}

// intOrString reads a number, or a string: a parameter's value, a quantity, or a number that a reference gives.
func (d *decoder) intOrString(s *schema, n *yaml.Node, v reflect.Value, at *path) {
	if n.Kind != yaml.ScalarNode {
		d.faultAt(n, at, FaultInvalid, "", "must be an integer or a string")
		return
	}
	into := v.Addr().Interface().(*IntOrString)
	shown := n.Value
	if s.private {
		shown = ""
	}
	switch kind := scalarOf(n); kind {
	case scalarInt:
		i, err := strconv.ParseInt(n.Value, 10, 64)
		if err != nil {
			d.faultAt(n, at, FaultInvalid, shown, "must be an integer of at most 64 bits")
			return
		}
		into.Int = i
	case scalarString:
		into.IsString, into.String = true, n.Value
	default:
		d.faultAt(n, at, FaultInvalid, shown, "must be an integer or a string; without quotes this is "+kind.what()+": quote it")
		return
	}
	if kind, detail := s.checkNumber(*into); detail != "" {
		d.faultAt(n, at, kind, shown, detail)
	}
}
