package spec

import (
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

var allKinds = map[string]reflect.Type{
	KindProfile: reflect.TypeFor[Profile](),
	KindServer:  reflect.TypeFor[Server](),
	KindJob:     reflect.TypeFor[Job](),
	KindHost:    reflect.TypeFor[Host](),
}

// Every field of every Go type has a row with a class and a since, and every row has a field. The golden file is
// API.md's columns, to be read against it.
func TestTableHasEveryField(t *testing.T) {
	var b strings.Builder
	for _, kind := range []string{KindProfile, KindServer, KindJob, KindHost} {
		rows := map[string]FieldInfo{}
		for _, row := range Fields(kind) {
			if rows[row.Path].Path != "" {
				t.Errorf("%s: %s has two rows", kind, row.Path)
			}
			rows[row.Path] = row
			b.WriteString(fmt.Sprintf("%s %s: %s, since %s", kind, row.Path, row.Class, row.Since))
			if row.Required {
				b.WriteString(", required")
			}
			if row.Default != "" {
				b.WriteString(", default " + row.Default)
			}
			b.WriteByte('\n')
			switch row.Class {
			case ClassRestart, ClassReload, ClassLive, ClassInert, ClassByUse:
			default:
				t.Errorf("%s: %s has class %q", kind, row.Path, row.Class)
			}
			if row.Since < SinceLoop || row.Since > SinceSecurity {
				t.Errorf("%s: %s has since %d", kind, row.Path, row.Since)
			}
		}
		for _, path := range goFields(allKinds[kind], "") {
			if rows[path].Path == "" {
				t.Errorf("%s: the Go field %s has no row", kind, path)
			}
			delete(rows, path)
		}
		for path := range rows {
			t.Errorf("%s: the row %s has no Go field", kind, path)
		}
	}
	golden(t, filepath.Join("testdata", "fields.txt"), b.String())
}

// goFields walks a type by itself, without the table.
func goFields(t reflect.Type, at string) []string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == reflect.TypeFor[IntOrString]():
		return nil
	case t.Kind() == reflect.Slice || t.Kind() == reflect.Map:
		return goFields(t.Elem(), at+"[]")
	case t.Kind() != reflect.Struct:
		return nil
	}
	var paths []string
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-":
		case name == "" && f.Anonymous:
			paths = append(paths, goFields(f.Type, at)...)
		default:
			path := strings.TrimPrefix(at+"."+name, ".")
			paths = append(append(paths, path), goFields(f.Type, path)...)
		}
	}
	return paths
}

// A member never begins to work before what it is in.
func TestTableSinceGrows(t *testing.T) {
	for kind := range allKinds {
		since := map[string]Since{}
		for _, row := range Fields(kind) {
			since[row.Path] = row.Since
			for parent := row.Path; ; {
				i := strings.LastIndexByte(parent, '.')
				if i < 0 {
					break
				}
				parent = parent[:i]
				if s, ok := since[strings.TrimSuffix(parent, "[]")]; ok && s > row.Since {
					t.Errorf("%s: %s is since %d, %s since %d", kind, row.Path, row.Since, parent, s)
				}
			}
		}
	}
}

// Defaults obey their own rows.
func TestTableDefaults(t *testing.T) {
	for kind := range allKinds {
		walk(kinds()[kind], "", func(path string, m *member) {
			detail := ""
			switch v := m.def.(type) {
			case string:
				if m.form == formQuantity {
					_, detail = m.checkNumber(IntOrString{IsString: true, String: v})
				} else {
					_, detail = m.checkText(v, false)
				}
			case int64:
				detail = checkRange(v, m.min, m.max)
			}
			if detail != "" {
				t.Errorf("%s: the default of %s %s", kind, path, detail)
			}
		})
	}
}

// Every field says what it is for, and nothing is said of a field that there is not.
func TestTableDescribesEveryField(t *testing.T) {
	used := map[string]bool{}
	for kind := range allKinds {
		walk(kinds()[kind], "", func(path string, m *member) {
			if !strings.HasSuffix(m.doc, ".") {
				t.Errorf("%s: %s is described by %q", kind, path, m.doc)
			}
			used[m.doc] = true
		})
	}
	for field, doc := range descriptions {
		if !used[doc] {
			t.Errorf("%s is described and is no field", field)
		}
	}
}

// The CRDs as a cluster gets them, so that a change of theirs is seen.
func TestCRDs(t *testing.T) {
	golden(t, filepath.Join("testdata", "crds.yaml"), string(CRDs()))
}
