package spec

import "testing"

// Every fault that Decode places is found again by its field, where the file has it.
func TestLocate(t *testing.T) {
	for _, c := range []struct {
		kind         string
		key          Key
		field        string
		line, column int
	}{
		{KindProfile, Key{DefaultNamespace, "openttd"}, "spec.parameters[1].defaultFrom.add", 8, 70},
		{KindProfile, Key{DefaultNamespace, "openttd"}, "spec.actions.start.args[2]", 10, 88},
		{KindProfile, Key{DefaultNamespace, "openttd"}, "spec.directory.path", 6, 3}, // absent: what it would be in
		{KindServer, Key{DefaultNamespace, "town"}, "spec.parameters[port]", 19, 45},
		{KindServer, Key{DefaultNamespace, "town"}, "spec.parameters[nonesuch]", 19, 38},
		{KindServer, Key{DefaultNamespace, "town"}, "", 16, 1},
		{KindServer, Key{"other", "town"}, "spec", 0, 0},
		{KindProfile, Key{DefaultNamespace, "town"}, "spec", 0, 0},
	} {
		line, column := Locate("small.yaml", []byte(small), c.kind, c.key, c.field)
		if line != c.line || column != c.column {
			t.Errorf("%s %s %s is at %d:%d, want %d:%d", c.kind, c.key, c.field, line, column, c.line, c.column)
		}
	}
}

func TestParsePath(t *testing.T) {
	for _, field := range []string{"", "spec", "spec.env[0].name", "metadata.labels[reconciler.dev/a.b]", "items[3].spec.parameters[a]", "spec.a[0][1]"} {
		if got := parsePath(field).String(); got != field {
			t.Errorf("%q becomes %q", field, got)
		}
	}
	for _, field := range []string{"[", "]", "..", "a..b", "a[", "a]b", "[[0]]", "a[0]b"} {
		_ = parsePath(field).String() // what is no path is no crash
	}
}
