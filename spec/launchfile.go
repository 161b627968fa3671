package spec

import (
	"fmt"
	"path/filepath"
	"slices"
)

// FilesLimit is how many bytes the contents of a launch's files may have together: they are kept in the record of every run.
const FilesLimit = 512 << 10

// LaunchFile is a file of the server's that is written before its run is started. What is compared between two specs is the
// wish, never what is on disk: many servers write their own configuration anew.
type LaunchFile struct {
	Path      string `json:"path"`                // relative to Workspace, clean; no two files of a launch have the same
	Workspace string `json:"workspace,omitempty"` // "" = the directory
	Content   string `json:"content"`             // may hold marks of secrets
	Write     string `json:"write"`               // WriteEachStart or WriteIfMissing
	OnChange  string `json:"onChange"`            // ChangeApply or ChangeIgnore
}

// When a file is written.
const (
	WriteEachStart = "EachStart"
	WriteIfMissing = "IfMissing" // only where there is nothing at its path
)

// What a run is told of a new content of a file.
const (
	ChangeApply  = "Apply"
	ChangeIgnore = "Ignore" // nothing: the next run has it
)

// Print tells a content that is wished for from another. It is over the marks of secrets, not over secrets.
func (f *LaunchFile) Print() string {
	h := newHasher("file")
	h.always("content", f.Content)
	return h.sum()
}

// files resolves the files, in the order of their paths.
func (r *resolver) files() []LaunchFile {
	var files []LaunchFile
	for i, f := range r.profile.Files {
		field := fmt.Sprintf("spec.files[%d]", i)
		if f.Content == nil {
			r.fault(field, FaultForbidden, "", "a file without `content`, which is watched: "+notAvailable)
			continue
		}
		if f.Workspace != "" {
			r.workspace(f.Workspace, field+".workspace")
		}
		files = append(files, LaunchFile{
			Path:      filepath.Clean(f.Path),
			Workspace: f.Workspace,
			Content:   r.expand(*f.Content, func() string { return field + ".content" }),
			Write:     or(f.Write, WriteEachStart),
			OnChange:  or(f.OnChange, ChangeApply),
		})
	}
	return files
}

// files judges the files of a launch.
func (c *launchCheck) files(files []LaunchFile) {
	const list = "spec.files"
	c.count(list, len(files))
	bytes := 0
	seen := map[string]bool{}
	for i, f := range files {
		c.row(list+"[].path", index(list, i, "path"), f.Path)
		c.distinct(index(list, i, "path"), filepath.Clean(f.Path), mustBeUnique, seen)
		if f.Workspace != "" {
			c.row(list+"[].workspace", index(list, i, "workspace"), f.Workspace)
		}
		c.row(list+"[].content", index(list, i, "content"), f.Content)
		c.row(list+"[].write", index(list, i, "write"), f.Write)
		c.row(list+"[].onChange", index(list, i, "onChange"), f.OnChange)
		bytes += len(f.Content)
	}
	if bytes > FilesLimit {
		c.fault(list, FaultTooLong, "", fmt.Sprintf("must have at most %d bytes of content together; there are %d", FilesLimit, bytes))
	}
}

// FilesHash is over what the files of the launch shall hold, and when they are written; "" without files. A difference that
// a run has to be told of shows in [LaunchFile.Print]; any other is for the next run.
func (l *Launch) FilesHash() string {
	if len(l.Files) == 0 {
		return ""
	}
	h := newHasher("files")
	for _, f := range l.sortedFiles() {
		h.always("file", f.Path)
		h.always("content", f.Content)
		h.text("write", f.Write, WriteEachStart)
	}
	return h.sum()
}

func (l *Launch) sortedFiles() []LaunchFile {
	return sortedBy(l.Files, func(f LaunchFile) string { return f.Path })
}

// File finds a file of the launch by its path; nil = there is none. It points into the launch.
func (l *Launch) File(path string) *LaunchFile {
	i := slices.IndexFunc(l.Files, func(f LaunchFile) bool { return f.Path == path })
	if i < 0 {
		return nil
	}
	return &l.Files[i]
}
