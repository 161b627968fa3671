package spec

import (
	"strconv"
	"strings"
)

// The kinds of fault, in the words of Kubernetes.
const (
	FaultRequired    = "Required value"
	FaultInvalid     = "Invalid value"
	FaultUnsupported = "Unsupported value"
	FaultDuplicate   = "Duplicate value"
	FaultNotFound    = "Not found"
	FaultForbidden   = "Forbidden"
	FaultTooLong     = "Too long"
	FaultTooMany     = "Too many"
	FaultTooFew      = "Too few"
)

// Error is the fault on one line: `file:line:column: field: kind: value: detail`. Parts that are not known are left out.
func (f Fault) Error() string {
	var b strings.Builder
	if f.File != "" {
		b.WriteString(f.File)
		b.WriteByte(':')
	}
	if f.Line > 0 {
		b.WriteString(strconv.Itoa(f.Line))
		b.WriteByte(':')
		if f.Column > 0 {
			b.WriteString(strconv.Itoa(f.Column))
			b.WriteByte(':')
		}
	}
	if b.Len() > 0 {
		b.WriteByte(' ')
	}
	for _, part := range []string{f.Field, f.Kind, f.Value} {
		if part != "" {
			b.WriteString(part)
			b.WriteString(": ")
		}
	}
	b.WriteString(f.Detail)
	return b.String()
}

// showValue is a value as a fault shows it: a number bare, a text in quotes and cut short, nothing for "".
func showValue(v string) string {
	if v == "" || plainScalar(v) == scalarInt && len(v) <= 20 {
		return v
	}
	return `"` + shorten(v) + `"`
}
