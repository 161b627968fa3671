package spec

import (
	"reflect"
	"strings"

	yaml "sigs.k8s.io/yaml/goyaml.v3"
)

// decodeObject reads one object of a manifest.
func decodeObject(o source, upTo Since) (Document, []Fault, []Fault) {
	d := &decoder{document: o.index, root: o.root, base: o.path, upTo: upTo}
	document := Document{Index: o.index, Line: o.root.Line}
	document.Kind, document.Key = d.peek()
	switch document.Kind {
	case KindProfile:
		p := new(Profile)
		d.kind(KindProfile, p)
		d.profile(p)
		if p.Written = writtenJSON(o.root); len(d.faults) == 0 {
			document.Profile = p
		}
	case KindServer:
		s := new(Server)
		d.kind(KindServer, s)
		d.server(s)
		if s.Written = writtenJSON(o.root); len(d.faults) == 0 {
			document.Server = s
		}
	case KindJob:
		j := new(Job)
		d.kind(KindJob, j)
		d.job(j)
		if j.Written = writtenJSON(o.root); len(d.faults) == 0 {
			document.Job = j
		}
	case KindHost:
		document.Kind = ""
		d.fault((*path)(nil).field("kind"), FaultForbidden, "", "a Host is read from --host-config alone, never from a source: take it out of this file")
	}
	return document, d.faults, d.notes
}

// DecodeHost reads a host configuration file. With faults the Host is nil.
func DecodeHost(file string, data []byte) (*Host, []Fault) {
	host, faults := decodeHost(file, data, available)
	for i := range faults {
		faults[i].File = file
	}
	sortFaults(faults)
	if len(faults) > 0 {
		return nil, faults
	}
	return host, nil
}

func decodeHost(file string, data []byte, upTo Since) (*Host, []Fault) {
	documents, faults := readDocuments(file, data)
	if len(faults) > 0 {
		return nil, faults
	}
	objects := flatten(documents)
	if len(objects) != 1 {
		return nil, []Fault{{Line: 1, Kind: FaultInvalid, Detail: "a host configuration must hold exactly one object of kind Host"}}
	}
	o := objects[0]
	d := &decoder{document: o.index, root: o.root, base: o.path, upTo: upTo}
	kind, _ := d.peek()
	if len(d.faults) > 0 {
		return nil, d.faults
	}
	if kind != KindHost {
		d.fault((*path)(nil).field("kind"), FaultUnsupported, kind, "a host configuration must be of kind Host")
		return nil, d.faults
	}
	host := new(Host)
	d.kind(KindHost, host)
	d.host(host)
	host.Written = writtenJSON(o.root)
	return host, d.faults
}

// DecodeJob reads a Job that is asked for directly, not by a source: it may be of any type, is asked for once and not withdrawn.
// With faults the Job is nil.
func DecodeJob(data []byte) (*Job, []Fault) {
	documents, faults := readDocuments("", data)
	objects := flatten(documents)
	if len(faults) == 0 && len(objects) != 1 {
		faults = []Fault{{Line: 1, Kind: FaultInvalid, Detail: "must be exactly one object of kind Job"}}
	}
	if len(faults) > 0 {
		return nil, faults
	}
	o := objects[0]
	d := &decoder{document: o.index, root: o.root, base: o.path, upTo: available}
	if kind, _ := d.peek(); len(d.faults) == 0 && kind != KindJob {
		d.fault((*path)(nil).field("kind"), FaultUnsupported, kind, "must be '"+KindJob+"'")
	}
	if len(d.faults) > 0 {
		return nil, d.faults
	}
	j := new(Job)
	d.kind(KindJob, j)
	d.rulesOf().directJob(&j.Spec)
	if len(d.faults) > 0 {
		return nil, d.faults
	}
	j.Written = writtenJSON(o.root)
	return j, nil
}

// peek reads what says which kind of object this is, and its key.
func (d *decoder) peek() (kind string, key Key) {
	root := d.root
	if root.Kind != yaml.MappingNode {
		d.fault(nil, FaultInvalid, "", "must be an object with apiVersion, kind, metadata and spec")
		return "", Key{}
	}
	key = readKey(root)
	at := (*path)(nil)
	if n := value(root, "apiVersion"); n == nil {
		d.fault(at.field("apiVersion"), FaultRequired, "", "must be '"+APIVersion+"'")
	} else if n.Kind != yaml.ScalarNode || n.Value != APIVersion {
		d.fault(at.field("apiVersion"), FaultUnsupported, n.Value, "must be '"+APIVersion+"'")
	}
	const must = "must be one of 'Profile', 'Server', 'Job'"
	n := value(root, "kind")
	switch {
	case n == nil:
		d.fault(at.field("kind"), FaultRequired, "", must)
	case n.Kind == yaml.ScalarNode && kinds()[n.Value] != nil:
		return n.Value, key
	default:
		d.fault(at.field("kind"), FaultUnsupported, n.Value, must+didYouMean(n.Value, []string{KindProfile, KindServer, KindJob}))
	}
	return "", key
}

// readKey is an object's key, zero unless both of its parts are what they must be: a key is used in names of files.
func readKey(root *yaml.Node) Key {
	metadata := value(root, "metadata")
	if metadata == nil {
		return Key{}
	}
	key := Key{Namespace: DefaultNamespace}
	if n := value(metadata, "name"); n != nil && n.Kind == yaml.ScalarNode {
		key.Name = n.Value
	}
	if n := value(metadata, "namespace"); n != nil && !isNull(n) {
		key.Namespace = n.Value
	}
	if !IsLabel(key.Name) || !IsLabel(key.Namespace) {
		return Key{}
	}
	return key
}

// kind reads the object into its Go type.
func (d *decoder) kind(kind string, into any) {
	s := kinds()[kind]
	v := reflect.ValueOf(into).Elem()
	metadata, body := s.member("metadata"), s.member("spec")
	seen := newKeys(d.root)
	for i := 0; i+1 < len(d.root.Content); i += 2 {
		k, n := d.root.Content[i], d.root.Content[i+1]
		at := (*path)(nil).field(k.Value)
		if !d.key(k, at, seen) {
			continue
		}
		switch k.Value {
		case "apiVersion", "kind":
		case "metadata":
			d.metadata(metadata, n, v.FieldByIndex(metadata.index), at)
		case "spec":
			d.member(body, n, v.FieldByIndex(body.index), at)
		case "status":
			d.note(at, "status is ours to say: it is ignored")
		default:
			if !d.extension(k.Value, at) {
				d.unknown(k, at, []string{"apiVersion", "kind", "metadata", "spec"})
			}
		}
	}
	for _, m := range []*member{metadata, body} {
		if n := value(d.root, m.name); n == nil || isNull(n) {
			d.fault((*path)(nil).field(m.name), FaultRequired, "", "must be given")
		}
	}
}

// metadata drops what a cluster adds, and checks the annotations that are ours.
func (d *decoder) metadata(m *member, n *yaml.Node, v reflect.Value, at *path) {
	in := withoutCluster(resolveAlias(n), func(key string) {
		d.note(at.field(key), "what a cluster adds is ignored")
	})
	d.member(m, in, v, at)
	meta := v.Addr().Interface().(*Meta)
	if meta.Namespace == "" {
		meta.Namespace = DefaultNamespace
	}
	for key, val := range meta.Annotations {
		if key == PruneAnnotation && val != PruneDisabled {
			d.fault(at.field("annotations").entry(key), FaultUnsupported, val, "must be '"+PruneDisabled+"', or the annotation absent")
		} else if strings.HasPrefix(key, "reconciler.dev/") && key != PruneAnnotation {
			d.fault(at.field("annotations").entry(key), FaultUnsupported, "", "the only annotation of reconciler.dev is '"+PruneAnnotation+"'")
		}
	}
}
