package secret

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/spec"
)

// Limit is how large a secret may be, in bytes, without its final newline.
const Limit = 256 << 10

// Store reads secrets from a directory.
type Store struct {
	// Directory is the host's secretsDirectory, absolute.
	Directory string
}

// Read reads the secret NAME/KEY anew. One final newline is taken off. It fails unless
//
//   - ref is NAME/KEY as API.md has it: a DNS label, and a key of letters, digits, '-', '_' and '.' that does not begin
//     with '.';
//   - after every symlink the file lies beneath the directory, and is regular;
//   - its mode is 0600 or 0400, and every directory from the secrets directory down to it is closed to group and others;
//   - all of them belong to root or to the user of this process;
//   - it holds 1 byte to [Limit], and did not change while it was read.
//
// A secret that is not there fails with [fs.ErrNotExist].
func (s Store) Read(ref string) (Value, error) {
	if err := checkRef(ref); err != nil {
		return Value{}, err
	}
	root, err := unix.Open(s.Directory, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return Value{}, problem(ref, "the secrets directory cannot be opened", "make it, with mode 0700, or correct `secretsDirectory` of the host's configuration", err)
	}
	defer unix.Close(root)
	if err := checkDirectory(root, ref, "the secrets directory"); err != nil {
		return Value{}, err
	}
	// A swap of ..data may take the old directory away between the steps; the next look finds the new one.
	for range 3 {
		var v Value
		if v, err = read(root, ref); !errors.Is(err, errMoved) {
			return v, err
		}
	}
	return Value{}, problem(ref, "the file is replaced all the time", "replace it once, by a rename", err)
}

// errMoved says that a file has another place than a moment ago.
var errMoved = errors.New("the file was moved meanwhile")

func read(root int, ref string) (Value, error) {
	fd, err := open(root, ref, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, unix.RESOLVE_BENEATH|unix.RESOLVE_NO_MAGICLINKS)
	if err != nil {
		return Value{}, openProblem(ref, err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return Value{}, problem(ref, "the file cannot be looked at", "see whether its file system works", err)
	}
	if err := checkFile(&st, ref); err != nil {
		return Value{}, err
	}
	if err := checkWay(root, fd, &st, ref); err != nil {
		return Value{}, err
	}
	return content(fd, &st, ref)
}

func open(dir int, name string, flags int, resolve uint64) (int, error) {
	how := &unix.OpenHow{Flags: uint64(flags) | unix.O_CLOEXEC, Resolve: resolve}
	for {
		fd, err := unix.Openat2(dir, name, how)
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN) { // EAGAIN: a rename elsewhere got in the way
			continue
		}
		return fd, err
	}
}

// checkWay looks at every directory between the root and the file. Their names are the kernel's, after every symlink.
func checkWay(root, fd int, file *unix.Stat_t, ref string) error {
	top, err := pathOf(root)
	if err != nil {
		return problem(ref, "its real place cannot be learned", "see whether /proc is mounted", err)
	}
	real, err := pathOf(fd)
	if err != nil {
		return problem(ref, "its real place cannot be learned", "see whether /proc is mounted", err)
	}
	rest, ok := strings.CutPrefix(real, strings.TrimSuffix(top, "/")+"/")
	if !ok {
		return errMoved
	}
	names := strings.Split(rest, "/")
	dir := root
	for i, name := range names {
		next, err := open(dir, name, unix.O_PATH, unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS)
		if dir != root {
			unix.Close(dir) // O_PATH: there is nothing that could fail to be written
		}
		if err != nil {
			return errMoved
		}
		dir = next
		if i == len(names)-1 {
			break
		}
		if err := checkDirectory(dir, ref, "one of its directories"); err != nil {
			unix.Close(dir)
			return err
		}
	}
	defer unix.Close(dir)
	var st unix.Stat_t
	if err := unix.Fstat(dir, &st); err != nil || st.Dev != file.Dev || st.Ino != file.Ino {
		return errMoved
	}
	return nil
}

func pathOf(fd int) (string, error) { return os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)) }

func checkDirectory(fd int, ref, what string) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return problem(ref, what+" cannot be looked at", "see whether its file system works", err)
	}
	if !ours(&st) {
		return problem(ref, what+" belongs to another user", "give it to root or to the keeper's user", nil)
	}
	if st.Mode&0o077 != 0 {
		return problem(ref, fmt.Sprintf("%s has mode %04o", what, st.Mode&0o7777), "close it to all but its owner (0700)", nil)
	}
	return nil
}

func checkFile(st *unix.Stat_t, ref string) error {
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return problem(ref, "it is not a regular file", "put the secret into a file", nil)
	case !ours(st):
		return problem(ref, "the file belongs to another user", "give it to root or to the keeper's user", nil)
	case st.Mode&0o7777 != 0o600 && st.Mode&0o7777 != 0o400:
		return problem(ref, fmt.Sprintf("the file has mode %04o", st.Mode&0o7777), "give it mode 0600 or 0400", nil)
	case st.Size > Limit+1:
		return tooLarge(ref)
	}
	return nil
}

func ours(st *unix.Stat_t) bool { return st.Uid == 0 || int(st.Uid) == os.Geteuid() }

func content(fd int, before *unix.Stat_t, ref string) (Value, error) {
	buf := make([]byte, before.Size+1) // one more, to see that it is the end
	n, err := readAll(fd, buf)
	var after unix.Stat_t
	if err == nil {
		err = unix.Fstat(fd, &after)
	}
	v := first(buf, n-newline(buf[:n]))
	switch {
	case err != nil:
		v.Zero()
		return Value{}, problem(ref, "the file cannot be read", "see whether its file system works", err)
	case int64(n) != before.Size || after.Size != before.Size || after.Mtim != before.Mtim:
		v.Zero()
		return Value{}, problem(ref, "the file was written while it was read", "replace it by a rename", nil)
	case !v.Set():
		v.Zero()
		return Value{}, problem(ref, "the file is empty", "put the secret into it", nil)
	case len(v.Reveal()) > Limit:
		v.Zero()
		return Value{}, tooLarge(ref)
	}
	return v, nil
}

// newline is the length of the final newline of b.
func newline(b []byte) int {
	if len(b) > 0 && b[len(b)-1] == '\n' {
		return 1
	}
	return 0
}

func readAll(fd int, buf []byte) (n int, err error) {
	for n < len(buf) {
		m, err := unix.Read(fd, buf[n:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || m == 0 {
			return n, err
		}
		n += m
	}
	return n, nil
}

func checkRef(ref string) error {
	if spec.CheckSecretRef(ref) != "" {
		return errors.New("a secret's name is not NAME/KEY: correct the parameter's value to a DNS label, '/', and a key of letters, digits, '-', '_' and '.'")
	}
	return nil
}

func tooLarge(ref string) error {
	return problem(ref, fmt.Sprintf("the file is larger than %d KiB", Limit>>10), "make it smaller", nil)
}

func openProblem(ref string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR):
		return problem(ref, "there is no such file", "put it below the secrets directory, with mode 0600", fs.ErrNotExist)
	case errors.Is(err, unix.EXDEV), errors.Is(err, unix.ELOOP):
		return problem(ref, "a symlink leads out of the secrets directory", "let it lead to a file beneath", nil)
	}
	return problem(ref, "the file cannot be opened", "give it to root or to the keeper's user", err)
}

// problem says what is wrong and what to do. The cause must hold no path: an errno holds none, and of a [fs.PathError] only
// the errno is taken.
func problem(ref, what, remedy string, cause error) error {
	var path *fs.PathError
	if errors.As(cause, &path) {
		cause = path.Err
	}
	if cause == nil || errors.Is(cause, fs.ErrNotExist) && what == "there is no such file" {
		return &refusal{text: "secret " + ref + ": " + what + ": " + remedy, cause: cause}
	}
	return &refusal{text: fmt.Sprintf("secret %s: %s (%v): %s", ref, what, cause, remedy), cause: cause}
}

type refusal struct {
	text  string
	cause error
}

func (r *refusal) Error() string { return r.text }
func (r *refusal) Unwrap() error { return r.cause }
