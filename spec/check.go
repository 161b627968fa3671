package spec

import (
	"fmt"
	"strconv"
	"strings"
)

// checkText judges a text by its row of the table. Before references are expanded, a rule that needs the whole value
// waits.
func (s *schema) checkText(text string, expanded bool) (kind, detail string) {
	if len(s.enum) > 0 {
		var values []string
		for _, c := range s.enum {
			if c.value == text {
				return "", ""
			}
			values = append(values, c.value)
		}
		return FaultUnsupported, "must be one of " + quoted(values) + didYouMean(text, values)
	}
	if int64(len(text)) > s.max {
		return FaultTooLong, fmt.Sprintf("must be at most %d bytes", s.max)
	}
	if int64(len(text)) < s.min {
		if text == "" {
			return FaultRequired, "must not be empty"
		}
		return FaultInvalid, fmt.Sprintf("must be at least %d bytes", s.min)
	}
	if s.rule == nil || !expanded && s.rule.whole && s.refs == refsInside && hasReference(text) {
		return "", ""
	}
	if detail := s.rule.check(text); detail != "" {
		return FaultInvalid, detail
	}
	return "", ""
}

// checkNumber judges an integer or string by its row of the table.
func (s *schema) checkNumber(v IntOrString) (kind, detail string) {
	if s.form == formQuantity {
		return s.checkQuantity(v)
	}
	if !v.IsString {
		if detail := checkRange(v.Int, s.min, s.max); detail != "" {
			return FaultInvalid, detail
		}
		return "", ""
	}
	if s.refs == refsWhole {
		if _, ok := wholeReference(v.String); !ok {
			return FaultInvalid, fmt.Sprintf("must be an integer of %d to %d, or exactly one reference such as '$(port)'", s.min, s.max)
		}
		return "", ""
	}
	if len(v.String) > 4096 {
		return FaultTooLong, "must be at most 4096 bytes"
	}
	if detail := s.rule.check(v.String); detail != "" {
		return FaultInvalid, detail
	}
	return "", ""
}

func (s *schema) checkQuantity(v IntOrString) (kind, detail string) {
	if v.IsString && s.refs == refsWhole && hasReference(v.String) {
		if _, ok := wholeReference(v.String); !ok {
			return FaultInvalid, "must be a quantity such as '512Mi', or exactly one reference such as '$(memory)'"
		}
		return "", ""
	}
	if n, ok := parseQuantity(v.Text()); !ok || n <= 0 {
		return FaultInvalid, "must be a quantity above zero such as '512Mi' or '2'"
	}
	return "", ""
}

// checkRange judges an integer.
func checkRange(i, minimum, maximum int64) string {
	if i >= minimum && i <= maximum {
		return ""
	}
	switch {
	case minimum == minInt64:
		return "must be at most " + strconv.FormatInt(maximum, 10)
	case maximum == maxInt64:
		return "must be at least " + strconv.FormatInt(minimum, 10)
	}
	return fmt.Sprintf("must be between %d and %d, inclusive", minimum, maximum)
}

// checkCount judges the length of a list.
func checkCount(n, minimum, maximum int) (detail, kind string) {
	switch {
	case n > maximum:
		return fmt.Sprintf("must have at most %d; there are %d", maximum, n), FaultTooMany
	case n < minimum:
		return fmt.Sprintf("must have at least %d; there are %d", minimum, n), FaultTooFew
	}
	return "", ""
}

// quoted lists words as 'a', 'b'.
func quoted(words []string) string {
	return "'" + strings.Join(words, "', '") + "'"
}

// defaultText is a member's default in words, "" if it has none.
func (m *member) defaultText() string {
	if m.defNote != "" || m.def == nil {
		return m.defNote
	}
	return fmt.Sprint(m.def)
}

// didYouMean is a hint at the known word that is nearest to a wrong one, "" if none is near.
func didYouMean(wrong string, known []string) string {
	best, distance := "", 1+min(len(wrong)/3, 3)
	for _, word := range known {
		if strings.EqualFold(word, wrong) {
			return ": did you mean '" + word + "'?"
		}
		if n := editDistance(wrong, word, distance); n < distance {
			best, distance = word, n
		}
	}
	if best == "" {
		return ""
	}
	return ": did you mean '" + best + "'?"
}

// editDistance counts the letters to change, add, drop or swap between two words; most is as good as any more.
func editDistance(a, b string, most int) int {
	if len(a)-len(b) >= most || len(b)-len(a) >= most || len(a) > 64 {
		return most
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
