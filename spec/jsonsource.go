package spec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	yaml "sigs.k8s.io/yaml/goyaml.v3"
)

// jsonReader makes the same nodes of JSON that the YAML parser makes of YAML.
type jsonReader struct {
	data    []byte
	decoder *json.Decoder
	offset  int // up to which lines are counted
	line    int
	start   int // of that line
}

// readJSON parses a file of one JSON value.
func readJSON(data []byte) (*yaml.Node, *Fault) {
	r := &jsonReader{data: data, decoder: json.NewDecoder(bytes.NewReader(data)), line: 1}
	r.decoder.UseNumber()
	root, err := r.value(0)
	if errors.Is(err, io.EOF) && len(bytes.TrimSpace(data)) == 0 {
		return nil, nil
	}
	if err == nil {
		if _, err = r.decoder.Token(); errors.Is(err, io.EOF) {
			return root, nil
		}
		err = errors.New("a second value follows: a JSON file holds one object, or one List")
	}
	f := &Fault{Kind: FaultInvalid, Detail: "this is not JSON: " + strings.TrimPrefix(err.Error(), "json: ")}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		f.Detail = "this is not JSON: it ends too early"
	}
	var syntax *json.SyntaxError
	at := int(r.decoder.InputOffset())
	if errors.As(err, &syntax) {
		at = max(int(syntax.Offset)-1, 0)
	}
	f.Line, f.Column = position(data, min(at, len(data)))
	return nil, f
}

func (r *jsonReader) value(depth int) (*yaml.Node, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("lists and objects must not be nested more than %d deep", maxDepth)
	}
	token, err := r.decoder.Token()
	if err != nil {
		return nil, err
	}
	n := &yaml.Node{Kind: yaml.ScalarNode}
	end := int(r.decoder.InputOffset())
	switch t := token.(type) {
	case json.Delim:
		n.Line, n.Column = r.position(end - 1)
		if t == '[' {
			n.Kind = yaml.SequenceNode
			return n, r.items(n, depth)
		}
		n.Kind = yaml.MappingNode
		return n, r.members(n, depth)
	case string:
		n.Value, n.Style = t, yaml.DoubleQuotedStyle
		n.Line, n.Column = r.position(r.stringStart(end))
	case json.Number:
		n.Value = t.String()
		n.Line, n.Column = r.position(end - len(n.Value))
	case bool:
		n.Value = fmt.Sprint(t)
		n.Line, n.Column = r.position(end - len(n.Value))
	case nil:
		n.Value = "null"
		n.Line, n.Column = r.position(end - len(n.Value))
	}
	return n, nil
}

func (r *jsonReader) items(n *yaml.Node, depth int) error {
	for r.decoder.More() {
		item, err := r.value(depth + 1)
		if err != nil {
			return err
		}
		n.Content = append(n.Content, item)
	}
	_, err := r.decoder.Token()
	return err
}

func (r *jsonReader) members(n *yaml.Node, depth int) error {
	for r.decoder.More() {
		key, err := r.value(depth + 1)
		if err != nil {
			return err
		}
		value, err := r.value(depth + 1)
		if err != nil {
			return err
		}
		n.Content = append(n.Content, key, value)
	}
	_, err := r.decoder.Token()
	return err
}

// stringStart is the offset of the quote that opens the string that ends before end.
func (r *jsonReader) stringStart(end int) int {
	for i := end - 2; i >= 0; i-- {
		if r.data[i] != '"' {
			continue
		}
		slashes := 0
		for j := i - 1; j >= 0 && r.data[j] == '\\'; j-- {
			slashes++
		}
		if slashes%2 == 0 {
			return i
		}
	}
	return 0
}

// position is the line and column of an offset; offsets come in rising order.
func (r *jsonReader) position(offset int) (line, column int) {
	for r.offset < offset {
		i := bytes.IndexByte(r.data[r.offset:offset], '\n')
		if i < 0 {
			break
		}
		r.offset += i + 1
		r.line++
		r.start = r.offset
	}
	return r.line, offset - r.start + 1
}
