package spec

import (
	"strconv"
	"strings"
)

// Locate is the line and column of a field of an object in its file, or of what is nearest above it there: it gives
// the faults of [Resolve] their places. Both are 0 when the file does not have the object.
func Locate(file string, data []byte, kind string, key Key, field string) (line, column int) {
	documents, _ := readDocuments(file, data)
	for _, o := range flatten(documents) {
		d := decoder{root: o.root}
		if k, at := d.peek(); k == kind && at == key {
			n := locate(o.root, parsePath(field))
			return n.Line, n.Column
		}
	}
	return 0, 0
}

// parsePath is the reverse of [path.String], for paths whose keys needed no escape.
func parsePath(field string) *path {
	var at *path
	for field != "" {
		if rest, ok := strings.CutPrefix(field, "["); ok {
			key, after, _ := strings.Cut(rest, "]")
			if i, err := strconv.Atoi(key); err == nil {
				at = at.item(i)
			} else {
				at = at.entry(key)
			}
			field = after
			continue
		}
		field = strings.TrimPrefix(field, ".")
		end := strings.IndexAny(field, ".[")
		if end < 0 {
			end = len(field)
		}
		if end == 0 {
			return at
		}
		at, field = at.field(field[:end]), field[end:]
	}
	return at
}
