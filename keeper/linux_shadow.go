package keeper

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/spec"
)

// A shadow is a directory in the server's own, where its user may go, named for the program that runs in it:
//
//	DIRECTORY/
//	  conf/a.cfg  b.cfg  world/
//	  .reconciler-check-ID/
//	    conf/a.cfg            a file of the new spec
//	    b.cfg -> ../b.cfg     all else
//	    world -> ../world
//
// The program's private folder has a link to the directory, under the name shadow: who takes the folder away takes the shadow first.
const (
	shadowPrefix = ".reconciler-check-"
	shadowLink   = "shadow"
	ownPrefix    = ".reconciler-" // of everything that is ours in a server's directory
)

// shadowEntries bounds the links of a shadow.
const shadowEntries = 16384

// MakeShadow implements [Kernel].
func (k *linux) MakeShadow(p Place, l *spec.Launch, h *Host, image Image) error {
	i := image.(*linuxImage)
	real, err := pathOf(i.dir)
	if err != nil {
		return err
	}
	if err := unix.Symlink(real, filepath.Join(k.folder(p.RunID), shadowLink)); err != nil {
		return fmt.Errorf("cannot note where a shadow is: %w", err)
	}
	if err := k.sweepShadows(i.dir); err != nil {
		return err
	}
	m := mirror{image: i, files: map[string]bool{}}
	for _, f := range l.Files {
		if f.Workspace != "" {
			continue
		}
		m.files[f.Path] = f.Write != spec.WriteIfMissing
		for dir := path.Dir(f.Path); dir != "."; dir = path.Dir(dir) {
			m.files[dir] = false
			m.dirs = append(m.dirs, dir)
		}
	}
	name := shadowPrefix + p.RunID
	shadow, err := m.make(i.dir, i.dir, name, "")
	if err != nil {
		return &ExecError{Op: "make a shadow of the server's directory", Errno: errnoOf(err), Remedy: shadowRemedy(err)}
	}
	_ = unix.Close(i.dir) // O_PATH: nothing was written through it
	i.dir, i.home = shadow, filepath.Join(real, name)
	i.env.zero()
	if i.env, err = fillEnvironment(h, l, i.home, i.user.name, i.notify); err != nil {
		return err
	}
	k.conceal(p.RunID, h, i.home, real)
	for n := range i.files {
		if i.files[n].root >= 0 {
			continue // the real one is no place to try a file in
		}
		if err := i.writeFile(&i.files[n]); err != nil {
			return fileError(n, err)
		}
	}
	return nil
}

func shadowRemedy(err error) string {
	if errors.Is(err, unix.E2BIG) {
		return "it holds more than " + strconv.Itoa(shadowEntries) + " files beside those of the spec: put them into a folder"
	}
	return ""
}

// conceal has paths of this host cut off what a program writes: those of its directory, and of workspaces, which are named
// otherwise in public.
func (k *linux) conceal(id string, h *Host, places ...string) {
	for _, w := range h.Workspaces {
		if len(w.Path) > 1 {
			places = append(places, path.Clean(w.Path))
		}
	}
	slices.SortStableFunc(places, func(a, b string) int { return len(b) - len(a) })
	k.mu.Lock()
	c := k.collectors[id]
	k.mu.Unlock()
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.places = places
}

// mirror makes one shadow.
type mirror struct {
	image   *linuxImage
	files   map[string]bool // what is at a path is written anew, and not linked
	dirs    []string        // that hold such files
	entries int
}

// make makes the shadow of a directory in another one, and returns it. rel is where the directory is in the server's, "" = it is that.
func (m *mirror) make(real, parent int, name, rel string) (int, error) {
	if err := unix.Mkdirat(parent, name, 0o750); err != nil {
		return -1, err
	}
	made, err := m.image.own(parent, name)
	if err != nil {
		return -1, err
	}
	if err := m.fill(real, made, rel); err != nil {
		return -1, errors.Join(err, unix.Close(made))
	}
	return made, nil
}

func (m *mirror) fill(real, made int, rel string) error {
	names, err := namesIn(real)
	if err != nil {
		return err
	}
	up := strings.Repeat("../", strings.Count(rel, "/")+1)
	if rel != "" {
		up += "../"
	}
	for _, name := range names {
		at := path.Join(rel, name)
		if m.entries++; m.entries > shadowEntries {
			return unix.E2BIG
		}
		if m.files[at] || strings.HasPrefix(name, ownPrefix) {
			continue
		}
		if done, err := m.descend(real, made, name, at); done || err != nil {
			if err != nil {
				return err
			}
			continue
		}
		if err := unix.Symlinkat(up+at, made, name); err != nil {
			return err
		}
	}
	return nil
}

// descend makes the shadow of a directory that holds files of the spec; done = it was one.
func (m *mirror) descend(real, made int, name, at string) (done bool, err error) {
	if !slices.Contains(m.dirs, at) {
		return false, nil
	}
	dir, err := openBeneath(real, name, unix.O_PATH|unix.O_DIRECTORY, unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		return false, nil // a symlink, or no directory: no file can be written in it, which is said then
	}
	defer unix.Close(dir)
	sub, err := m.make(dir, made, name, at)
	if err != nil {
		return true, err
	}
	return true, unix.Close(sub)
}

// namesIn are the names in a directory that is open for nothing else.
func namesIn(dir int) ([]string, error) {
	fd, err := openBeneath(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY, unix.RESOLVE_BENEATH)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "directory")
	names, err := f.Readdirnames(-1)
	return names, errors.Join(err, f.Close())
}

// sweepShadows removes the shadows of programs that nobody knows any more, from a directory: those of before a reset of the host.
func (k *linux) sweepShadows(dir int) error {
	names, err := namesIn(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		id, ours := strings.CutPrefix(name, shadowPrefix)
		if !ours {
			continue
		}
		if _, err := os.Lstat(k.folder(id)); errors.Is(err, fs.ErrNotExist) {
			if err := removeIn(dir, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// removeShadow removes the shadow of a program whose private folder this is. Nothing of the program lives.
func removeShadow(folder, id string) error {
	link := filepath.Join(folder, shadowLink)
	place, err := os.Readlink(link)
	if err != nil {
		return ignore(err, fs.ErrNotExist)
	}
	dir, err := openBeneath(unix.AT_FDCWD, place, unix.O_PATH|unix.O_DIRECTORY, unix.RESOLVE_NO_SYMLINKS)
	if err == nil {
		err = errors.Join(removeIn(dir, shadowPrefix+id), unix.Close(dir))
	} else if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) {
		err = nil // another directory is in its place: the shadow went with it
	}
	if err := ignore(err, fs.ErrNotExist); err != nil {
		return fmt.Errorf("cannot remove a shadow: %w", err)
	}
	return unix.Unlink(link)
}

// removeIn removes a directory with all that is in it, and follows no symlink.
func removeIn(dir int, name string) error {
	root, err := os.OpenRoot("/proc/self/fd/" + strconv.Itoa(dir))
	if err != nil {
		return err
	}
	return errors.Join(root.RemoveAll(name), root.Close())
}
