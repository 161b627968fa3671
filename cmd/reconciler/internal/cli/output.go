package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"k8s.io/client-go/util/jsonpath"

	"reconciler.dev/reconciler/cmd/reconciler/internal/api"
	"reconciler.dev/reconciler/spec"
)

// output is a -o flag, parsed.
type output struct {
	form string // "" and wide are tables
	path *jsonpath.JSONPath
}

const outputForms = "wide, json, yaml, name or jsonpath=TEMPLATE"

func parseOutput(flag string) (output, error) {
	form, template, hasTemplate := strings.Cut(flag, "=")
	switch form {
	case "", "wide", "json", "yaml", "name":
		if hasTemplate {
			return output{}, usagef("-o %s takes no template; the forms are %s", form, outputForms)
		}
		return output{form: form}, nil
	case "jsonpath":
		path, err := parseJSONPath(template)
		if err != nil {
			return output{}, err
		}
		return output{form: form, path: path}, nil
	}
	return output{}, usagef("unknown output form %q for -o; the forms are %s", flag, outputForms)
}

// parseJSONPath takes kubectl's relaxed forms too: x.y, .x.y and {.x.y} are one.
func parseJSONPath(template string) (*jsonpath.JSONPath, error) {
	if template == "" {
		return nil, usagef("jsonpath needs a template, as in jsonpath='{.status.state}'")
	}
	full := template
	if !strings.Contains(full, "{") {
		full = "{." + strings.TrimPrefix(full, ".") + "}"
	}
	p := jsonpath.New("out").AllowMissingKeys(true)
	if err := p.Parse(full); err != nil {
		return nil, usagef("cannot parse the jsonpath template %q: %s", template, err)
	}
	return p, nil
}

// isTable reports whether the form is made for people.
func (o output) isTable() bool { return o.form == "" || o.form == "wide" }

// print writes one object, or a list of them, in any form but a table.
func (o output) print(w io.Writer, obj json.RawMessage) error {
	switch o.form {
	case "json":
		var b bytes.Buffer
		if err := json.Indent(&b, obj, "", "    "); err != nil {
			return fmt.Errorf("cannot print the answer: %w", err)
		}
		b.WriteByte('\n')
		_, err := b.WriteTo(w)
		return err
	case "yaml":
		return printYAML(w, obj)
	case "name":
		return printNames(w, obj)
	case "jsonpath":
		return printPath(w, o.path, obj)
	}
	return fmt.Errorf("internal error: no printer for -o %s", o.form)
}

// printNext prints one of many objects that follow each other: YAML documents are set apart, jsonpath texts too.
func (o output) printNext(w io.Writer, obj json.RawMessage, printed *int) error {
	apart := ""
	switch {
	case *printed == 0:
	case o.form == "yaml":
		apart = "---\n"
	case o.form == "jsonpath":
		apart = "\n"
	}
	*printed++
	if _, err := io.WriteString(w, apart); err != nil {
		return err
	}
	return o.print(w, obj)
}

func printYAML(w io.Writer, obj json.RawMessage) error {
	text, err := spec.YAMLOf(obj)
	if err != nil {
		return fmt.Errorf("cannot print the answer: %w", err)
	}
	_, err = w.Write(text)
	return err
}

// named is what -o name needs of an object.
type named struct {
	Kind     string            `json:"kind"`
	Metadata api.ObjectMeta    `json:"metadata"`
	Items    []json.RawMessage `json:"items"`
}

func printNames(w io.Writer, obj json.RawMessage) error {
	var n named
	if err := json.Unmarshal(obj, &n); err != nil {
		return fmt.Errorf("cannot read the answer: %w", err)
	}
	if n.Kind != "List" {
		_, err := fmt.Fprintf(w, "%s/%s\n", strings.ToLower(n.Kind), n.Metadata.Name)
		return err
	}
	for _, item := range n.Items {
		if err := printNames(w, item); err != nil {
			return err
		}
	}
	return nil
}

func printPath(w io.Writer, path *jsonpath.JSONPath, obj json.RawMessage) error {
	text, err := evalPath(path, obj)
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, text)
	return err
}

func evalPath(path *jsonpath.JSONPath, obj json.RawMessage) (string, error) {
	var v any
	dec := json.NewDecoder(bytes.NewReader(obj))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		return "", fmt.Errorf("cannot read the answer: %w", err)
	}
	var b strings.Builder
	if err := path.Execute(&b, wholeNumbers(v)); err != nil {
		return "", fmt.Errorf("cannot evaluate the jsonpath template: %w", err)
	}
	return b.String(), nil
}

// wholeNumbers makes the numbers of v int64, or float64 where they are not whole, so that filters can compare them.
func wholeNumbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, _ := v.Float64() // a number of JSON always is one
		return f
	case map[string]any:
		for k := range v {
			v[k] = wholeNumbers(v[k])
		}
	case []any:
		for i := range v {
			v[i] = wholeNumbers(v[i])
		}
	}
	return v
}

// listOf wraps objects as kubectl does.
func listOf(items []json.RawMessage) (json.RawMessage, error) {
	if items == nil {
		items = []json.RawMessage{}
	}
	return json.Marshal(api.List{TypeMeta: api.TypeMeta{APIVersion: "v1", Kind: "List"}, Items: items})
}

func jsonOf(v any) (json.RawMessage, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("cannot print the answer: %w", err)
	}
	return raw, nil
}
