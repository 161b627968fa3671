package pump

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/observe/logs"
)

// What Linux keeps of a terminal's output: what can be read at once, and what is on its way there (n_tty.c, N_TTY_BUF_SIZE; pty.c,
// tty_buffer_set_limit), in bytes.
const (
	terminalRoom   = 4 << 10
	terminalOnWay  = 8 << 10
	catchUpAtMost  = 8 // reads
	terminalStream = logs.Stdout
)

// AttachTerminal begins to read a run's terminal, as its stdout. master is the master side, O_NONBLOCK; from success on it is the
// pump's, after an error it stays the caller's. Of a line's end, carriage return and newline, the newline is what is logged; all else is
// logged as it comes. That the other side was closed everywhere is no fault: what is there is read, and what comes once it is opened
// again. It fails as [Pump.Attach] does.
func (p *Pump) AttachTerminal(id logs.Run, master int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, err := p.unattached(id)
	if err != nil {
		return err
	}
	s, err := p.reader.add(&source{run: r, fd: master, stream: terminalStream, capacity: terminalRoom, terminal: true})
	if err != nil {
		return fmt.Errorf("cannot attach %v: %w", id, err)
	}
	p.begin(r, s)
	return nil
}

// available is how many bytes can be read now. Of a terminal what the other side has written may not have arrived yet: asking
// whether it can be read brings it over first (n_tty.c, n_tty_poll).
func (s *source) available() int {
	n := available(s.fd)
	if n > 0 || !s.terminal {
		return n
	}
	_, _ = unix.Poll([]unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLIN}}, 0)
	return available(s.fd)
}

// pending is how much must be read until all is read that was written before; less may be there.
func (s *source) pending() int {
	if s.terminal {
		return terminalRoom + terminalOnWay
	}
	return s.available()
}

// catchUp reads what a terminal has written so far. How much that is cannot be asked for: some of it is on its way.
func (rd *reader) catchUp(s *source) {
	if !s.terminal {
		return
	}
	now := time.Now()
	for range catchUpAtMost {
		if moved, _ := rd.read(s, now); moved == 0 {
			return
		}
	}
}
