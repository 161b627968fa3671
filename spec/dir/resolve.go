package dir

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// hopLimit is how many symbolic links one path may go through, as in Linux.
const hopLimit = 40

// link is a symbolic link on the way to something, and where it led.
type link struct {
	path   string
	target string
}

// resolve follows every symbolic link of the absolute path and returns where it leads and the links on the way. Before a
// link is read, the directory that holds it goes to watch, so that no swap after the reading is missed. The
// result does not have to exist.
func resolve(path string, watch func(dir string)) (real string, links []link, err error) {
	rest := strings.Split(strings.Trim(filepath.Clean(path), "/"), "/")
	real = "/"
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			real = filepath.Dir(real)
			continue
		}
		at := filepath.Join(real, name)
		target, err := os.Readlink(at)
		if err != nil {
			if !errors.Is(err, unix.EINVAL) {
				return filepath.Join(append([]string{at}, rest...)...), links, err
			}
			real = at
			continue
		}
		watch(real)
		if target, err = os.Readlink(at); err != nil {
			return at, links, err
		}
		if len(links) == hopLimit {
			return at, links, unix.ELOOP
		}
		links = append(links, link{path: at, target: target})
		if filepath.IsAbs(target) {
			real = "/"
		}
		rest = append(strings.Split(strings.Trim(target, "/"), "/"), rest...)
	}
	return real, links, nil
}

// stillLead reports whether every link leads where it led.
func stillLead(links []link) bool {
	for _, l := range links {
		if target, err := os.Readlink(l.path); err != nil || target != l.target {
			return false
		}
	}
	return true
}
