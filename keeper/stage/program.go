package stage

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

//go:generate go test -run TestProgramIsWhatItsSourceSays -rebuild .

// Comm is the name that a stage has until it executes the workload (prctl PR_SET_NAME): also a dead one can be told
// by it from a workload.
const Comm = "reconciler-hold"

// openProgram makes an executable file of the stage's program that has no name: in memory, sealed, or where the host
// refuses to execute from memory, in dir.
func openProgram(dir string) (*os.File, error) {
	if len(program) == 0 {
		return nil, fmt.Errorf("no stage for the architecture %s: runs on amd64 and arm64", runtime.GOARCH)
	}
	f, memErr := tried(memoryProgram())
	if memErr == nil {
		return f, nil
	}
	f, err := tried(fileProgram(dir))
	if err != nil {
		return nil, fmt.Errorf("cannot set up the stage: %w; give it a directory that is not mounted noexec (from memory: %w)", err, memErr)
	}
	return f, nil
}

// tried moves the program out of the way of the descriptors that a child is given, and proves that the host executes
// it.
func tried(f *os.File, err error) (*os.File, error) {
	if err != nil {
		return nil, err
	}
	defer f.Close()
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, firstFree)
	if err != nil {
		return nil, err
	}
	high := os.NewFile(uintptr(fd), f.Name())
	if err := trial(selfFd(fd)); err != nil {
		high.Close()
		return nil, fmt.Errorf("cannot execute it from %s: %w", f.Name(), err)
	}
	return high, nil
}

func memoryProgram() (*os.File, error) {
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate("reconciler-stage", flags|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3 there was no MFD_EXEC, and all were executable
		fd, err = unix.MemfdCreate("reconciler-stage", flags)
	}
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	f := os.NewFile(uintptr(fd), "memfd:reconciler-stage")
	if _, err := f.Write(program); err != nil {
		f.Close()
		return nil, err
	}
	const seals = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		f.Close()
		return nil, fmt.Errorf("cannot seal the memfd: %w", err)
	}
	return f, nil
}

// fileProgram makes an unlinked file. It is executed through its descriptor, so that a private directory is no
// hindrance for another user, but its mode must let that user execute it.
func fileProgram(dir string) (*os.File, error) {
	w, err := os.CreateTemp(dir, ".reconciler-stage-*")
	if err != nil {
		return nil, err
	}
	defer os.Remove(w.Name())
	_, err = w.Write(program)
	if err == nil {
		err = w.Chmod(0o555)
	}
	var f *os.File
	if err == nil {
		f, err = os.Open(w.Name())
	}
	// A file that is open for writing cannot be executed.
	if cerr := w.Close(); err == nil && cerr != nil {
		f.Close()
		err = cerr
	}
	return f, err
}

// trial executes the stage by a path, with a gate that is at its end: it must exit with 125.
func trial(path string) error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	n := null.Fd()
	pid, err := syscall.ForkExec(path, []string{Comm}, &syscall.ProcAttr{
		Files: []uintptr{n, n, n, n, n, n}, // whatever we inherited there ourselves must not be taken for a gate
	})
	if err != nil {
		return err
	}
	status, err := wait(pid)
	if err != nil {
		return err
	}
	if status.ExitStatus() != exitAborted {
		return fmt.Errorf("its trial ended with wait status %#x, not exit code %d", uint32(status), exitAborted)
	}
	return nil
}

// wait reaps a child of ours by its number, which is its own until then.
func wait(pid int) (status syscall.WaitStatus, err error) {
	for {
		_, err = syscall.Wait4(pid, &status, 0, nil)
		if !errors.Is(err, syscall.EINTR) {
			return status, err
		}
	}
}

// How a stage ends that executes nothing.
const (
	exitAborted = 125 // end of file on the gate
	exitFailed  = 126 // told on the gate
)

func selfFd(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }

// ourFd names what selfFd does, by way of this process instead of whoever looks. Only our own user may look so.
func ourFd(fd int) string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), fd) }
