package logs

import (
	"strconv"
	"strings"
)

// Run names one run and so its log files.
type Run struct {
	Scope  string // spec.Scope.ID
	Number int64  // from 1, state.Run.Number
}

// String is "scope#number".
func (r Run) String() string { return r.Scope + "#" + strconv.FormatInt(r.Number, 10) }

// FileName is the name of a log file in its scope's folder.
func FileName(number int64, index int) string {
	name := strconv.FormatInt(number, 10) + ".log"
	if index == 0 {
		return name
	}
	return name + "." + strconv.Itoa(index)
}

// ParseFileName is the reverse of [FileName]. It reports false for any name that FileName cannot have made.
func ParseFileName(name string) (number int64, index int, ok bool) {
	num, rest, found := strings.Cut(name, ".log")
	if !found {
		return 0, 0, false
	}
	number, err := strconv.ParseInt(num, 10, 64)
	if err != nil || number < 1 {
		return 0, 0, false
	}
	if rest != "" {
		index, err = strconv.Atoi(strings.TrimPrefix(rest, "."))
		if err != nil || index < 1 {
			return 0, 0, false
		}
	}
	return number, index, FileName(number, index) == name
}
