package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// call is a system call of a traced process at its entry or its exit.
type call struct {
	pid    int // the process, not the thread
	nr     uint64
	args   [6]uint64
	point  string // what the watcher called it at its entry
	after  bool
	result int64 // after it: what it returned, or -errno
}

// tracer follows every thread of one process, and none of its children: they are let go as soon as they are another program.
type tracer struct {
	cmd   *exec.Cmd
	see   func(*call)
	ended chan struct{}
	err   error // why it was not followed to its end; to be read when ended is closed
	tasks map[int]*task
}

// task is a thread, or a child that is not another program yet.
type task struct {
	thread bool
	call   call
}

// startTraced starts a command and calls see at every entry and exit of a system call, one at a time, while the calling thread is stopped:
// what see kills does not carry out a call that it was about to make. It stands in for strace, whose counts are those of a thread,
// which in a Go program is any thread.
func startTraced(cmd *exec.Cmd, see func(*call)) (*tracer, error) {
	t := &tracer{cmd: cmd, see: see, ended: make(chan struct{}), tasks: map[int]*task{}}
	started := make(chan error)
	go func() {
		// Only the thread that has started it may ask about it. It is not given back: what it waits for would be another's.
		runtime.LockOSThread()
		cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
		err := cmd.Start()
		if err == nil {
			err = t.begin()
		}
		started <- err
		if err == nil {
			t.err = t.follow()
			close(t.ended)
		}
	}()
	return t, <-started
}

const traceOptions = unix.PTRACE_O_TRACESYSGOOD | unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_TRACEFORK | unix.PTRACE_O_TRACEVFORK |
	unix.PTRACE_O_TRACEEXEC | unix.PTRACE_O_EXITKILL

// begin waits for the stop at the program's execution.
func (t *tracer) begin() error {
	pid := t.cmd.Process.Pid
	var ws unix.WaitStatus
	if _, err := unix.Wait4(pid, &ws, unix.WALL, nil); err != nil {
		return err
	}
	if !ws.Stopped() {
		return fmt.Errorf("process %d is not stopped but %#x", pid, ws)
	}
	t.tasks[pid] = &task{thread: true}
	return errors.Join(unix.PtraceSetOptions(pid, traceOptions), unix.PtraceSyscall(pid, 0))
}

// follow goes on until the process has ended.
func (t *tracer) follow() error {
	root := t.cmd.Process.Pid
	for {
		var ws unix.WaitStatus
		tid, err := unix.Wait4(-1, &ws, unix.WALL|unix.WNOTHREAD, nil)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.ECHILD:
			return nil
		case err != nil:
			return err
		}
		if !ws.Stopped() {
			delete(t.tasks, tid)
			if tid == root {
				return nil
			}
			continue
		}
		if err := t.stopped(tid, ws); err != nil && !errors.Is(err, unix.ESRCH) { // it may have been killed meanwhile
			return err
		}
	}
}

// stopped looks at a stopped task and lets it go on.
func (t *tracer) stopped(tid int, ws unix.WaitStatus) error {
	k, known := t.tasks[tid]
	if !known {
		k = &task{thread: t.isThread(tid)}
		t.tasks[tid] = k
		if ws.StopSignal() == unix.SIGSTOP { // how a new one begins
			return t.resume(tid, k, 0)
		}
	}
	switch sig := ws.StopSignal(); {
	case sig == unix.SIGTRAP|0x80:
		if err := t.atCall(tid, k); err != nil {
			return err
		}
		return t.resume(tid, k, 0)
	case ws.TrapCause() == unix.PTRACE_EVENT_EXEC && !k.thread:
		delete(t.tasks, tid)
		return unix.PtraceDetach(tid)
	case sig == unix.SIGTRAP && ws.TrapCause() > 0:
		return t.resume(tid, k, 0)
	default:
		return t.resume(tid, k, int(sig))
	}
}

func (t *tracer) resume(tid int, k *task, sig int) error {
	if !k.thread {
		return unix.PtraceCont(tid, sig)
	}
	return unix.PtraceSyscall(tid, sig)
}

func (t *tracer) isThread(tid int) bool {
	_, err := os.Stat(fmt.Sprintf("/proc/%d/task/%d", t.cmd.Process.Pid, tid))
	return err == nil
}

// The layout of struct ptrace_syscall_info, linux/ptrace.h.
const (
	getSyscallInfo = 0x420e
	infoEntry      = 1
	infoExit       = 2
)

func (t *tracer) atCall(tid int, k *task) error {
	var info [88]byte
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, getSyscallInfo, uintptr(tid), uintptr(len(info)), uintptr(unsafe.Pointer(&info)), 0, 0)
	if errno != 0 {
		return errno
	}
	word := func(i int) uint64 { return binary.NativeEndian.Uint64(info[24+8*i:]) }
	switch info[0] {
	case infoEntry:
		k.call = call{pid: t.cmd.Process.Pid, nr: word(0)}
		for i := range k.call.args {
			k.call.args[i] = word(1 + i)
		}
	case infoExit:
		k.call.after, k.call.result = true, int64(word(0))
	default:
		return nil
	}
	t.see(&k.call)
	return nil
}

// text reads a string of the traced process.
func (c *call) text(arg int) string {
	var buf [512]byte
	at := uintptr(c.args[arg])
	n := 0
	for n < len(buf) { // up to the end of each page: what follows may not be mapped
		size := min(len(buf)-n, 4096-int((at+uintptr(n))%4096))
		local := []unix.Iovec{{Base: &buf[n]}}
		local[0].SetLen(size)
		got, err := unix.ProcessVMReadv(c.pid, local, []unix.RemoteIovec{{Base: at + uintptr(n), Len: size}}, 0)
		if err != nil {
			break
		}
		for i := range got {
			if buf[n+i] == 0 {
				return string(buf[:n+i])
			}
		}
		n += got
	}
	return string(buf[:n])
}

// bytes reads memory of the traced process.
func (c *call) bytes(arg, n int) []byte {
	buf := make([]byte, n)
	local := []unix.Iovec{{Base: &buf[0]}}
	local[0].SetLen(n)
	got, err := unix.ProcessVMReadv(c.pid, local, []unix.RemoteIovec{{Base: uintptr(c.args[arg]), Len: n}}, 0)
	if err != nil {
		return nil
	}
	return buf[:got]
}

// file is what a descriptor leads to.
func (c *call) file(arg int) string {
	link, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", c.pid, int32(c.args[arg])))
	if err != nil {
		return "?"
	}
	return link
}

// path is a path relative to a directory's descriptor.
func (c *call) path(dir, arg int) string {
	text := c.text(arg)
	if len(text) > 0 && text[0] == '/' || int32(c.args[dir]) == unix.AT_FDCWD {
		return text
	}
	if text == "" {
		return c.file(dir)
	}
	return c.file(dir) + "/" + text
}
