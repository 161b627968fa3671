package state

import (
	"slices"

	"reconciler.dev/reconciler/spec"
)

// GivenFile says what one of a launch's files was to hold when a run was given it. It does not say what is on disk now: that
// is the server's own affair.
type GivenFile struct {
	Path  string `json:"path"`  // as in the launch
	Print string `json:"print"` // [spec.LaunchFile.Print]
}

// GivenFiles are those of a run that is started with this launch.
func GivenFiles(l *spec.Launch) []GivenFile {
	var given []GivenFile
	for i := range l.Files {
		given = append(given, GivenFile{Path: l.Files[i].Path, Print: l.Files[i].Print()})
	}
	return given
}

// ChangedFiles are the paths of the files that a run was given with another content than this launch wants it to have now.
// A launch of other paths is of another spec: that is not told here.
func ChangedFiles(given []GivenFile, l *spec.Launch) []string {
	var paths []string
	for i := range l.Files {
		f := &l.Files[i]
		other := func(g GivenFile) bool { return g.Path == f.Path && g.Print != f.Print() }
		if f.OnChange != spec.ChangeIgnore && slices.ContainsFunc(given, other) {
			paths = append(paths, f.Path)
		}
	}
	return paths
}
