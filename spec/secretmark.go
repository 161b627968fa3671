package spec

import (
	"reflect"
	"slices"
	"strings"
)

// A launch holds no secret. Where one goes its text has a mark: NUL, the reference NAME/KEY, NUL. No text of a manifest can
// hold NUL, so nothing else looks like a mark; and no argument, variable, header or line can carry NUL, so a mark that nobody
// has replaced cannot be delivered by mistake.
const secretMark = "\x00"

// MarkSecret is the mark of the secret NAME/KEY.
func MarkSecret(ref string) string { return secretMark + ref + secretMark }

// HasSecret reports whether a launch's text refers to a secret.
func HasSecret(text string) bool { return strings.Contains(text, secretMark) }

// CutSecrets cuts a launch's text at its marks: it calls literal for what stands between, and secret for each reference. It
// reports false, after the calls, for a text whose last mark is not closed. It does not judge the references:
// [CheckSecretRef] does.
func CutSecrets(text string, literal, secret func(string)) bool {
	inside := false
	for part := range strings.SplitSeq(text, secretMark) {
		if inside {
			secret(part)
		} else if part != "" {
			literal(part)
		}
		inside = !inside
	}
	return inside
}

// Secrets are the references to secrets anywhere in a launch, each once, in the order of its fields.
func (l *Launch) Secrets() (refs []string) {
	eachText(reflect.ValueOf(l).Elem(), func(text string) {
		CutSecrets(text, func(string) {}, func(ref string) {
			if !slices.Contains(refs, ref) {
				refs = append(refs, ref)
			}
		})
	})
	return refs
}

// eachText calls do for every text in a value of exported fields, slices and pointers; a launch has nothing else.
func eachText(v reflect.Value, do func(string)) {
	switch v.Kind() {
	case reflect.String:
		do(v.String())
	case reflect.Pointer:
		if !v.IsNil() {
			eachText(v.Elem(), do)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			eachText(v.Field(i), do)
		}
	case reflect.Slice:
		for i := range v.Len() {
			eachText(v.Index(i), do)
		}
	}
}

// withoutSecrets makes of a launch's text one that its row can judge: every mark is one letter, what a mark names is judged
// here. detail says what is wrong with a mark, "" = nothing.
func (s *schema) withoutSecrets(text string) (rest, detail string) {
	var b strings.Builder
	marks := 0
	closed := CutSecrets(text, func(literal string) { b.WriteString(literal) }, func(ref string) {
		b.WriteByte('s')
		marks++
		if bad := CheckSecretRef(ref); bad != "" {
			detail = bad
		}
	})
	switch {
	case !closed:
		return "", "must not contain NUL"
	case s.rule == ruleReference && (marks != 1 || b.Len() != 1):
		return "", "must be one secret and nothing else"
	case s.rule == ruleReference:
		return "$(s)", detail
	}
	return b.String(), detail
}

// CheckFilledArgument judges an argument whose marks have been replaced, as its row does one without (BP-1), its length apart:
// a secret may be longer than what a manifest says. It returns what is allowed, or "" for a good one.
func CheckFilledArgument(text string) string { return ruleArgument.check(text) }

// CheckFilledVariable is CheckFilledArgument for NAME=value.
func CheckFilledVariable(text string) string { return ruleLines.check(text) }

// CheckSecretRef judges a reference to a secret: NAME/KEY, a DNS label and a key of 1 to 253 letters, digits, '-', '_' and
// '.', not beginning with '.' (a key of a Kubernetes Secret). It returns what is allowed, or "" for a good one.
func CheckSecretRef(ref string) string { return checkSecretName(ref) }
