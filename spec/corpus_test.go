package spec

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	yaml "sigs.k8s.io/yaml/goyaml.v3"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares with a file, or writes it.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; got:\n%s", file, got)
	}
}

// corpus is the manifests of one folder of the corpus.
func corpus(t testing.TB, folder string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	names, err := filepath.Glob(filepath.Join("testdata", "corpus", folder, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if ext := filepath.Ext(name); ext != ".yaml" && ext != ".json" {
			continue
		}
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files[filepath.Base(name)] = data
	}
	if len(files) == 0 {
		t.Fatalf("the corpus has no folder %s", folder)
	}
	return files
}

func faultLines(faults []Fault) string {
	var b strings.Builder
	for _, f := range faults {
		b.WriteString(f.Error())
		b.WriteByte('\n')
	}
	return b.String()
}

func TestCorpusGood(t *testing.T) {
	for name, data := range corpus(t, "good") {
		f := Decode(name, data)
		if !f.Ours || len(f.Faults) > 0 {
			t.Errorf("%s: ours is %v, faults:\n%s", name, f.Ours, faultLines(f.Faults))
		}
		for _, d := range f.Documents {
			if d.Profile == nil && d.Server == nil && d.Job == nil {
				t.Errorf("%s: document %d holds no object", name, d.Index)
			}
		}
	}
}

// Every fault of every bad manifest, to the letter.
func TestCorpusBad(t *testing.T) {
	for name, data := range corpus(t, "bad") {
		f := Decode(name, data)
		if !f.Ours || len(f.Faults) == 0 {
			t.Errorf("%s: ours is %v, and there are %d faults", name, f.Ours, len(f.Faults))
		}
		golden(t, filepath.Join("testdata", "corpus", "bad", name+".faults"), faultLines(f.Faults))
		for _, fault := range f.Faults {
			if fault.Line == 0 || fault.Kind == "" || fault.Detail == "" || strings.ContainsAny(fault.Error(), "\n\x00\x1b") {
				t.Errorf("%s: not a whole fault on one line: %q", name, fault.Error())
			}
		}
	}
}

// Whole servers of later versions: refused field by field and by name, good without those fields, and good when their
// time has come.
func TestCorpusLater(t *testing.T) {
	for name, data := range corpus(t, "later") {
		f := Decode(name, data)
		if len(f.Faults) == 0 {
			t.Errorf("%s: nothing is refused", name)
		}
		for _, fault := range f.Faults {
			if fault.Kind != FaultForbidden || !strings.HasSuffix(fault.Detail, notAvailable) {
				t.Errorf("not refused for its version: %s", fault.Error())
			}
		}
		if f := decodeFile(name, data, SinceSecurity); len(f.Faults) > 0 {
			t.Errorf("refused when every field is there:\n%s", faultLines(f.Faults))
		}
		stripped := strip(t, name, data)
		f = Decode(name, stripped)
		if len(f.Faults) > 0 {
			t.Errorf("%s without its later fields is refused:\n%s", name, faultLines(f.Faults))
		}
		profiles := 0
		for _, d := range f.Documents {
			if d.Profile != nil {
				profiles++
			}
		}
		if profiles == 0 {
			t.Errorf("%s without its later fields has no profile", name)
		}
	}
	for name, data := range corpus(t, "later-host") {
		_, faults := DecodeHost(name, data)
		for _, fault := range faults {
			if !strings.HasSuffix(fault.Detail, notAvailable) {
				t.Errorf("not refused for its version: %s", fault.Error())
			}
		}
		if _, faults := decodeHost(name, data, SinceSecurity); len(faults) > 0 || name == "" {
			t.Errorf("refused when every field is there:\n%s", faultLines(faults))
		}
	}
}

// strip takes out of a manifest what this version refuses, and what is empty without it.
func strip(t *testing.T, name string, data []byte) []byte {
	t.Helper()
	for range 10 {
		f := Decode(name, data)
		documents, _ := readDocuments(name, data)
		drop := map[*yaml.Node]bool{}
		objects := map[int]bool{}
		for _, fault := range f.Faults {
			later := strings.HasSuffix(fault.Detail, notAvailable)
			empty := strings.HasPrefix(fault.Detail, "must have exactly one of") || fault.Kind == FaultTooFew
			unknown := fault.Kind == FaultNotFound || fault.Detail == noConsole
			switch {
			case fault.Field == "kind":
				objects[fault.Document] = true
			case later, empty, unknown:
				for _, d := range documents {
					if d.index == fault.Document {
						drop[nodeAt(d.root, fault)] = true
					}
				}
			default:
				t.Fatalf("%s: stripping met %s", name, fault.Error())
			}
		}
		var out bytes.Buffer
		encoder := yaml.NewEncoder(&out)
		for _, d := range documents {
			if d.root != nil && !objects[d.index] {
				prune(d.root, drop)
				if err := encoder.Encode(d.root); err != nil {
					t.Fatal(err)
				}
			}
		}
		data = out.Bytes()
		if len(f.Faults) == 0 {
			return data
		}
	}
	t.Fatalf("%s: stripping does not end", name)
	return nil
}

// nodeAt finds the node that a fault points at.
func nodeAt(n *yaml.Node, f Fault) *yaml.Node {
	var found *yaml.Node
	var visit func(n *yaml.Node)
	visit = func(n *yaml.Node) {
		if n.Line == f.Line && n.Column == f.Column && found == nil {
			found = n
		}
		for _, c := range n.Content {
			visit(c)
		}
	}
	visit(n)
	return found
}

// prune drops nodes: a key with its value, an item, a value with its key.
func prune(n *yaml.Node, drop map[*yaml.Node]bool) {
	var kept []*yaml.Node
	step := 1
	if n.Kind == yaml.MappingNode {
		step = 2
	}
	for i := 0; i < len(n.Content); i += step {
		group := n.Content[i : i+step]
		if drop[group[0]] || drop[group[step-1]] {
			continue
		}
		prune(group[step-1], drop)
		kept = append(kept, group...)
	}
	n.Content = kept
}
