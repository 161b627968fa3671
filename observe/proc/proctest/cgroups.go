package proctest

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// CgroupsWritable reports whether a cgroup2 file system is mounted where we may write: a container often has none, or
// one to look at.
func CgroupsWritable() bool {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); strings.Contains(line, " - cgroup2 ") && unix.Access(fields[4], unix.W_OK) == nil {
			return true
		}
	}
	return false
}
