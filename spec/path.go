package spec

import (
	"strconv"
	"strings"

	yaml "sigs.k8s.io/yaml/goyaml.v3"
)

// path is the way to a value, as a list from the value up to the document. It costs nothing until a fault shows it.
type path struct {
	up    *path
	name  string // of a member or a key
	index int    // of a list item, when name is ""
	key   bool   // name is a key of a dict
}

func (p *path) field(name string) *path { return &path{up: p, name: name} }
func (p *path) entry(key string) *path  { return &path{up: p, name: key, key: true} }
func (p *path) item(i int) *path        { return &path{up: p, index: i} }

// String is the path as Kubernetes prints it: spec.endpoints[0].port, metadata.labels[app].
func (p *path) String() string {
	if p == nil {
		return ""
	}
	var b strings.Builder
	p.write(&b)
	return b.String()
}

func (p *path) write(b *strings.Builder) {
	if p.up != nil {
		p.up.write(b)
	}
	switch {
	case p.key:
		b.WriteByte('[')
		b.WriteString(shorten(p.name))
		b.WriteByte(']')
	case p.name != "":
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(shorten(p.name))
	default:
		b.WriteByte('[')
		b.WriteString(strconv.Itoa(p.index))
		b.WriteByte(']')
	}
}

// locate finds the node at a path, or the nearest one above it that is there.
func locate(root *yaml.Node, p *path) *yaml.Node {
	n, _ := locateExact(root, p)
	return n
}

func locateExact(root *yaml.Node, p *path) (*yaml.Node, bool) {
	if p == nil {
		return root, true
	}
	n, ok := locateExact(root, p.up)
	if !ok {
		return n, false
	}
	in := resolveAlias(n)
	switch {
	case p.name == "" && in.Kind == yaml.SequenceNode && p.index < len(in.Content):
		return in.Content[p.index], true
	case p.name != "" && in.Kind == yaml.MappingNode:
		for i := 0; i+1 < len(in.Content); i += 2 {
			if in.Content[i].Value == p.name {
				return in.Content[i+1], true
			}
		}
	}
	return n, false
}

func resolveAlias(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode && n.Alias != nil {
		n = n.Alias
	}
	return n
}

// shorten keeps a name or value that a fault shows on one short line.
func shorten(s string) string {
	const most = 64
	cut := len(s)
	runes := 0
	for i := range s {
		if runes == most {
			cut = i
			break
		}
		runes++
	}
	q := strconv.Quote(s[:cut])
	q = q[1 : len(q)-1]
	if cut < len(s) {
		q += "..."
	}
	return q
}
