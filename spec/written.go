package spec

import (
	"bytes"
	"strconv"

	yaml "sigs.k8s.io/yaml/goyaml.v3"
)

// writtenJSON is an object as its file has it: keys in their order, `x-` keys included, without status, our own marks and
// what a cluster adds to metadata.
func writtenJSON(root *yaml.Node) []byte {
	kept := *root
	kept.Content = nil
	for i := 0; i+1 < len(root.Content); i += 2 {
		k, v := root.Content[i], root.Content[i+1]
		switch k.Value {
		case "status", defaultedKey:
			continue
		case "metadata":
			v = withoutCluster(resolveAlias(v), nil)
		}
		kept.Content = append(kept.Content, k, v)
	}
	var b bytes.Buffer
	writeNode(&b, &kept)
	return bytes.Clone(b.Bytes())
}

// withoutCluster is metadata without what a cluster adds to it: people save `kubectl get -o yaml`.
func withoutCluster(n *yaml.Node, dropped func(key string)) *yaml.Node {
	if n.Kind != yaml.MappingNode {
		return n
	}
	kept := *n
	kept.Content = nil
	for i := 0; i+1 < len(n.Content); i += 2 {
		switch key := n.Content[i].Value; key {
		case "uid", "resourceVersion", "generation", "managedFields", "creationTimestamp":
			if dropped != nil {
				dropped(key)
			}
		default:
			kept.Content = append(kept.Content, n.Content[i], n.Content[i+1])
		}
	}
	return &kept
}

func writeNode(b *bytes.Buffer, n *yaml.Node) {
	n = resolveAlias(n)
	switch n.Kind {
	case yaml.MappingNode:
		b.WriteByte('{')
		first := true
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Kind != yaml.ScalarNode {
				continue
			}
			if !first {
				b.WriteByte(',')
			}
			first = false
			b.Write(quoteJSON(n.Content[i].Value))
			b.WriteByte(':')
			writeNode(b, n.Content[i+1])
		}
		b.WriteByte('}')
	case yaml.SequenceNode:
		b.WriteByte('[')
		for i, c := range n.Content {
			if i > 0 {
				b.WriteByte(',')
			}
			writeNode(b, c)
		}
		b.WriteByte(']')
	default:
		writeScalar(b, n)
	}
}

func writeScalar(b *bytes.Buffer, n *yaml.Node) {
	switch kind := scalarOf(n); kind {
	case scalarNull, scalarBool, scalarInt:
		if kind == scalarNull {
			b.WriteString("null")
			return
		}
		b.WriteString(n.Value)
	case scalarFloat:
		if f, err := strconv.ParseFloat(n.Value, 64); err == nil {
			b.WriteString(strconv.FormatFloat(f, 'g', -1, 64))
			return
		}
		b.Write(quoteJSON(n.Value))
	default:
		b.Write(quoteJSON(n.Value))
	}
}
