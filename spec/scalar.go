package spec

import (
	"strings"

	yaml "sigs.k8s.io/yaml/goyaml.v3"
)

// scalar is what a scalar means. YAML 1.1, YAML 1.2 and JSON read some words differently (`yes`, 0755, 1e3, 22:22); those
// are kinds of their own here and are good for nothing but a fault that says what to write instead.
type scalar uint8

const (
	scalarString  scalar = iota
	scalarNull           // null, ~, nothing
	scalarInt            // a decimal integer as JSON writes it
	scalarBool           // true, false
	scalarOddBool        // yes, no, on, off, y, n: true or false in YAML 1.1 alone
	scalarOddInt         // 0755, 0x1f, +1, 1_000
	scalarFloat          // 1.5, 1e3
	scalarSpecial        // .nan, .inf
	scalarTime           // 22:22, 2026-11-30
	scalarTagged         // !!binary and other tags
)

// what names a scalar in a fault.
func (s scalar) what() string {
	return [...]string{"a string", "null", "an integer", "a boolean", "a boolean to YAML 1.1",
		"an integer in another notation", "a number with a fraction or an exponent", "not a number",
		"a time to YAML 1.1", "a tagged value"}[s]
}

// scalarOf says what a scalar node means.
func scalarOf(n *yaml.Node) scalar {
	if n.Style&yaml.TaggedStyle != 0 {
		if n.Tag == "!!str" {
			return scalarString
		}
		return scalarTagged
	}
	if n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		return scalarString
	}
	return plainScalar(n.Value)
}

// plainScalar says what a word without quotes means.
func plainScalar(s string) scalar {
	if s == "" {
		return scalarNull
	}
	switch c := s[0]; {
	case isDigit(c), c == '-', c == '+', c == '.':
		return plainNumber(s)
	case strings.IndexByte("~nNtTfFyYoO", c) < 0 || len(s) > 5:
		return scalarString
	}
	switch s {
	case "~", "null", "Null", "NULL":
		return scalarNull
	case "true", "false":
		return scalarBool
	case "True", "TRUE", "False", "FALSE", "y", "Y", "yes", "Yes", "YES", "n", "N", "no", "No", "NO",
		"on", "On", "ON", "off", "Off", "OFF":
		return scalarOddBool
	}
	return scalarString
}

func plainNumber(s string) scalar {
	digits := strings.TrimLeft(s, "+-")
	if len(s)-len(digits) > 1 || digits == "" {
		return scalarString
	}
	switch strings.ToLower(digits) {
	case ".nan", ".inf":
		return scalarSpecial
	}
	if all(digits, isDigit) {
		if s[0] == '+' || len(digits) > 1 && digits[0] == '0' {
			return scalarOddInt
		}
		return scalarInt
	}
	if isOtherInteger(digits) {
		return scalarOddInt
	}
	if isFloat(digits) {
		return scalarFloat
	}
	if isTime(s) {
		return scalarTime
	}
	return scalarString
}

// isOtherInteger reports 0x1f, 0o17, 0b11 and 1_000.
func isOtherInteger(s string) bool {
	if !isDigit(s[0]) {
		return false
	}
	rest := s
	if len(s) > 2 && s[0] == '0' {
		switch s[1] {
		case 'x', 'X', 'o', 'O', 'b', 'B':
			rest = s[2:]
			return all(rest, func(c byte) bool {
				return isDigit(c) || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F' || c == '_'
			})
		}
	}
	return all(rest, func(c byte) bool { return isDigit(c) || c == '_' })
}

// isFloat reports digits with a fraction, an exponent or both; the sign is cut off already.
func isFloat(s string) bool {
	mantissa := s
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		mantissa = s[:i]
		exponent := s[i+1:]
		if exponent != "" && (exponent[0] == '+' || exponent[0] == '-') {
			exponent = exponent[1:]
		}
		if exponent == "" || !all(exponent, isDigit) {
			return false
		}
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digit := func(c byte) bool { return isDigit(c) || c == '_' }
	return (whole != "" || fraction != "") && all(whole, digit) && all(fraction, digit) && mantissa != "_"
}

// isTime reports 22:22, 22:22:22.5, 2026-11-30 and 2026-11-30T22:22:22Z.
func isTime(s string) bool {
	if len(s) >= 8 && all(s[:4], isDigit) && s[4] == '-' {
		parts := strings.SplitN(s, "-", 3)
		if len(parts) == 3 && len(parts[1]) <= 2 && all(parts[1], isDigit) && len(parts[2]) > 0 && isDigit(parts[2][0]) {
			day := strings.TrimLeft(parts[2], "0123456789")
			return len(parts[2])-len(day) <= 2 && (day == "" || day[0] == 'T' || day[0] == 't' || day[0] == ' ')
		}
		return false
	}
	parts := strings.Split(strings.TrimLeft(s, "+-"), ":")
	if len(parts) < 2 {
		return false
	}
	for i, part := range parts {
		if i == len(parts)-1 {
			part, _, _ = strings.Cut(part, ".")
		}
		if part == "" || !all(part, isDigit) || i > 0 && (len(part) > 2 || len(part) == 2 && part[0] > '5') {
			return false
		}
	}
	return true
}
