package dir

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"sync/atomic"

	"reconciler.dev/reconciler/spec"
)

// sizeLimit is the size in bytes of the largest manifest that is read.
const sizeLimit = 1 << 20

// content is what one reading of a file yielded. But for the bytes, which are let go once they are kept on disk, it is
// never changed.
type content struct {
	hash    [sha256.Size]byte
	bytes   atomic.Pointer[[]byte] // of good content that is not on disk yet
	objects []*object              // none unless the file is without fault
	faults  []spec.Fault
	notes   []spec.Fault
	skipped string // why it is none of ours; "" = it is
	raw     []byte // of content that could not be read whole: what it may hold is not known otherwise
}

// object is one object of a content.
type object struct {
	key      spec.ObjectKey
	document int
	line     int
	keep     bool // the annotation says to keep it when it leaves its file
	profile  *spec.Profile
	server   *spec.Server
	job      *spec.Job
}

// good reports whether the content may replace what was there: it has objects and no fault.
func (c *content) good() bool { return c != nil && len(c.objects) > 0 }

// find returns the content's object of that key, nil when it has none.
func (c *content) find(key spec.ObjectKey) *object {
	for _, o := range c.objects {
		if o.key == key {
			return o
		}
	}
	return nil
}

// decode makes a content of a file's bytes.
func decode(path string, data []byte, hash [sha256.Size]byte, with func(string, []byte) spec.File) *content {
	f := with(path, data)
	c := &content{hash: hash, faults: f.Faults, notes: f.Notes}
	if len(f.Faults) > 0 {
		c.raw = data
	}
	switch {
	case !f.Ours:
		c.faults, c.skipped = nil, cmp.Or(f.Reason, "it holds no object")
		return c
	case len(f.Faults) > 0:
		return c
	case len(f.Documents) == 0:
		c.skipped = cmp.Or(f.Reason, "it holds no object")
		return c
	}
	lines := make(map[spec.ObjectKey]int, len(f.Documents))
	objects := make([]*object, 0, len(f.Documents))
	for _, d := range f.Documents {
		o := &object{key: spec.ObjectKey{Kind: d.Kind, Key: d.Key}, document: d.Index, line: d.Line,
			profile: d.Profile, server: d.Server, job: d.Job}
		switch {
		case d.Profile != nil:
			o.key.Kind, o.keep = spec.KindProfile, d.Profile.PruneDisabled()
		case d.Server != nil:
			o.key.Kind, o.keep = spec.KindServer, d.Server.PruneDisabled()
		case d.Job != nil:
			o.key.Kind, o.keep = spec.KindJob, d.Job.PruneDisabled()
		default:
			continue
		}
		if first, twice := lines[o.key]; twice {
			c.faults = append(c.faults, spec.Fault{File: path, Line: d.Line, Document: d.Index, Field: "metadata.name",
				Kind: spec.FaultDuplicate, Value: o.key.Name,
				Detail: fmt.Sprintf("%s is in this file already, at line %d; rename or remove one of them", o.key, first)})
			continue
		}
		lines[o.key] = d.Line
		objects = append(objects, o)
	}
	if len(c.faults) > 0 {
		c.raw = data
		return c
	}
	c.objects = objects
	return c
}

// mentions reports whether the faulty content has the name as a word of its own. It cannot be read, so that it may hold
// the object of that name.
func (c *content) mentions(name string) bool {
	if c == nil {
		return false
	}
	for from := 0; ; {
		at := bytes.Index(c.raw[from:], []byte(name))
		if at < 0 {
			return false
		}
		at += from
		end := at + len(name)
		if (at == 0 || !isNameByte(c.raw[at-1])) && (end == len(c.raw) || !isNameByte(c.raw[end])) {
			return true
		}
		from = at + 1
	}
}

// isNameByte reports whether c can be in a DNS label.
func isNameByte(c byte) bool {
	return c == '-' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z'
}

// tooLarge is the content of a file that is not read because of its size.
func tooLarge(path string, size int64) *content {
	return &content{
		hash: sha256.Sum256(fmt.Appendf(nil, "%d bytes", size)),
		faults: []spec.Fault{{File: path, Kind: spec.FaultTooLong, Value: fmt.Sprintf("%d bytes", size),
			Detail: fmt.Sprintf("must be at most %d bytes; split the file", sizeLimit)}},
	}
}
