package spec

import (
	"bytes"
	"fmt"

	yaml "sigs.k8s.io/yaml/goyaml.v3"
)

// Shown is an object as `get -o yaml|json` shows it: what the file says, in the file's order, with `x-` keys and
// annotations, plus the defaults, which are marked (EC-2). It may be read back as a manifest.
type Shown struct {
	root      *yaml.Node
	defaulted []string
}

// defaultedKey marks the defaults in JSON, which has no comments. Like every `x-` key it is inert in a manifest.
const defaultedKey = "x-defaulted"

// WithDefaults is the profile as it is shown.
func (p *Profile) WithDefaults() *Shown { return show(KindProfile, p.Written) }

// WithDefaults is the server as it is shown.
func (s *Server) WithDefaults() *Shown { return show(KindServer, s.Written) }

// WithDefaults is the job as it is shown.
func (j *Job) WithDefaults() *Shown { return show(KindJob, j.Written) }

// WithDefaults is the host configuration as it is shown.
func (h *Host) WithDefaults() *Shown { return show(KindHost, h.Written) }

func show(kind string, written []byte) *Shown {
	root, fault := readJSON(written)
	if fault != nil || root == nil {
		root = &yaml.Node{Kind: yaml.MappingNode}
	}
	s := &Shown{root: root}
	if body := value(root, "spec"); body != nil && body.Kind == yaml.MappingNode {
		s.fill(kinds()[kind].member("spec").schema, body, (*path)(nil).field("spec"))
	}
	return s
}

// fill adds the defaults below an object or list.
func (s *Shown) fill(row *schema, n *yaml.Node, at *path) {
	switch {
	case row.form == formList && n.Kind == yaml.SequenceNode:
		for i, item := range n.Content {
			s.fill(row.item, item, at.item(i))
		}
	case row.form == formObject && n.Kind == yaml.MappingNode:
		for _, m := range row.members {
			s.fillMember(m, n, at.field(m.name))
		}
	}
}

func (s *Shown) fillMember(m *member, n *yaml.Node, at *path) {
	if v := value(n, m.name); v != nil && !isNull(v) {
		s.fill(m.schema, v, at)
		return
	}
	if m.since > available {
		return
	}
	switch {
	case m.def != nil:
		setMember(n, m.name, defaultNode(m.def))
		s.defaulted = append(s.defaulted, at.String())
	case m.whole:
		v := &yaml.Node{Kind: yaml.MappingNode}
		s.fill(m.schema, v, at)
		setMember(n, m.name, v)
	}
}

// rawJSON is a default that is no scalar.
type rawJSON string

func defaultNode(v any) *yaml.Node {
	switch v := v.(type) {
	case rawJSON:
		n, fault := readJSON([]byte(v))
		if fault != nil {
			panic("spec: a default of the table is not JSON: " + string(v))
		}
		return n
	case string:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: v, Style: yaml.DoubleQuotedStyle}
	default:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: fmt.Sprint(v)}
	}
}

func setMember(n *yaml.Node, name string, v *yaml.Node) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			n.Content[i+1] = v
			return
		}
	}
	n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: name, Style: yaml.DoubleQuotedStyle}, v)
}

// Set adds a member at the top, such as `status`, or replaces it. The value is JSON.
func (s *Shown) Set(name string, value []byte) error {
	n, err := jsonNode(value)
	if err != nil {
		return fmt.Errorf("cannot show %s: %w", name, err)
	}
	setMember(s.root, name, n)
	return nil
}

// SetMetadata adds a member to metadata, such as `uid`, or replaces it. The value is JSON.
func (s *Shown) SetMetadata(name string, json []byte) error {
	n, err := jsonNode(json)
	if err != nil {
		return fmt.Errorf("cannot show metadata.%s: %w", name, err)
	}
	metadata := value(s.root, "metadata")
	if metadata == nil || metadata.Kind != yaml.MappingNode {
		metadata = &yaml.Node{Kind: yaml.MappingNode}
		setMember(s.root, "metadata", metadata)
	}
	setMember(metadata, name, n)
	return nil
}

func jsonNode(data []byte) (*yaml.Node, error) {
	n, fault := readJSON(data)
	if fault != nil {
		return nil, fault
	}
	if n == nil {
		return &yaml.Node{Kind: yaml.ScalarNode, Value: "null"}, nil
	}
	return n, nil
}

// JSON is the object on one line; `x-defaulted` lists the fields that the file does not have.
func (s *Shown) JSON() []byte {
	var b bytes.Buffer
	root := s.root
	if len(s.defaulted) > 0 {
		marked := *root
		marked.Content = append([]*yaml.Node(nil), root.Content...)
		list := &yaml.Node{Kind: yaml.SequenceNode}
		for _, field := range s.defaulted {
			list.Content = append(list.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: field, Style: yaml.DoubleQuotedStyle})
		}
		setMember(&marked, defaultedKey, list)
		root = &marked
	}
	writeNode(&b, root)
	return b.Bytes()
}

// MarshalJSON is [Shown.JSON].
func (s *Shown) MarshalJSON() ([]byte, error) { return s.JSON(), nil }

// YAML is the object with every default marked by a comment.
func (s *Shown) YAML() ([]byte, error) { return YAMLOf(s.JSON()) }

// YAMLOf turns JSON into YAML, its keys in their order. What [Shown.JSON] lists in `x-defaulted` gets the comment
// `default` instead, in a List too.
func YAMLOf(data []byte) ([]byte, error) {
	root, err := jsonNode(data)
	if err != nil {
		return nil, err
	}
	markDefaults(root)
	if items := value(root, "items"); items != nil && items.Kind == yaml.SequenceNode {
		for _, item := range items.Content {
			markDefaults(item)
		}
	}
	plainStyle(root)
	var b bytes.Buffer
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	if err := encoder.Encode(root); err != nil {
		return nil, fmt.Errorf("cannot write YAML: %w", err)
	}
	if err := encoder.Close(); err != nil {
		return nil, fmt.Errorf("cannot write YAML: %w", err)
	}
	return b.Bytes(), nil
}

// markDefaults turns an object's list of defaults into comments.
func markDefaults(root *yaml.Node) {
	list := value(root, defaultedKey)
	if list == nil || list.Kind != yaml.SequenceNode {
		return
	}
	fields := map[string]bool{}
	for _, n := range list.Content {
		fields[n.Value] = true
	}
	for i := 0; i+1 < len(root.Content); i += 2 {
		if root.Content[i].Value == defaultedKey {
			root.Content = append(root.Content[:i], root.Content[i+2:]...)
			break
		}
	}
	if body := value(root, "spec"); body != nil {
		commentDefaults(body, (*path)(nil).field("spec"), fields)
	}
}

func commentDefaults(n *yaml.Node, at *path, fields map[string]bool) {
	switch n.Kind {
	case yaml.SequenceNode:
		for i, item := range n.Content {
			commentDefaults(item, at.item(i), fields)
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			k, v := n.Content[i], n.Content[i+1]
			in := at.field(k.Value)
			if !fields[in.String()] {
				commentDefaults(v, in, fields)
			} else if v.Kind == yaml.ScalarNode {
				v.LineComment = "default"
			} else {
				k.HeadComment = "default"
			}
		}
	}
}

// plainStyle takes JSON's quotes away where YAML, in every version, reads the same without them.
func plainStyle(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode {
		if n.Style != yaml.DoubleQuotedStyle {
			return
		}
		n.Tag = "!!str"
		if plainScalar(n.Value) == scalarString {
			n.Style = 0 // the encoder quotes what its grammar wants quoted
		}
		return
	}
	for _, c := range n.Content {
		plainStyle(c)
	}
}
