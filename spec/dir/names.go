package dir

import (
	"path"
	"strings"
)

// nameClass is what the name of a directory entry alone says of it.
type nameClass int

const (
	nameOther    nameClass = iota // neither: a directory perhaps, or a file of somebody else
	nameManifest                  // ends in .yaml, .yml or .json
	nameLitter                    // hidden, or what editors and copying tools leave for a moment
)

// classify judges a base name. Litter is never read and never reported: dot files (which are also the temporary names of
// rsync and emacs, and the `..data` of a mounted ConfigMap), backups, and vim's probe.
func classify(base string) nameClass {
	switch {
	case base == "" || base[0] == '.', strings.HasSuffix(base, "~"), base == "4913":
		return nameLitter
	case base[0] == '#' && strings.HasSuffix(base, "#"):
		return nameLitter
	}
	switch path.Ext(base) {
	case ".yaml", ".yml", ".json":
		return nameManifest
	case ".swp", ".swx", ".swo", ".tmp":
		return nameLitter
	}
	return nameOther
}
