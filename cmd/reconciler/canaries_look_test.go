package main

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/keeper/pump"
)

// sent is what a system call lets out of its process.
func sent(c *call) []byte {
	switch c.nr {
	case unix.SYS_WRITE, unix.SYS_PWRITE64, unix.SYS_SENDTO:
		return c.memory(c.args[1], c.args[2])
	case unix.SYS_WRITEV, unix.SYS_PWRITEV, unix.SYS_PWRITEV2:
		return c.vectors(c.args[1], c.args[2])
	case unix.SYS_SENDMSG:
		h := c.memory(c.args[1], 56) // struct msghdr, socket.h: the vectors' place and number at 16 and 24
		if len(h) < 56 {
			return nil
		}
		return c.vectors(binary.NativeEndian.Uint64(h[16:]), binary.NativeEndian.Uint64(h[24:]))
	case unix.SYS_SENDMMSG, unix.SYS_SENDFILE, unix.SYS_SPLICE, unix.SYS_VMSPLICE, unix.SYS_COPY_FILE_RANGE, unix.SYS_IO_URING_SETUP:
		return []byte(notFollowed)
	}
	return nil
}

// notFollowed stands for a call of which nobody has said here what it lets out.
const notFollowed = "(a system call that is not followed)"

// memory reads n bytes of the process.
func (c *call) memory(at, n uint64) []byte {
	if n == 0 {
		return nil
	}
	buf := make([]byte, min(n, 1<<20))
	local := []unix.Iovec{{Base: &buf[0]}}
	local[0].SetLen(len(buf))
	got, err := unix.ProcessVMReadv(c.pid, local, []unix.RemoteIovec{{Base: uintptr(at), Len: len(buf)}}, 0)
	if err != nil {
		return nil
	}
	return buf[:got]
}

func (c *call) vectors(at, n uint64) (all []byte) {
	raw := c.memory(at, 16*min(n, 1024))
	for ; len(raw) >= 16; raw = raw[16:] {
		all = append(all, c.memory(binary.NativeEndian.Uint64(raw), binary.NativeEndian.Uint64(raw[8:]))...)
	}
	return all
}

// disguises are the ways in which a text may stand in bytes: as it is, in hexadecimal, or in base64, whatever stands before.
func disguises(text string) []string {
	all := []string{text, hex.EncodeToString([]byte(text)), strings.ToUpper(hex.EncodeToString([]byte(text)))}
	for before := range 3 {
		for _, code := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			b := code.EncodeToString(append(make([]byte, before), text...))
			all = append(all, b[4:len(b)-4]) // without what its neighbours have a part in
		}
	}
	return all
}

func holds(data []byte, text string) bool {
	return slices.ContainsFunc(disguises(text), func(s string) bool { return bytes.Contains(data, []byte(s)) })
}

// gives checks that a workload has its secrets, in its environment and its arguments.
func (c *cage) gives(pid int, password, token string) {
	c.t.Helper()
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	c.must(err)
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	c.must(err)
	env, args := strings.Split(string(environ), "\x00"), strings.Split(string(cmdline), "\x00")
	if !slices.Contains(env, "PASSWORD="+password) || !slices.Contains(env, "DATABASE=db://game:"+password+"@localhost") {
		c.t.Errorf("the workload lacks its secret: %q", env)
	}
	if !slices.Contains(args, "--token="+token) || holds(cmdline, password) || holds(environ, token) {
		c.t.Errorf("the arguments are %q, the environment %q", args, env)
	}
}

// search looks for the secrets wherever they must not be, and for what is no secret where it must be found the same way.
func (c *cage) search(control canary, secrets ...canary) {
	c.t.Helper()
	lacks := func(where string, data []byte) {
		for _, s := range secrets {
			if holds(data, s.text) {
				c.t.Errorf("EC-6: the secret %s is in %s", s.name, where)
			}
		}
	}
	for _, s := range c.said {
		lacks("what "+s.what+" says", []byte(s.text))
	}
	for _, p := range []*traced{&c.keeper, &c.run} {
		traffic := []byte(p.traffic.String())
		lacks("the output of "+p.name, []byte(p.out.String()))
		for _, s := range secrets {
			if spoken := s.spoken && p == &c.keeper; holds(traffic, s.text) != spoken {
				c.t.Errorf("EC-6: the secret %s is in what %s writes and sends: %v", s.name, p.name, !spoken)
			}
		}
		if bytes.Contains(traffic, []byte(notFollowed)) {
			c.t.Errorf("%s makes a system call that is not followed: say in sent what it lets out", p.name)
		}
		if !holds(traffic, control.text) || !holds(traffic, "town/password") {
			c.t.Errorf("a plain value is not found in what %s writes and sends: nothing would be", p.name)
		}
		for _, of := range []string{"environ", "cmdline"} {
			data, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", p.cmd.Process.Pid, of))
			c.must(err)
			lacks("the "+of+" of "+p.name, data)
		}
	}
	// The keeper reads them; the reconciler never has them.
	memory := c.memoryOf(c.run.cmd.Process.Pid)
	lacks("the memory of the reconciler", memory)
	if !holds(memory, control.text) {
		c.t.Error("a plain value is not found in the memory of the reconciler: nothing would be")
	}
	c.searchFiles(control.text, lacks)
}

// searchFiles reads every file that we have made, the secrets themselves apart.
func (c *cage) searchFiles(control string, lacks func(where string, data []byte)) {
	c.t.Helper()
	found, secret := false, false
	for _, root := range append(c.inMemory(), c.layout.State, c.layout.Runtime) {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // it has just been taken away
			}
			if err != nil {
				return err
			}
			lacks("the name of "+path, []byte(d.Name()))
			if !d.Type().IsRegular() {
				return nil
			}
			data, err := os.ReadFile(path)
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if strings.HasPrefix(path, c.layout.Secrets()+"/") {
				secret = secret || holds(data, "canary-")
				return err
			}
			lacks(path, data)
			found = found || holds(data, control)
			return err
		})
		c.must(err)
	}
	if !found || !secret {
		c.t.Errorf("a plain value is found in our files: %v, a secret in its own: %v: nothing else would be", found, secret)
	}
}

// inMemory is what keepers have below /dev/shm for this state directory: folders of runs, and what was printed and is not written yet.
func (c *cage) inMemory() []string {
	var st syscall.Stat_t
	c.must(syscall.Stat(c.layout.Keeper(), &st))
	mine := fmt.Sprintf("-%x-%x", st.Dev, st.Ino)
	all, err := filepath.Glob("/dev/shm/reconciler-*" + mine)
	c.must(err)
	return append(all, pump.PoolDirs(c.layout.Runtime, c.layout.State)...)
}

// memoryOf is all that a process has in memory and may read.
func (c *cage) memoryOf(pid int) []byte {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	c.must(err)
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	c.must(err)
	defer mem.Close()
	var all []byte
	for line := range strings.Lines(string(maps)) {
		var from, to int64
		var mode string
		if _, err := fmt.Sscanf(line, "%x-%x %s", &from, &to, &mode); err != nil || !strings.HasPrefix(mode, "rw") || to-from > 1<<28 {
			continue
		}
		part := make([]byte, to-from)
		n, _ := mem.ReadAt(part, from) // what cannot be read is not there
		all = append(all, part[:n]...)
	}
	return all
}
