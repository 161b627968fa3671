package spec

import (
	"bytes"
	"encoding/json"
	"strings"
)

// CRDs is the CustomResourceDefinitions of Profile, Server and Job as one YAML stream, made of the table that decoding
// reads. A cluster that has them refuses what we refuse, as far as a schema can see it: duplicate keys, the words that
// YAML reads in two ways, the bounds of a file, what a reference inside a text names, whether a default matches its pattern, other objects, and what this
// version cannot do yet it does not see. Host is a local file and has none.
func CRDs() []byte {
	var b bytes.Buffer
	for _, kind := range []string{KindProfile, KindServer, KindJob} {
		if b.Len() > 0 {
			b.WriteString("---\n")
		}
		b.Write(CRD(kind))
	}
	return b.Bytes()
}

// CRD is the CustomResourceDefinition of one kind, as YAML.
func CRD(kind string) []byte {
	spec := kinds()[kind].member("spec")
	body := openAPI(spec.schema)
	body["description"] = spec.doc
	plural := strings.ToLower(kind) + "s"
	version := tree{
		"name": "v1alpha1", "served": true, "storage": true,
		"subresources": tree{"status": tree{}},
		"schema": tree{"openAPIV3Schema": tree{
			"type":     "object",
			"required": []string{"spec"},
			"properties": tree{
				"apiVersion": tree{"type": "string"},
				"kind":       tree{"type": "string"},
				"metadata":   tree{"type": "object", "properties": tree{"name": openAPI(label())}},
				"spec":       body,
				"status":     tree{"type": "object", "x-kubernetes-preserve-unknown-fields": true},
			},
		}},
	}
	if columns := printerColumns[kind]; columns != nil {
		version["additionalPrinterColumns"] = columns
	}
	data, err := json.Marshal(tree{
		"apiVersion": "apiextensions.k8s.io/v1",
		"kind":       "CustomResourceDefinition",
		"metadata":   tree{"name": plural + ".reconciler.dev"},
		"spec": tree{
			"group":    "reconciler.dev",
			"scope":    "Namespaced",
			"names":    tree{"kind": kind, "listKind": kind + "List", "plural": plural, "singular": strings.ToLower(kind)},
			"versions": []tree{version},
		},
	})
	if err == nil {
		data, err = YAMLOf(data)
	}
	if err != nil {
		panic("spec: the schema of " + kind + " cannot be written: " + err.Error()) // it is made of constants
	}
	return data
}

// tree is a part of a JSON document; its keys are written in alphabetical order.
type tree map[string]any

var printerColumns = map[string][]tree{
	KindServer: {
		{"name": "Profile", "type": "string", "jsonPath": ".spec.profile"},
		{"name": "Ready", "type": "string", "jsonPath": `.status.conditions[?(@.type=="Ready")].status`},
		{"name": "State", "type": "string", "jsonPath": ".status.state"},
		{"name": "Restarts", "type": "integer", "jsonPath": ".status.run.restarts"},
		{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
	},
	KindJob: {
		{"name": "Server", "type": "string", "jsonPath": ".spec.server"},
		{"name": "Type", "type": "string", "jsonPath": ".spec.type"},
		{"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
		{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
	},
}

// openAPI is a row and what is below it as a structural schema.
func openAPI(s *schema) tree {
	var t tree
	switch s.form {
	case formObject:
		t = openAPIObject(s)
	case formList:
		t = openAPIList(s)
	case formDict:
		t = tree{"type": "object", "additionalProperties": openAPI(s.item), "maxProperties": s.maxItems}
		validate(t, "self.all(k, size(k) <= 63 && k.matches("+celString(s.keyRule.pattern)+"))", "the key "+s.keyRule.words())
	case formText:
		t = openAPIText(s)
	case formInteger:
		t = tree{"type": "integer", "format": "int64"}
		bounds(t, s)
	case formBoolean:
		t = tree{"type": "boolean"}
	case formIntOrString:
		t = openAPINumber(s)
	case formQuantity:
		t = openAPIQuantity(s)
	}
	for _, r := range s.cel {
		validate(t, r.expression, r.message)
	}
	return t
}

func validate(t tree, expression, message string) {
	rules, _ := t["x-kubernetes-validations"].([]tree)
	t["x-kubernetes-validations"] = append(rules, tree{"rule": expression, "message": message})
}

func bounds(t tree, s *schema) {
	if s.min > minInt64 {
		t["minimum"] = s.min
	}
	if s.max < maxInt64 {
		t["maximum"] = s.max
	}
}

func openAPIObject(s *schema) tree {
	properties, needed := tree{}, []string{}
	for _, m := range s.members {
		p := openAPI(m.schema)
		switch v := m.def.(type) {
		case nil:
			if m.whole {
				p["default"] = tree{}
			}
		case rawJSON:
			p["default"] = json.RawMessage(v)
		default:
			p["default"] = v
		}
		p["description"] = m.doc
		properties[m.name] = p
		if m.required {
			needed = append(needed, m.name)
		}
	}
	t := tree{"type": "object", "properties": properties}
	if len(needed) > 0 {
		t["required"] = needed
	}
	if len(s.union) > 0 {
		var given []string
		for _, name := range s.union {
			given = append(given, "has(self."+name+")")
		}
		validate(t, "["+strings.Join(given, ", ")+"].filter(x, x).size() == 1", "must have exactly one of "+quoted(s.union))
	}
	return t
}

func openAPIList(s *schema) tree {
	t := tree{"type": "array", "items": openAPI(s.item), "maxItems": s.maxItems, "x-kubernetes-list-type": "atomic"}
	if s.minItems > 0 {
		t["minItems"] = s.minItems
	}
	switch {
	case len(s.key) > 0:
		t["x-kubernetes-list-type"], t["x-kubernetes-list-map-keys"] = "map", s.key
	case s.set:
		t["x-kubernetes-list-type"] = "set"
	}
	return t
}

func openAPIText(s *schema) tree {
	t := tree{"type": "string"}
	if len(s.enum) > 0 {
		var values []string
		for _, c := range s.enum {
			values = append(values, c.value)
		}
		t["enum"] = values
		return t
	}
	// A cluster counts characters where we count bytes: what is short enough for us is for it.
	t["maxLength"] = s.max
	if s.min > 0 {
		t["minLength"] = s.min
	}
	if s.rule.pattern != "" {
		t["pattern"] = s.rule.pattern
	}
	if s.rule.cel != "" {
		validate(t, s.rule.cel, s.rule.words())
	}
	return t
}

// referencePattern matches a text that is exactly one reference.
const referencePattern = `^\$\([^()$]*\)$`

func openAPINumber(s *schema) tree {
	t := tree{"x-kubernetes-int-or-string": true}
	if s.refs == refsWhole {
		t["maxLength"] = 128
		t["pattern"] = referencePattern
		bounds(t, s)
		return t
	}
	t["maxLength"] = 4096
	t["pattern"] = s.rule.pattern
	return t
}

func openAPIQuantity(s *schema) tree {
	t := tree{"x-kubernetes-int-or-string": true, "maxLength": s.max}
	_, detail := s.checkQuantity(IntOrString{})
	text := "isQuantity(string(self)) && quantity(string(self)).isGreaterThan(quantity('0'))"
	if s.refs == refsWhole {
		text = "string(self).matches(" + celString(referencePattern) + ") || " + text
	}
	validate(t, "type(self) == int ? int(self) > 0 : ("+text+")", detail)
	return t
}

// celString is a text as a literal of CEL.
func celString(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'"
}
