package secret

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
)

// redacted is what is shown in a secret's place.
const redacted = "[secret]"

// Value is a secret. Copies of it share the bytes. The zero Value is none.
type Value struct {
	// A function, for what prints a Value without asking it: fmt shows an unexported field of a struct by its own means,
	// and with a verb that does not fit it follows pointers too. Nothing looks into a function.
	held func(zero bool) []byte
}

// New makes a Value of b and takes b over: the caller must not use it any more.
func New(b []byte) Value { return first(b, len(b)) }

// first makes a Value of the first n bytes of b; zeroing it clears all of b.
func first(b []byte, n int) Value {
	return Value{func(zero bool) []byte {
		if zero {
			clear(b)
			b, n = nil, 0
		}
		return b[:n:n]
	}}
}

// Reveal returns the secret itself, which the caller neither changes, nor keeps, nor puts into an error or a log. It is nil
// when there is none.
func (v Value) Reveal() []byte {
	if v.held == nil {
		return nil
	}
	return v.held(false)
}

// Set reports whether there is a secret.
func (v Value) Set() bool { return len(v.Reveal()) > 0 }

// Zero overwrites the secret in memory, for all copies of the Value, which are none from then on. It is not to be called
// while another goroutine uses one.
func (v Value) Zero() {
	if v.held != nil {
		v.held(true)
	}
}

// Equal reports whether two secrets are the same, in a time that tells nothing but whether their lengths differ.
func (v Value) Equal(w Value) bool { return subtle.ConstantTimeCompare(v.Reveal(), w.Reveal()) == 1 }

// Print is a digest of the secret that tells it from another, by a key: 32 letters in hexadecimal (half of HMAC-SHA256, RFC
// 2104). It is to be kept where only those can read it who may read the secret: a weak one could be guessed with it.
func (v Value) Print(key string) string {
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write(v.Reveal()) // a hash takes everything
	return hex.EncodeToString(mac.Sum(nil)[:16])
}

// Redact returns text with every occurrence of the secret replaced by "[secret]".
func (v Value) Redact(text []byte) []byte {
	if !v.Set() {
		return text
	}
	return bytes.ReplaceAll(text, v.Reveal(), []byte(redacted))
}

// Redact returns text with every occurrence of every secret replaced by "[secret]". Those that are longer are looked for
// first: what begins with another secret is replaced whole.
func Redact(text []byte, secrets ...Value) []byte {
	secrets = slices.Clone(secrets)
	slices.SortStableFunc(secrets, func(a, b Value) int { return len(b.Reveal()) - len(a.Reveal()) })
	for _, v := range secrets {
		text = v.Redact(text)
	}
	return text
}

// RedactLine is Redact for one line of what somebody has written line by line: of a secret of several lines each is looked for.
func RedactLine(line []byte, secrets ...Value) []byte {
	var parts []Value
	for _, v := range secrets {
		for part := range bytes.FieldsFuncSeq(v.Reveal(), func(r rune) bool { return r == '\n' || r == '\r' }) {
			parts = append(parts, New(part)) // of the secret's own bytes, which are zeroed with it
		}
	}
	return Redact(line, parts...)
}

// String implements [fmt.Stringer].
func (Value) String() string { return redacted }

// GoString implements [fmt.GoStringer].
func (Value) GoString() string { return redacted }

// Format implements [fmt.Formatter], for every verb.
func (Value) Format(f fmt.State, _ rune) {
	_, _ = f.Write([]byte(redacted)) // fmt keeps what is written to it; nothing can fail
}

// LogValue implements [slog.LogValuer].
func (Value) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalJSON implements json.Marshaler.
func (Value) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }

// MarshalText implements [encoding.TextMarshaler].
func (Value) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// UnmarshalJSON refuses: a secret is in a file of the host's secrets directory, never in a document.
func (*Value) UnmarshalJSON([]byte) error {
	return errors.New("a secret must not be decoded from JSON: it is read from the host's secrets directory")
}
