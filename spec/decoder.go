package spec

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	yaml "sigs.k8s.io/yaml/goyaml.v3"
)

const (
	notAvailable = "not available in this version"
	mustBeUnique = "must be unique in this list"
	mustBeOnce   = "must be here once"
)

// decoder reads one object along the table into its Go value and collects everything that is wrong.
type decoder struct {
	document int
	root     *yaml.Node
	base     *path // of root in its document
	upTo     Since
	faults   []Fault
	notes    []Fault
}

// fault records a fault at the node of a path.
func (d *decoder) fault(at *path, kind, shown, detail string) {
	d.faultAt(locate(d.root, at), at, kind, shown, detail)
}

func (d *decoder) faultAt(n *yaml.Node, at *path, kind, shown, detail string) {
	if len(d.faults) > maxFaults {
		return // nobody reads more, and a hostile file has a hundred thousand
	}
	d.faults = append(d.faults, d.place(n, at, kind, shown, detail))
}

func (d *decoder) place(n *yaml.Node, at *path, kind, shown, detail string) Fault {
	f := Fault{Line: n.Line, Column: n.Column, Document: d.document, Field: d.shown(at), Kind: kind, Detail: detail}
	f.Value = showValue(shown)
	return f
}

func (d *decoder) shown(at *path) string {
	if d.base == nil {
		return at.String()
	}
	if at == nil {
		return d.base.String()
	}
	return d.base.String() + "." + at.String()
}

func (d *decoder) note(at *path, detail string) {
	if len(d.notes) >= maxFaults {
		return
	}
	d.notes = append(d.notes, d.place(locate(d.root, at), at, "", "", detail))
}

// keys finds a key that an object has twice.
type keys struct {
	few  []string
	many map[string]bool
}

func newKeys(n *yaml.Node) *keys {
	if len(n.Content) > 64 {
		return &keys{many: make(map[string]bool, len(n.Content)/2)}
	}
	return &keys{}
}

func (k *keys) add(key string) (first bool) {
	if k.many != nil {
		first = !k.many[key]
		k.many[key] = true
		return first
	}
	if slices.Contains(k.few, key) {
		return false
	}
	k.few = append(k.few, key)
	return true
}

// key checks the key of an object's member.
func (d *decoder) key(k *yaml.Node, at *path, seen *keys) bool {
	switch {
	case k.Kind != yaml.ScalarNode:
		d.faultAt(k, at.up, FaultInvalid, "", "a key must be a word")
		return false
	case k.Value == "<<" && k.Style == 0:
		d.faultAt(k, at.up, FaultForbidden, "", "merge keys ('<<') are not part of the language: write the fields out")
		return false
	case scalarOf(k) != scalarString:
		d.faultAt(k, at, FaultInvalid, "", "this key is "+scalarOf(k).what()+": quote it")
		return false
	case !seen.add(k.Value):
		d.faultAt(k, at, FaultDuplicate, "", "this key is here twice: keep one")
		return false
	}
	return true
}

// extension accepts the keys that are the user's own.
func (d *decoder) extension(key string, at *path) bool {
	if !strings.HasPrefix(key, "x-") {
		return false
	}
	d.note(at, "a key of your own: kept and inert here, refused or dropped by a cluster; annotations are the portable place")
	return true
}

func (d *decoder) unknown(k *yaml.Node, at *path, known []string) {
	if reserved[at.String()] {
		d.faultAt(k, at, FaultForbidden, "", "reserved: "+notAvailable)
		return
	}
	detail := "there is no such field" + didYouMean(k.Value, known)
	d.faultAt(k, at, FaultForbidden, "", detail)
}

// reserved are the names that API.md keeps for a later version of Server.
var reserved = map[string]bool{"spec.profileSpec": true, "spec.host": true, "spec.deletionPolicy": true}

// member reads one member's value; null is absent.
func (d *decoder) member(m *member, n *yaml.Node, v reflect.Value, at *path) {
	n = resolveAlias(n)
	if isNull(n) {
		return
	}
	if m.form == formIntOrString || m.form == formQuantity {
		if v.Kind() == reflect.Pointer {
			v.Set(reflect.New(v.Type().Elem()))
			v = v.Elem()
		}
		d.intOrString(m.schema, n, v, at)
		return
	}
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	d.value(m.schema, n, v, at)
}

func isNull(n *yaml.Node) bool {
	n = resolveAlias(n)
	return n.Kind == yaml.ScalarNode && scalarOf(n) == scalarNull
}

func (d *decoder) value(s *schema, n *yaml.Node, v reflect.Value, at *path) {
	n = resolveAlias(n)
	switch s.form {
	case formObject:
		d.object(s, n, v, at)
	case formList:
		d.list(s, n, v, at)
	case formDict:
		d.dict(s, n, v, at)
	case formText:
		if text, ok := d.string(s, n, at); ok {
			v.SetString(text)
			d.text(s, n, text, at)
		}
	case formInteger:
		if i, ok := d.integer(n, at); ok {
			v.SetInt(i)
			if detail := checkRange(i, s.min, s.max); detail != "" {
				d.faultAt(n, at, FaultInvalid, strconv.FormatInt(i, 10), detail)
			}
		}
	case formBoolean:
		d.boolean(n, v, at)
	case formIntOrString, formQuantity:
		d.intOrString(s, n, v, at)
	}
}

func (d *decoder) object(s *schema, n *yaml.Node, v reflect.Value, at *path) {
	if n.Kind != yaml.MappingNode {
		d.faultAt(n, at, FaultInvalid, "", "must be an object, that is keys with values")
		return
	}
	seen := newKeys(n)
	given := 0 // members of the union
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, val := n.Content[i], n.Content[i+1]
		in := at.field(k.Value)
		if !d.key(k, in, seen) {
			continue
		}
		m := s.member(k.Value)
		if m == nil {
			if !d.extension(k.Value, in) {
				d.unknown(k, in, s.names())
			}
			continue
		}
		if isNull(val) {
			continue
		}
		if slices.Contains(s.union, m.name) {
			given++
		}
		if m.since > d.upTo {
			d.faultAt(k, in, FaultForbidden, "", notAvailable)
			continue
		}
		d.member(m, val, v.FieldByIndex(m.index), in)
	}
	for _, m := range s.members {
		if m.required && m.since <= d.upTo && !present(n, m.name) {
			d.faultAt(n, at.field(m.name), FaultRequired, "", "must be given")
		}
	}
	if len(s.union) > 0 && given != 1 {
		kind := FaultInvalid
		if given == 0 {
			kind = FaultRequired
		}
		d.faultAt(n, at, kind, "", "must have exactly one of "+quoted(s.union))
	}
}

func present(n *yaml.Node, key string) bool {
	v := value(n, key)
	return v != nil && !isNull(v)
}

// names lists the members for a hint.
func (s *schema) names() []string {
	names := make([]string, len(s.members))
	for i, m := range s.members {
		names[i] = m.name
	}
	return names
}

func (d *decoder) list(s *schema, n *yaml.Node, v reflect.Value, at *path) {
	if n.Kind != yaml.SequenceNode {
		d.faultAt(n, at, FaultInvalid, "", "must be a list")
		return
	}
	count := len(n.Content)
	if detail, kind := checkCount(count, s.minItems, s.maxItems); detail != "" {
		d.faultAt(n, at, kind, "", detail)
		if kind == FaultTooMany {
			return
		}
	}
	v.Set(reflect.MakeSlice(v.Type(), count, count))
	seen := newKeys(n)
	for i, item := range n.Content {
		in := at.item(i)
		item = resolveAlias(item)
		if isNull(item) {
			d.faultAt(item, in, FaultInvalid, "", "an item must not be null: take it out, or quote it")
			continue
		}
		d.value(s.item, item, v.Index(i), in)
		d.distinct(s, item, v.Index(i), in, seen)
	}
}

// distinct finds items that are there twice.
func (d *decoder) distinct(s *schema, n *yaml.Node, v reflect.Value, at *path, seen *keys) {
	switch {
	case s.set:
		text := fmt.Sprint(v.Interface())
		if seen.add(text) {
			return
		}
		if s.item.private {
			text = ""
		}
		d.faultAt(n, at, FaultDuplicate, text, mustBeOnce)
	case len(s.key) > 0:
		var parts []string
		for _, name := range s.key {
			m := s.item.member(name)
			part := v.FieldByIndex(m.index).String()
			if part == "" && m.def != nil {
				part = m.defaultText()
			}
			parts = append(parts, part)
		}
		last := at.field(s.key[len(s.key)-1])
		if parts[len(parts)-1] != "" && !seen.add(strings.Join(parts, "\x00")) {
			d.fault(last, FaultDuplicate, parts[len(parts)-1], mustBeUnique)
		}
	}
}

func (d *decoder) dict(s *schema, n *yaml.Node, v reflect.Value, at *path) {
	if n.Kind != yaml.MappingNode {
		d.faultAt(n, at, FaultInvalid, "", "must be an object, that is keys with values")
		return
	}
	if detail, kind := checkCount(len(n.Content)/2, 0, s.maxItems); detail != "" {
		d.faultAt(n, at, kind, "", detail)
		return
	}
	v.Set(reflect.MakeMapWithSize(v.Type(), len(n.Content)/2))
	seen := newKeys(n)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, val := n.Content[i], resolveAlias(n.Content[i+1])
		in := at.entry(k.Value)
		if !d.key(k, in, seen) {
			continue
		}
		if detail := s.keyRule.check(k.Value); detail != "" {
			// A label may begin with `x-` too; what can be no key of this dict is the user's own.
			if !d.extension(k.Value, in) {
				d.faultAt(k, in, FaultInvalid, "", "the key "+detail)
			}
			continue
		}
		if isNull(val) {
			continue
		}
		element := reflect.New(v.Type().Elem()).Elem()
		d.value(s.item, val, element, in)
		v.SetMapIndex(reflect.ValueOf(k.Value), element)
	}
}
