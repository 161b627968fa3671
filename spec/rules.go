package spec

import (
	"math"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp/syntax"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	minInt64 = math.MinInt64
	maxInt64 = math.MaxInt64
)

// rule is what a text must look like, said twice: check for us, pattern and cel for a cluster's schema. The corpus
// test holds the two together.
type rule struct {
	// check returns what is allowed, or "" for a good value. It never repeats the value.
	check func(string) string
	// pattern is an anchored RE2 expression that every good value matches.
	pattern string
	// cel is an expression over self that holds for every good value, where a pattern does not say enough.
	cel string
	// whole: a value with a reference in it can only be judged when the reference is expanded.
	whole bool
}

// words is what a rule demands, as a fault says it.
func (r *rule) words() string {
	for _, bad := range []string{"", ".", "\x00"} {
		if detail := r.check(bad); detail != "" {
			return detail
		}
	}
	return "must be another value"
}

// The rules. Each is used by the table, and through the table by the launch's validation.
var (
	ruleLabel = &rule{check: checkLabel, pattern: `^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`}

	ruleLabelKey   = &rule{check: checkLabelKey, pattern: `^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`}
	ruleLabelValue = &rule{check: checkLabelValue, pattern: `^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$`}

	ruleText     = &rule{check: checkText, pattern: `^[^\x00]*$`}
	ruleContent  = &rule{check: checkText, pattern: `^[^\x00]*$`}
	ruleLine     = &rule{check: checkLine, pattern: `^[\t\P{Cc}]*$`}
	ruleArgument = &rule{check: checkLine, pattern: `^[\t\P{Cc}]*$`}
	ruleLines    = &rule{check: checkLines, pattern: `^[\t\r\n\P{Cc}]*$`}

	ruleRelative = &rule{check: checkRelative, pattern: `^(` + component + `)(/(` + component + `)?)*$`}
	// A file, not a folder.
	ruleExecutable = &rule{check: checkExecutable, pattern: ruleRelative.pattern, cel: `self != '.' && !self.endsWith('/') && !self.endsWith('/.')`}
	ruleAbsolute   = &rule{check: checkAbsolute, pattern: `^(/(` + component + `)?)+$`}
	ruleGlob       = &rule{check: checkGlob, pattern: `^(` + component + `)(/(` + component + `)?)*$`}

	ruleEnvName    = &rule{check: checkEnvName, pattern: `^[A-Za-z_.-][A-Za-z0-9_.-]*$`}
	ruleUser       = &rule{check: checkUser, pattern: `^[a-z_][a-z0-9_-]*$`}
	ruleCapability = &rule{check: checkCapability, pattern: `^CAP_[A-Z][A-Z_]*$`}
	ruleAddress    = &rule{check: checkAddress, pattern: `^[\t\P{Cc}]*$`, cel: `self.contains('$(') || isIP(self)`, whole: true}
	ruleParameter  = &rule{check: checkParameterName, pattern: `^[a-z][a-zA-Z0-9]*$`}
	rulePattern    = &rule{check: checkPattern, pattern: `^[\t\P{Cc}]*$`}
	ruleReference  = &rule{check: checkReference, pattern: `^\$\([a-z][a-zA-Z0-9]*\)$`}

	ruleSignal     = &rule{check: checkSignal, pattern: signalPattern(false)}
	ruleStopSignal = &rule{check: checkStopSignal, pattern: signalPattern(true)}

	ruleJSONPath   = &rule{check: checkJSONPath, pattern: `^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`}
	ruleURLPath    = &rule{check: checkURLPath, pattern: `^/[!-"$-~]*$`}
	ruleURL        = &rule{check: checkURL, pattern: `^https?://[^\s/]+(/.*)?$`}
	ruleHeaderName = &rule{check: checkHeaderName, pattern: "^[A-Za-z0-9!#$%&'*+.^_`|~-]+$", cel: `!(self.lowerAscii() in ['` + strings.Join(ReservedHeaders, `', '`) + `'])`}
	ruleUsername   = &rule{check: checkUsername, pattern: `^([^:\p{Cc}]|\t)*$`}
	ruleHostName   = &rule{check: checkHostName, pattern: `^[\t\P{Cc}]*$`, cel: `self.contains('$(') || self.matches('^[A-Za-z0-9]([A-Za-z0-9.:-]*[A-Za-z0-9])?$')`, whole: true}
	ruleDevice     = &rule{check: checkDevice, pattern: `^[A-Za-z0-9_-][A-Za-z0-9_.-]*$`}
	ruleCIDR       = &rule{check: checkCIDR, cel: `isCIDR(self)`}
	ruleCron       = &rule{check: checkCron, pattern: `^\S+( +\S+){4}$`}
	ruleTimeZone   = &rule{check: checkTimeZone, pattern: `^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$`}
)

// component is one part of a path: anything but `..`, a slash and control characters.
const component = `[^/.\p{Cc}][^/\p{Cc}]*|\.([^/.\p{Cc}][^/\p{Cc}]*)?|\.\.[^/\p{Cc}]+`

const (
	mustBeLabel    = "must be a DNS label: 1 to 63 of a-z, 0-9 and '-', beginning and ending with a letter or digit"
	mustBeRelative = "must be a relative path: no leading '/', no '..', no control characters"
)

func checkLabel(s string) string {
	if !IsLabel(s) {
		return mustBeLabel
	}
	return ""
}

// checkText allows everything that is text at all.
func checkText(s string) string {
	if strings.IndexByte(s, 0) >= 0 {
		return "must not contain NUL"
	}
	if !utf8.ValidString(s) {
		return "must be UTF-8"
	}
	return ""
}

// checkLine allows no control character but tab (BP-1).
func checkLine(s string) string {
	if detail := checkText(s); detail != "" {
		return detail
	}
	if strings.IndexFunc(s, func(r rune) bool { return unicode.IsControl(r) && r != '\t' }) >= 0 {
		return "must be one line without control characters (a tab is allowed)"
	}
	return ""
}

// checkLines allows line ends too.
func checkLines(s string) string {
	if detail := checkText(s); detail != "" {
		return detail
	}
	if strings.IndexFunc(s, func(r rune) bool { return unicode.IsControl(r) && r != '\t' && r != '\n' && r != '\r' }) >= 0 {
		return "must not contain control characters (tabs and line ends are allowed)"
	}
	return ""
}

func checkPathText(s string) bool {
	return utf8.ValidString(s) && strings.IndexFunc(s, unicode.IsControl) < 0
}

func hasDotDot(s string) bool {
	for part := range strings.SplitSeq(s, "/") {
		if part == ".." {
			return true
		}
	}
	return false
}

func checkRelative(s string) string {
	if s == "" || s[0] == '/' || hasDotDot(s) || !checkPathText(s) {
		return mustBeRelative
	}
	return ""
}

func checkExecutable(s string) string {
	if detail := checkRelative(s); detail != "" {
		return detail
	}
	if s == "." || strings.HasSuffix(s, "/") || strings.HasSuffix(s, "/.") {
		return "must be the path of a file, not of a folder"
	}
	return ""
}

func checkAbsolute(s string) string {
	if s == "" || s[0] != '/' || hasDotDot(s) || !checkPathText(s) {
		return "must be an absolute path: a leading '/', no '..', no control characters"
	}
	return ""
}

func checkGlob(s string) string {
	if checkRelative(s) != "" {
		return "must be a glob relative to the workspace, such as 'bin/*' or '**'"
	}
	if _, err := filepath.Match(s, ""); err != nil {
		return "must be a glob: a '[' is not closed or a '\\' ends it"
	}
	return ""
}

func checkLabelKey(s string) string {
	const must = "must be a qualified name such as 'pool' or 'example.org/pool'"
	prefix, name, qualified := strings.Cut(s, "/")
	if !qualified {
		prefix, name = "", s
	} else if len(prefix) == 0 || len(prefix) > 253 || strings.Trim(prefix, "abcdefghijklmnopqrstuvwxyz0123456789-.") != "" ||
		!isAlnum(prefix[0]) || !isAlnum(prefix[len(prefix)-1]) {
		return must
	}
	if name == "" || len(name) > 63 || checkLabelValue(name) != "" {
		return must
	}
	return ""
}

func checkLabelValue(s string) string {
	if s == "" {
		return ""
	}
	if !isAlnum(s[0]) || !isAlnum(s[len(s)-1]) || !all(s, func(c byte) bool { return isAlnum(c) || c == '-' || c == '_' || c == '.' }) {
		return "must consist of letters, digits, '-', '_' and '.', beginning and ending with a letter or digit"
	}
	return ""
}

func checkEnvName(s string) string {
	if s == "" || s[0] >= '0' && s[0] <= '9' || !all(s, func(c byte) bool { return isAlnum(c) || c == '_' || c == '.' || c == '-' }) {
		return "must be a variable's name: letters, digits, '_', '.' and '-', not beginning with a digit"
	}
	return ""
}

func checkUser(s string) string {
	if s == "" || !isLower(s[0]) && s[0] != '_' || !all(s, func(c byte) bool { return isLower(c) || isDigit(c) || c == '_' || c == '-' }) {
		return "must be a user's name: a-z, 0-9, '_' and '-', beginning with a letter or '_'"
	}
	return ""
}

func checkCapability(s string) string {
	name, ok := strings.CutPrefix(s, "CAP_")
	if !ok || name == "" || !isUpper(name[0]) || !all(name, func(c byte) bool { return isUpper(c) || c == '_' }) {
		return "must be a capability such as 'CAP_NET_BIND_SERVICE'"
	}
	return ""
}

func checkAddress(s string) string {
	if a, err := netip.ParseAddr(s); err != nil || a.Zone() != "" || a.Is4In6() {
		return "must be an IP address such as '127.0.0.1' or '::1'"
	}
	return ""
}

func checkCIDR(s string) string {
	if p, err := netip.ParsePrefix(s); err != nil || p.Addr().Is4In6() {
		return "must be an address and a prefix length such as '10.0.0.0/8'"
	}
	return ""
}

func checkParameterName(s string) string {
	if s == "" || !isLower(s[0]) || !all(s, isAlnum) {
		return "must be a name in camelCase: letters and digits, beginning with a small letter"
	}
	return ""
}

func checkPattern(s string) string {
	if detail := checkLine(s); detail != "" {
		return detail
	}
	if _, err := syntax.Parse(s, syntax.Perl); err != nil {
		return "must be a regular expression of RE2"
	}
	return ""
}

func checkReference(s string) string {
	name, ok := wholeReference(s)
	if !ok || checkParameterName(name) != "" {
		return "must be one reference to a parameter of type Secret, such as '$(password)'"
	}
	return ""
}

func checkJSONPath(s string) string {
	for part := range strings.SplitSeq(s, ".") {
		if part == "" || !all(part, func(c byte) bool { return isAlnum(c) || c == '_' || c == '-' }) {
			return "must be names joined by '.', such as 'server.players'"
		}
	}
	return ""
}

// checkURLPath allows what goes onto the wire as it is.
func checkURLPath(s string) string {
	if s == "" || s[0] != '/' || !all(s, func(c byte) bool { return c > ' ' && c < 0x7f && c != '#' }) {
		return "must begin with '/' and have no spaces, no '#' and no signs beyond ASCII: write those as %XX"
	}
	return ""
}

// checkUsername allows what basic authentication can carry (RFC 7617).
func checkUsername(s string) string {
	if detail := checkLine(s); detail != "" {
		return detail
	}
	if strings.IndexByte(s, ':') >= 0 {
		return "must not contain ':'"
	}
	return ""
}

func checkURL(s string) string {
	const must = "must be a URL that begins with 'http://' or 'https://'"
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "http" && u.Scheme != "https" || !checkPathText(s) || strings.ContainsAny(s, " ") {
		return must
	}
	return ""
}

func checkHeaderName(s string) string {
	if s == "" || !all(s, func(c byte) bool { return isAlnum(c) || strings.IndexByte("!#$%&'*+.^_`|~-", c) >= 0 }) {
		return "must be the name of a header field"
	}
	if slices.Contains(ReservedHeaders, strings.ToLower(s)) {
		return "must be another header field: this one belongs to the connection"
	}
	return ""
}

func checkHostName(s string) string {
	if s == "" || !isAlnum(s[0]) || !isAlnum(s[len(s)-1]) || !all(s, func(c byte) bool { return isAlnum(c) || c == '.' || c == '-' || c == ':' }) {
		return "must be a host name or an IP address"
	}
	return ""
}

func checkDevice(s string) string {
	if s == "" || s[0] == '.' || !all(s, func(c byte) bool { return isAlnum(c) || c == '_' || c == '-' || c == '.' }) {
		return "must be the name of a network device: letters, digits, '_', '-' and '.', not beginning with '.'"
	}
	return ""
}

func checkCron(s string) string {
	if len(strings.Fields(s)) != 5 || !all(s, func(c byte) bool { return isAlnum(c) || strings.IndexByte(" *,-/", c) >= 0 }) {
		return "must be a cron schedule of five fields, such as '30 5 * * *'"
	}
	next, err := cronSchedule(s, "")
	if err != nil {
		return "must be a cron schedule of five fields, such as '30 5 * * *': " + err.Error()
	}
	if next(time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return "must be a cron schedule that comes at least once in five years"
	}
	return ""
}

func checkTimeZone(s string) string {
	for part := range strings.SplitSeq(s, "/") {
		if part == "" || !all(part, func(c byte) bool { return isAlnum(c) || c == '_' || c == '+' || c == '-' }) {
			return "must be a time zone such as 'UTC' or 'Europe/Berlin'"
		}
	}
	if _, err := time.LoadLocation(s); err != nil || s == "Local" {
		return "must be a time zone such as 'UTC' or 'Europe/Berlin': there is none of this name"
	}
	return ""
}

func all(s string, ok func(byte) bool) bool {
	for i := range len(s) {
		if !ok(s[i]) {
			return false
		}
	}
	return true
}

func isLower(c byte) bool { return c >= 'a' && c <= 'z' }
func isUpper(c byte) bool { return c >= 'A' && c <= 'Z' }
func isDigit(c byte) bool { return c >= '0' && c <= '9' }
func isAlnum(c byte) bool { return isLower(c) || isUpper(c) || isDigit(c) }
