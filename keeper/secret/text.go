package secret

import (
	"errors"
	"fmt"
	"slices"

	"reconciler.dev/reconciler/spec"
)

// Text is a text of a launch with its secrets filled in.
type Text struct {
	Value          // the whole text
	Parts []Value  // the secrets in it, none twice, the longest first: what must not be shown again. None = the text is none
	Refs  []string // what each of Parts is called, NAME/KEY
}

// Redact returns b with every secret of the text replaced by "[secret]". What surrounds the secrets in the text is none.
func (t Text) Redact(b []byte) []byte { return Redact(b, t.Parts...) }

// Zero overwrites the text and its secrets in memory, as [Value.Zero] does.
func (t Text) Zero() {
	t.Value.Zero()
	for _, v := range t.Parts {
		v.Zero()
	}
}

// Fill reads the secrets that a launch's text has marks of (see [spec.MarkSecret]) and puts them into it. Each is read anew,
// once. It fails as [Store.Read] does, and when the secrets of the text are larger than [Limit] together. A text without
// marks is filled without a look at the disk.
//
// This is the one way from a launch to what is delivered: environment, arguments, console.password, basicAuth and headers.
func (s Store) Fill(text string) (Text, error) {
	if !spec.HasSecret(text) {
		return Text{Value: New([]byte(text))}, nil
	}
	f := filling{store: s}
	closed := spec.CutSecrets(text, func(literal string) { f.add([]byte(literal)) }, f.secret)
	if f.err == nil && !closed {
		f.err = errors.New("a mark of a secret is not closed")
	}
	if f.err != nil {
		for _, p := range f.parts {
			p.Zero()
		}
		return Text{}, f.err
	}
	t := Text{Value: New(join(f.pieces, f.size))}
	// The longest first: what begins with another secret must be replaced whole.
	slices.SortStableFunc(f.parts, func(a, b part) int { return len(b.Reveal()) - len(a.Reveal()) })
	for _, p := range f.parts {
		t.Parts, t.Refs = append(t.Parts, p.Value), append(t.Refs, p.ref)
	}
	return t, nil
}

// filling is a Fill under way.
type filling struct {
	store   Store
	pieces  [][]byte
	size    int // of all pieces
	secrets int // of the secrets among them
	parts   []part
	err     error
}

type part struct {
	ref string
	Value
}

func (f *filling) add(b []byte) {
	f.pieces = append(f.pieces, b)
	f.size += len(b)
}

func (f *filling) secret(ref string) {
	if f.err != nil {
		return
	}
	i := slices.IndexFunc(f.parts, func(p part) bool { return p.ref == ref })
	if i < 0 {
		v, err := f.store.Read(ref)
		if err != nil {
			f.err = err
			return
		}
		i = len(f.parts)
		f.parts = append(f.parts, part{ref, v})
	}
	b := f.parts[i].Reveal()
	if f.secrets += len(b); f.secrets > Limit {
		f.err = problem(ref, fmt.Sprintf("with what else is in the same text it is larger than %d KiB", Limit>>10), "make it smaller", nil)
		return
	}
	f.add(b)
}

// join is one array, as large as it needs to be, so that no copy of a secret is left behind.
func join(parts [][]byte, size int) []byte {
	b := make([]byte, 0, size)
	for _, p := range parts {
		b = append(b, p...)
	}
	return b
}
