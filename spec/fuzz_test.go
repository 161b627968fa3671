package spec

import (
	"bytes"
	"strings"
	"testing"

	yaml "sigs.k8s.io/yaml/goyaml.v3"
)

func addCorpus(f *testing.F) {
	for _, folder := range []string{"good", "bad", "later"} {
		for _, data := range corpus(f, folder) {
			f.Add(data)
		}
	}
}

// Decoding never panics, every fault is whole and on one line, and an object that is accepted is accepted again from
// what is shown of it.
func FuzzDecode(f *testing.F) {
	addCorpus(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		file := Decode("f.yaml", data)
		for _, fault := range file.Faults {
			if fault.Kind == "" || fault.Detail == "" || strings.ContainsAny(fault.Error(), "\n\r\x00\x1b") {
				t.Errorf("not a whole fault on one line: %q", fault.Error())
			}
		}
		decodeFile("f.yaml", data, SinceSecurity)
		for _, d := range file.Documents {
			if d.Profile != nil {
				again(t, d.Profile.WithDefaults())
			}
			if d.Server != nil {
				again(t, d.Server.WithDefaults())
			}
		}
	})
}

func again(t *testing.T, s *Shown) {
	t.Helper()
	if f := Decode("f.json", s.JSON()); len(f.Faults) > 0 {
		t.Errorf("what is shown is refused:\n%s%s", faultLines(f.Faults), s.JSON())
	}
	text, err := s.YAML()
	if err != nil {
		t.Fatal(err)
	}
	if f := Decode("f.yaml", text); len(f.Faults) > 0 {
		t.Errorf("what is shown is refused:\n%s%s", faultLines(f.Faults), text)
	}
}

func FuzzDecodeHost(f *testing.F) {
	for _, data := range corpus(f, "later-host") {
		f.Add(data)
	}
	f.Add([]byte("apiVersion: reconciler.dev/v1alpha1\nkind: Host\nmetadata: {name: h}\nspec: {logs: {perServer: 1Mi}, sources: [{name: a, path: /a}], workspaces: [{name: a, path: /a, executables: []}]}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		h, faults := DecodeHost("h.yaml", data)
		if (h == nil) != (len(faults) > 0) {
			t.Errorf("host %v, faults:\n%s", h, faultLines(faults))
		}
		decodeHost("h.yaml", data, SinceSecurity)
	})
}

// Resolving never panics; a launch that it accepts is good, and its hashes do not depend on the order of what has none.
func FuzzResolve(f *testing.F) {
	addCorpus(f)
	f.Add([]byte(small))
	f.Add([]byte(hashed))
	f.Fuzz(func(t *testing.T, data []byte) {
		var profile *Profile
		var servers []*Server
		for _, d := range Decode("f.yaml", data).Documents {
			if d.Profile != nil {
				profile = d.Profile
			}
			if d.Server != nil {
				servers = append(servers, d.Server)
			}
		}
		if profile == nil {
			return
		}
		for _, s := range servers {
			l, faults := Resolve(s, profile, smallHost)
			if len(faults) > 0 {
				continue
			}
			if faults := l.Validate(); len(faults) > 0 {
				t.Errorf("the launch is refused:\n%s", faultLines(faults))
			}
			hash := l.Hash()
			for i, j := 0, len(l.Env)-1; i < j; i, j = i+1, j-1 {
				l.Env[i], l.Env[j] = l.Env[j], l.Env[i]
			}
			for i, j := 0, len(l.Endpoints)-1; i < j; i, j = i+1, j-1 {
				l.Endpoints[i], l.Endpoints[j] = l.Endpoints[j], l.Endpoints[i]
			}
			if l.Hash() != hash {
				t.Error("the order of variables or endpoints changes the hash")
			}
		}
	})
}

// The documents that we cut out are those that the parser finds.
func FuzzSplit(f *testing.F) {
	addCorpus(f)
	f.Add([]byte("a: |\n  ---\n---\nb: \"\n  ---\"\n--- c\n...\n---\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, ok := checkBytes(data); !ok || oddLineEnd(data) >= 0 {
			return
		}
		var whole []string
		decoder := yaml.NewDecoder(bytes.NewReader(data))
		for {
			var n yaml.Node
			if err := decoder.Decode(&n); err != nil {
				if err.Error() == "EOF" {
					break
				}
				return // not YAML at all
			}
			whole = append(whole, nodeText(&n))
		}
		var parts []string
		for _, c := range splitDocuments(data) {
			root, fault := readYAML(c.text, c.line)
			if fault != nil {
				return
			}
			if root != nil {
				parts = append(parts, nodeText(root))
			}
		}
		var given []string
		for _, w := range whole {
			if w != "" {
				given = append(given, w)
			}
		}
		var cut []string
		for _, p := range parts {
			if p != "" {
				cut = append(cut, p)
			}
		}
		if strings.Join(given, "\x00") != strings.Join(cut, "\x00") {
			t.Errorf("whole: %q\nparts: %q", given, cut)
		}
	})
}

// nodeText is a document's content, "" for an empty one.
func nodeText(n *yaml.Node) string {
	if n.Kind == yaml.DocumentNode {
		if len(n.Content) == 0 {
			return ""
		}
		n = n.Content[0]
	}
	if n.Kind == yaml.ScalarNode && scalarOf(n) == scalarNull {
		return ""
	}
	if checkShape(n) != nil {
		return "too much"
	}
	var b bytes.Buffer
	writeNode(&b, n)
	return b.String()
}

// A job that is asked for directly is whole, or has faults; whole, it is one by the rules of its type.
func FuzzDecodeJob(f *testing.F) {
	addCorpus(f)
	f.Add([]byte(`{"apiVersion":"reconciler.dev/v1alpha1","kind":"Job","metadata":{"name":"j"},"spec":{"server":"a","type":"Stop"}}`))
	f.Add([]byte(`{"apiVersion":"reconciler.dev/v1alpha1","kind":"Job","metadata":{"name":"j"},"spec":{"server":"a","command":"b","parameters":{"c":1,"d":"e"}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		j, faults := DecodeJob(data)
		if (j == nil) != (len(faults) > 0) {
			t.Fatalf("a job %v with faults %v", j, faults)
		}
		if j == nil {
			return
		}
		if kind := j.Spec.Kind(); kind != JobStart && kind != JobStop { // which are not for a source
			again(t, j.WithDefaults())
		}
		if !IsLabel(j.Name) || !IsLabel(j.Spec.Server) || (j.Spec.Kind() == JobCommand) != IsLabel(j.Spec.Command) ||
			j.Spec.Attempts() != 1 || j.Spec.Cancel || j.Spec.Deadline() <= 0 || len(j.Spec.Parameters) > 0 && j.Spec.Kind() != JobCommand {
			t.Errorf("taken: %+v", j.Spec)
		}
	})
}
