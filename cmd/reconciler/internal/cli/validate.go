package cli

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/spec/dir"
)

func newValidate(e *env) *cobra.Command {
	return &cobra.Command{
		Use:   "validate FILE|DIR...",
		Short: "Check manifests without a reconciler, and report every fault",
		Long: `Reads manifests as 'reconciler run' does and reports everything that is wrong with them, each fault on a line of its own:
file, line, column, field, value and what to do. It needs no running reconciler and does not look at the host: whether an
executable exists is not checked. A Server whose Profile is in none of the files is checked only as far as that goes.

It exits with 0 when all is good, 1 when something is bad, and 2 when it could not look.`,
		Example: "  reconciler validate manifests\n  reconciler validate manifests/town.yaml profiles/openttd.yaml",
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("validate needs files or directories")
			}
			return runValidate(e, args)
		},
	}
}

// findings is what a validation found.
type findings struct {
	faults []spec.Fault
	notes  []spec.Fault
	files  int
	claims []portClaim // so far
}

func runValidate(e *env, args []string) error {
	paths, err := distinct(args)
	if err != nil {
		return err
	}
	set, err := dir.Load(dir.Config{Roots: rootsOf(paths), AllowEmpty: true})
	if err != nil {
		return &exitError{exitUsage, err}
	}
	var f findings
	for i, src := range set.Sources {
		if !src.Complete {
			return &exitError{exitUsage, fmt.Errorf("cannot read %s whole: %s", paths[i], src.Reason)}
		}
		f.read(paths[i], src)
	}
	f.resolve(paths, set)
	return f.print(e.stdout, e.stderr, set)
}

// distinct refuses what cannot be looked at, and drops what was named twice.
func distinct(args []string) ([]string, error) {
	var paths []string
	for _, arg := range args {
		if _, err := os.Stat(arg); err != nil {
			return nil, &exitError{exitUsage, fmt.Errorf("cannot look at %s: %s", arg, cause(err))}
		}
		if path := filepath.Clean(arg); !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	return paths, nil
}

// rootsOf names each root by its place in paths, so that an object can be told where it is from.
func rootsOf(paths []string) []dir.Root {
	roots := make([]dir.Root, len(paths))
	for i, p := range paths {
		roots[i] = dir.Root{Name: rootName(i), Path: p}
	}
	return roots
}

func rootName(i int) string { return fmt.Sprintf("root-%d", i) }

// within is the path of a source's file as the caller would name it.
func within(path, file string) string {
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		return path
	}
	return filepath.Join(path, file)
}

func (f *findings) read(path string, src spec.SourceState) {
	for _, file := range src.Files {
		if file.State != spec.FileSkipped {
			f.files++
		}
		for _, fault := range file.Faults {
			fault.File = within(path, file.Path)
			f.faults = append(f.faults, fault)
		}
		for _, note := range file.Notes {
			note.File = within(path, file.Path)
			f.notes = append(f.notes, note)
		}
	}
}

// resolve checks what no file alone can tell: each server against its profile, and who waits for whom.
func (f *findings) resolve(paths []string, set *spec.Set) {
	order := spec.Order{Launches: map[spec.Key]*spec.Launch{}, Job: func(k spec.Key) *spec.JobSpec {
		if j := set.Jobs[k]; j != nil {
			return &j.Object.Spec
		}
		return nil
	}}
	for _, k := range sorted(slices.Collect(maps.Keys(set.Servers))) {
		s := set.Servers[k]
		p, ok := set.Profiles[s.Object.ProfileKey()]
		if !ok {
			f.missing(paths, s)
			continue
		}
		launch, faults := spec.Resolve(s.Object, p.Object, anyHost(p.Object))
		for _, fault := range faults {
			f.faults = append(f.faults, located(paths, s.Source, fault))
		}
		if len(faults) == 0 {
			order.Launches[k] = &launch
		}
		if len(faults) == 0 && s.Object.Wish() == spec.WishRunning {
			f.claim(paths, s, &launch)
		}
	}
	cycles := order.Cycles()
	for _, k := range sorted(slices.Collect(maps.Keys(cycles))) {
		f.faults = append(f.faults, located(paths, set.Servers[k].Source, cycles[k]))
	}
}

// claim notes a port that another server has declared before: on one host only one of them would run. The files may be for more than
// one, so it is no fault.
func (f *findings) claim(paths []string, s *spec.Accepted[spec.Server], launch *spec.Launch) {
	for i := range launch.Endpoints {
		e := &launch.Endpoints[i]
		at := slices.IndexFunc(f.claims, func(c portClaim) bool { return c.endpoint.Overlaps(e) })
		if at >= 0 {
			f.notes = append(f.notes, located(paths, s.Source, spec.Fault{Field: "spec.endpoints[" + strconv.Itoa(i) + "].port", Kind: spec.FaultDuplicate, Value: strconv.Itoa(e.Port),
				Detail: "server " + f.claims[at].server.String() + " declares this port too: on one host it is not started while that one runs (PortConflict)"}))
		}
	}
	for _, e := range launch.Endpoints {
		f.claims = append(f.claims, portClaim{s.Object.Key(), e})
	}
}

// portClaim is an endpoint of a server that shall run.
type portClaim struct {
	server   spec.Key
	endpoint spec.LaunchEndpoint
}

// missing reports a server whose profile is in none of the files: a fault if whole directories were given, and else only a
// note, for the profile may be in a file that was not.
func (f *findings) missing(paths []string, s *spec.Accepted[spec.Server]) {
	fault := located(paths, s.Source, spec.Fault{
		Field: "spec.profile", Kind: spec.FaultNotFound, Value: s.Object.Spec.Profile, Detail: "no file here has a profile of this name"})
	if slices.ContainsFunc(paths, func(p string) bool { return within(p, "x") == p }) {
		f.notes = append(f.notes, fault)
		return
	}
	f.faults = append(f.faults, fault)
}

// located is a fault of a resolved server, at the server's object.
func located(paths []string, src spec.ObjectSource, fault spec.Fault) spec.Fault {
	for i, p := range paths {
		if rootName(i) == src.Root {
			fault.File = within(p, src.File)
		}
	}
	fault.Line, fault.Document = src.Line, src.Document
	return fault
}

// anyHost is a host that opens every workspace that the profile names and allows its user.
func anyHost(p *spec.Profile) spec.HostView {
	h := spec.HostView{Workspaces: map[string]string{"usr": "/usr", "data": "/data"}, InheritAny: true}
	open := func(name string) {
		if name != "" {
			h.Workspaces[name] = "/" + name
		}
	}
	open(p.Spec.Actions.Start.Workspace)
	if d := p.Spec.Directory; d != nil {
		open(d.Workspace)
	}
	// References may be anywhere: they are found in the text.
	for _, part := range bytes.Split(p.Written, []byte("$(workspace."))[1:] {
		if name, _, ok := bytes.Cut(part, []byte(")")); ok {
			open(string(name))
		}
	}
	if p.Spec.User != "" {
		h.Users = []string{p.Spec.User}
	}
	return h
}

func (f *findings) print(stdout, stderr io.Writer, set *spec.Set) error {
	for _, list := range [][]spec.Fault{f.faults, f.notes} {
		slices.SortStableFunc(list, func(a, b spec.Fault) int {
			return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
		})
	}
	for _, note := range f.notes {
		fmt.Fprintf(stderr, "note: %s\n", note.Error())
	}
	for _, fault := range f.faults {
		fmt.Fprintln(stdout, fault.Error())
	}
	if n := len(f.faults); n > 0 {
		return fmt.Errorf("%s", plural(n, "fault"))
	}
	if f.files == 0 {
		return &exitError{exitUsage, errors.New("no manifest is there: files need apiVersion and kind at the top, and a name that ends in .yaml, .yml or .json")}
	}
	_, err := fmt.Fprintf(stdout, "good: %s with %s and %s\n", plural(f.files, "file"), plural(len(set.Profiles), "profile"), plural(len(set.Servers), "server"))
	return err
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}
