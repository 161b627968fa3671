package daemon

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"k8s.io/apimachinery/pkg/api/resource"

	"reconciler.dev/reconciler/keeper"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// Workspace is one --workspace NAME=DIR.
type Workspace struct {
	Name string
	Dir  string // absolute
}

// ParseWorkspace reads NAME=DIR. The directory must be there: a wrong one is told before anything starts.
func ParseWorkspace(text string) (Workspace, error) {
	name, path, found := strings.Cut(text, "=")
	if !found || path == "" {
		return Workspace{}, fmt.Errorf("--workspace %q: must be NAME=DIR", text)
	}
	if !spec.IsLabel(name) {
		return Workspace{}, fmt.Errorf("--workspace %q: the name must be 1 to 63 of a-z, 0-9 and '-', beginning and ending with a letter or digit", text)
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return Workspace{}, fmt.Errorf("--workspace %q: %w", text, err)
	}
	if err := isDirectory(abs); err != nil {
		return Workspace{}, fmt.Errorf("--workspace %q: %w", text, err)
	}
	return Workspace{Name: name, Dir: abs}, nil
}

func isDirectory(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("there is no such directory; make it first")
	case err != nil:
		var perr *fs.PathError
		if errors.As(err, &perr) {
			err = perr.Err
		}
		return fmt.Errorf("cannot look at it: %w", err)
	case !info.IsDir():
		return errors.New("this is no directory")
	}
	return nil
}

// maxHostFile is the largest host configuration that is read, in bytes.
const maxHostFile = 1 << 20

// ReadHost reads a host configuration. The file must be root's or our own, and writable by nobody else: who may write it
// says what may run here.
func ReadHost(file string) (*spec.Host, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("cannot read the host configuration: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("cannot read the host configuration: %w", err)
	}
	if err := checkHostFile(info, os.Geteuid()); err != nil {
		return nil, fmt.Errorf("host configuration %s: %w", file, err)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxHostFile+1))
	if err != nil {
		return nil, fmt.Errorf("cannot read the host configuration: %w", err)
	}
	if len(data) > maxHostFile {
		return nil, fmt.Errorf("host configuration %s: is over 1 MiB", file)
	}
	host, faults := spec.DecodeHost(file, data)
	if len(faults) > 0 {
		var errs []error
		for _, fault := range faults {
			errs = append(errs, fault)
		}
		return nil, errors.Join(errs...)
	}
	return host, nil
}

func checkHostFile(info fs.FileInfo, euid int) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok || !info.Mode().IsRegular():
		return errors.New("is no regular file")
	case st.Uid != 0 && int(st.Uid) != euid:
		return errors.New("belongs to another user; it must be root's")
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("has mode %04o, so others may write it; make it 0644 or less", info.Mode().Perm())
	}
	return nil
}

// Host is what this host allows, in the three forms in which it is asked for.
type Host struct {
	Keeper  *keeper.Host      // to enforce
	View    *spec.HostView    // to resolve by
	Sources []spec.HostSource // to read
}

// NewHost makes a host of its configuration (nil = there is none, and the manifests are trusted) and of the workspaces
// that the command line adds.
func NewHost(l state.Layout, conf *spec.Host, added []Workspace) (*Host, error) {
	k := &keeper.Host{InheritAny: conf == nil, SecretsDirectory: l.Secrets()}
	h := &Host{Keeper: k}
	if conf != nil {
		k.Inherit = conf.Spec.InheritEnv
		k.Users = conf.Spec.Users
		if conf.Spec.SecretsDirectory != "" {
			k.SecretsDirectory = conf.Spec.SecretsDirectory
		}
		k.Workspaces = slices.Clone(conf.Spec.Workspaces)
		h.Sources = conf.Spec.Sources
		if err := budgets(k, conf.Spec.Logs); err != nil {
			return nil, err
		}
	}
	if conf == nil || conf.Spec.Workspaces == nil {
		k.Workspaces = []spec.Workspace{
			{Name: "usr", Path: "/usr"},
			{Name: "data", Path: l.Data(), Writable: true, Executables: []string{}},
		}
	}
	for _, w := range added {
		if _, taken := k.Workspace(w.Name); taken {
			return nil, fmt.Errorf("--workspace %s: there is a workspace of this name already; choose another", w.Name)
		}
		k.Workspaces = append(k.Workspaces, spec.Workspace{Name: w.Name, Path: w.Dir})
	}
	h.View = &spec.HostView{Workspaces: map[string]string{}, InheritAny: k.InheritAny, InheritEnv: k.Inherit, Users: k.Users}
	if conf != nil {
		h.View.StartConcurrency, h.View.RestartsPerMinute = limit(conf.Spec.StartConcurrency), limit(conf.Spec.RestartsPerMinute)
	}
	for _, w := range k.Workspaces {
		h.View.Workspaces[w.Name] = filepath.Clean(w.Path)
	}
	return h, nil
}

// limit is a limit of the host's; 0 is none.
func limit(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

// budgets takes over the log budgets; a quantity that is absent has the built-in value.
func budgets(k *keeper.Host, logs *spec.LogBudget) error {
	if logs == nil {
		return nil
	}
	for _, b := range []struct {
		field string
		from  *spec.IntOrString
		to    *int64
	}{{"spec.logs.perServer", logs.PerServer, &k.LogsPerServer}, {"spec.logs.total", logs.Total, &k.LogsTotal}} {
		if b.from == nil {
			continue
		}
		q, err := resource.ParseQuantity(b.from.Text())
		if err != nil {
			return fmt.Errorf("host configuration: %s: %w", b.field, err)
		}
		*b.to = q.Value()
	}
	return nil
}
