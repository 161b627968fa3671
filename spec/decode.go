package spec

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	yaml "sigs.k8s.io/yaml/goyaml.v3"
)

// File is what a manifest file holds.
type File struct {
	Name string
	// Ours is false when no document has an apiVersion or kind at its top; Reason then says so in words for people.
	Ours   bool
	Reason string
	// Documents holds every object, in the file's order. Items of a List are documents of their own.
	Documents []Document
	// Faults is everything that is wrong. A file with faults must not be accepted.
	Faults []Fault
	// Notes is what was ignored, or is not portable: nothing that stands in the way.
	Notes []Fault
}

// Document is one object of a file.
type Document struct {
	Index int    // of the YAML document, from 0; items of a List share it
	Line  int    // of its first key, from 1
	Kind  string // Profile, Server or Job; "" = could not be told
	Key   Key    // zero if name or namespace is faulty
	// Exactly one of the three is set when the document has no fault, else none.
	Profile *Profile
	Server  *Server
	Job     *Job
}

// Decode reads a manifest file, YAML or JSON by its content. It never fails: what is wrong is in Faults, all of it at
// once. The name is only used in faults and to recognise other tools' files.
func Decode(file string, data []byte) File { return decodeFile(file, data, available) }

// decodeFile is Decode for a version that can do what upTo says.
func decodeFile(file string, data []byte, upTo Since) File {
	f := File{Name: file}
	if reason := foreignName(file); reason != "" {
		f.Reason = reason
		return f
	}
	documents, faults := readDocuments(file, data)
	objects := flatten(documents)
	if len(objects) > maxObjects {
		faults = append(faults, Fault{Line: objects[maxObjects].root.Line, Kind: FaultTooMany, Detail: tooManyObjects})
		objects = objects[:maxObjects]
	}
	f.Ours = len(faults) > 0 && mentionsUs(data)
	for _, o := range objects {
		f.Ours = f.Ours || o.isOurs()
	}
	switch {
	case f.Ours:
	case len(faults) > 0:
		f.Reason = "it is not valid, and no line of it says apiVersion or kind"
	case len(objects) == 0:
		f.Reason = "it holds no object"
	default:
		f.Reason = "it has neither apiVersion nor kind at its top"
	}
	f.add(file, faults)
	if !f.Ours {
		return f
	}
	seen := map[string]bool{}
	for _, o := range objects {
		document, faults, notes := decodeObject(o, upTo)
		if id := document.Kind + " " + document.Key.String(); document.Kind != "" && document.Key.Name != "" {
			if seen[id] {
				faults = append(faults, o.twice(document))
				document.Profile, document.Server, document.Job = nil, nil, nil
			}
			seen[id] = true
		}
		f.Documents = append(f.Documents, document)
		f.add(file, faults)
		for i := range notes {
			notes[i].File = file
		}
		f.Notes = append(f.Notes, notes...)
	}
	sortFaults(f.Faults)
	return f
}

// sortFaults puts faults in the order in which a reader of the file meets them.
func sortFaults(faults []Fault) {
	slices.SortStableFunc(faults, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}

// add takes over faults, as many as a person will read.
func (f *File) add(file string, faults []Fault) {
	for _, fault := range faults {
		fault.File = file
		if len(f.Faults) == maxFaults {
			f.Faults = append(f.Faults, Fault{File: file, Line: fault.Line, Kind: FaultTooMany, Detail: fmt.Sprintf("there are more than %d faults: the rest is not shown", maxFaults)})
		}
		if len(f.Faults) > maxFaults {
			return
		}
		f.Faults = append(f.Faults, fault)
	}
}

// foreignName recognises files that other tools own, whatever they hold.
func foreignName(file string) string {
	switch filepath.Base(file) {
	case "kustomization.yaml", "kustomization.yml", "Kustomization":
		return "it is kustomize's own file"
	}
	return ""
}

// mentionsUs reports whether a file that cannot be read looks as if it were meant for us.
func mentionsUs(data []byte) bool {
	for _, key := range []string{"apiVersion", "kind"} {
		for rest := string(data); ; {
			_, after, ok := strings.Cut(rest, key)
			if !ok {
				break
			}
			if strings.HasPrefix(strings.TrimLeft(after, "\"' \t"), ":") {
				return true
			}
			rest = after
		}
	}
	return false
}

// source is one object before it is understood.
type source struct {
	index int
	root  *yaml.Node
	path  *path // of the object in its document: items[0] in a List
}

func (o source) isOurs() bool {
	return value(o.root, "apiVersion") != nil || value(o.root, "kind") != nil
}

// twice is the fault of an object that is in the file already.
func (o source) twice(d Document) Fault {
	at := (*path)(nil).field("metadata").field("name")
	n := locate(o.root, at)
	place := decoder{document: o.index, base: o.path}
	return place.place(n, at, FaultDuplicate, d.Key.Name, "this file has a "+d.Kind+" of this name already: rename or remove one")
}

// flatten lists the objects of a file; a List is its items.
func flatten(documents []document) []source {
	var objects []source
	for _, d := range documents {
		if d.root == nil {
			continue
		}
		root := resolveAlias(d.root)
		if root.Kind == yaml.ScalarNode && scalarOf(root) == scalarNull {
			continue
		}
		items := listItems(root)
		if items == nil {
			objects = append(objects, source{index: d.index, root: root})
			continue
		}
		for i, item := range items.Content {
			at := (*path)(nil).field("items").item(i)
			objects = append(objects, source{index: d.index, root: resolveAlias(item), path: at})
		}
	}
	return objects
}

// listItems is the list of items of a List (apiVersion v1, or ours), nil for anything else.
func listItems(root *yaml.Node) *yaml.Node {
	kind, items, version := value(root, "kind"), value(root, "items"), value(root, "apiVersion")
	if kind == nil || items == nil || kind.Value != "List" || items.Kind != yaml.SequenceNode ||
		version == nil || version.Value != "v1" && version.Value != APIVersion {
		return nil
	}
	return items
}

// value is the value of a key of an object, nil if it is not there.
func value(n *yaml.Node, key string) *yaml.Node {
	if n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return resolveAlias(n.Content[i+1])
		}
	}
	return nil
}
