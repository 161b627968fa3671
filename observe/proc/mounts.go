package proc

import (
	"errors"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// mount is what we read of a line of /proc/PID/mountinfo (proc_pid_mountinfo(5)).
type mount struct {
	root   string // which directory of the file system is mounted
	point  string // where, as we see it
	fstype string
}

var errMountinfo = errors.New("not in the format of /proc/PID/mountinfo")

// parseMount parses one line of mountinfo.
func parseMount(line string) (mount, error) {
	f := strings.Fields(line)
	if len(f) < 10 {
		return mount{}, errMountinfo
	}
	// Any number of optional fields lies between the sixth and a lone hyphen.
	for i := 6; i < len(f)-1; i++ {
		if f[i] == "-" {
			return mount{root: unescape(f[3]), point: unescape(f[4]), fstype: f[i+1]}, nil
		}
	}
	return mount{}, errMountinfo
}

// unescape undoes the octal escapes (\040 is a space) of mountinfo.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if c, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(c))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// unifiedPath finds a process's cgroup in the one hierarchy of cgroup2 in the text of /proc/PID/cgroup (cgroups(7)).
func unifiedPath(text string) (string, bool) {
	for line := range strings.Lines(text) {
		if p, ok := strings.CutPrefix(line, "0::"); ok {
			p = strings.TrimSuffix(strings.TrimSuffix(p, "\n"), " (deleted)")
			return p, strings.HasPrefix(p, "/")
		}
	}
	return "", false
}

// place is a cgroup as it can be reached: a mount of cgroup2 and the way from there.
type place struct {
	mount string
	rel   string // "." is the mounted directory itself
}

// places are the mounts through which the cgroup own can be reached, the last mounted first: it hides earlier ones.
// Both own and the mounts' roots are seen from our cgroup namespace; what lies outside of it (a path that starts with
// /..) is reached by no mount.
func places(mountinfo, own string) []place {
	var found []place
	for line := range strings.Lines(mountinfo) {
		m, err := parseMount(line)
		if err != nil || m.fstype != "cgroup2" {
			continue
		}
		rel, ok := below(m.root, own)
		if !ok || !fs.ValidPath(rel) { // nor one that a record could not hold (not UTF-8)
			continue
		}
		found = append([]place{{mount: m.point, rel: rel}}, found...)
	}
	return found
}

// below is the way from the directory root to p, which lies in it.
func below(root, p string) (string, bool) {
	if outside(p) || outside(root) { // before Clean, which takes that away
		return ".", root == p
	}
	if !strings.HasPrefix(p, "/") || !strings.HasPrefix(root, "/") {
		return "", false
	}
	root, p = path.Clean(root), path.Clean(p)
	switch {
	case root == p:
		return ".", true
	case root == "/":
		return p[1:], true
	}
	rel, ok := strings.CutPrefix(p, root+"/")
	return rel, ok
}

// outside reports whether a path leads out of our cgroup namespace.
func outside(p string) bool { return strings.Contains(p+"/", "/../") }
