package keeper

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/keeper/secret"
	"reconciler.dev/reconciler/observe/proc"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// openProgramStdio opens what a program reads, which is nothing, and its one FIFO for what it writes: read-write, so that no
// reader's death ends it.
func (k *linux) openProgramStdio(id string) (fds [3]int, err error) {
	fds = [3]int{-1, -1, -1}
	if fds[0], err = unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return fds, fmt.Errorf("cannot open %s: %w", os.DevNull, err)
	}
	path := k.folder(id) + "/" + fifoStdout
	for i := 1; i < len(fds); i++ {
		if fds[i], err = unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0); err != nil {
			return fds, fmt.Errorf("cannot open a FIFO: %w", errors.Join(err, closeStdio(fds)))
		}
	}
	return fds, nil
}

// collector reads what a program writes, on the loop, and keeps the end of it.
type collector struct {
	fd int

	mu      sync.Mutex
	end     []byte
	cut     bool
	closed  bool
	secrets []secret.Value // to be blotted out; ours
	blind   bool           // nothing may be kept: there are secrets in it that are not known
	places  []string       // paths of this host that are cut off, longest first
}

// collectBuffer is how much is read at once: what a FIFO holds.
const collectBuffer = 64 << 10

var collectBuffers = sync.Pool{New: func() any { return new([collectBuffer]byte) }}

// keepLimit is how much is kept until the program has ended: of a secret that begins in what was dropped nothing may be shown
// either, so that a longer one makes the collector blind.
const keepLimit = 2 * collectBuffer

// take reads what is there, once. It reports whether there may be more.
func (c *collector) take() bool {
	buf := collectBuffers.Get().(*[collectBuffer]byte)
	defer collectBuffers.Put(buf)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	n, err := unix.Read(c.fd, buf[:])
	if err != nil || n <= 0 {
		return errors.Is(err, unix.EINTR)
	}
	c.end = append(c.end, buf[:n]...)
	if over := len(c.end) - keepLimit; over > 0 {
		c.end, c.cut = append(c.end[:0], c.end[over:]...), true
	}
	return true
}

// restRounds bounds the reading of what is left: a FIFO holds no more, but somebody may still write.
const restRounds = 16

// finish reads the rest and closes the FIFO.
func (c *collector) finish() (end []byte, cut bool) {
	for rounds := 0; rounds < restRounds && c.take(); rounds++ {
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	_ = unix.Close(c.fd)
	end, c.end = c.end, nil
	if c.blind {
		return nil, c.cut || len(end) > 0
	}
	for _, s := range c.secrets {
		end = s.Redact(end)
		s.Zero()
	}
	for _, place := range c.places {
		end = bytes.ReplaceAll(bytes.ReplaceAll(end, []byte(place+"/"), nil), []byte(place+"\n"), []byte(".\n"))
	}
	if over := len(end) - state.OutputLimit; over > 0 {
		end, c.cut = end[over:], true
	}
	return end, c.cut
}

// Collect implements [Kernel]. Until the program is forked, and after a crash for good, secrets in its launch make it blind.
func (k *linux) Collect(p Place, l *spec.Launch) error {
	fd, err := k.openReader(p, 1)
	if err != nil {
		return err
	}
	c := &collector{fd: fd, blind: hasSecrets(l)}
	if err := k.loop.Add(fd, unix.EPOLLIN, func(uint32) { c.take() }); err != nil {
		return errors.Join(err, unix.Close(fd))
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.collectors[p.RunID] = c
	return nil
}

// hasSecrets reports whether a launch is executed with any.
func hasSecrets(l *spec.Launch) bool {
	return slices.ContainsFunc(l.Args, spec.HasSecret) || slices.ContainsFunc(l.Env, func(e spec.LaunchEnv) bool { return spec.HasSecret(e.Value) }) ||
		slices.ContainsFunc(l.Files, func(f spec.LaunchFile) bool { return spec.HasSecret(f.Content) })
}

// Collected implements [Kernel].
func (k *linux) Collected(p Place) ([]byte, bool) {
	k.mu.Lock()
	c := k.collectors[p.RunID]
	delete(k.collectors, p.RunID)
	k.mu.Unlock()
	if c == nil {
		return nil, false
	}
	k.loop.Remove(c.fd)
	return c.finish()
}

// know tells the collector of a program which secrets it was given.
func (k *linux) know(id string, image *linuxImage) {
	k.mu.Lock()
	c := k.collectors[id]
	k.mu.Unlock()
	if c == nil || !c.blind {
		return
	}
	secrets, longest := image.secrets()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.secrets, c.blind = secrets, longest > keepLimit-state.OutputLimit
}

// secrets are copies of those in an image, the longest first: what begins with another must be blotted out whole.
func (i *linuxImage) secrets() (all []secret.Value, longest int) {
	for _, text := range slices.Concat(i.args, i.env, i.contents()) {
		for _, v := range text.Parts {
			if !slices.ContainsFunc(all, v.Equal) {
				all = append(all, secret.New(slices.Clone(v.Reveal())))
				longest = max(longest, len(v.Reveal()))
			}
		}
	}
	slices.SortStableFunc(all, func(a, b secret.Value) int { return len(b.Reveal()) - len(a.Reveal()) })
	return all, longest
}

// WakeAt implements [Kernel].
func (k *linux) WakeAt(scope spec.Scope, at time.Duration) {
	k.mu.Lock()
	if old, ok := k.wakes[scope]; !ok || at < old {
		k.wakes[scope] = at
	}
	k.mu.Unlock()
	k.poke()
}

// wake asks for attention to the scopes whose time has come, and says when the next one's does; zero = none waits.
func (k *linux) wake() time.Time {
	now, uptime := time.Now(), k.Now().Uptime
	k.mu.Lock()
	defer k.mu.Unlock()
	var next time.Time
	for scope, at := range k.wakes {
		if at <= uptime {
			delete(k.wakes, scope)
			k.settle(scope)
			continue
		}
		if due := now.Add(at - uptime); next.IsZero() || due.Before(next) {
			next = due
		}
	}
	return next
}

// watchKey is what the watch of cgroups calls a tree.
func watchKey(p Place) string {
	if p.Program {
		return p.Scope.ID() + "/" + p.RunID
	}
	return p.Scope.ID()
}

// leafOf is the path of a program's leaf in the cgroup of a run.
func leafOf(run string, number int64) string {
	if run == "" {
		return ""
	}
	return proc.Leaf(run, number)
}

// probeLeafOf is the path of the leaf of a probe's program in the cgroup of a run.
func probeLeafOf(run string, why spec.Purpose) string {
	if run == "" {
		return ""
	}
	return proc.ProbeLeaf(run, strings.ToLower(string(why)))
}
