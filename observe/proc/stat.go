package proc

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// stat is what we read of /proc/PID/stat (proc_pid_stat(5)).
type stat struct {
	pid     int
	comm    string
	state   byte // of the main thread: Z also when other threads live on
	ppid    int
	session int
	cpu     time.Duration // user and system, of this process alone
	start   uint64        // ticks since boot, field 22
	rss     int64         // pages
	exit    uint32        // field 52: a zombie's wait status; 0 when we may not know
}

// userHz is what the kernel counts times in for user space (USER_HZ), on every architecture that we run on.
const userHz = 100

var errStat = errors.New("not in the format of /proc/PID/stat")

// readStat reads the stat of whoever has the number pid now.
func readStat(pid int) (stat, error) {
	b, err := readOf(pid, "stat")
	if err != nil {
		return stat{}, err
	}
	return parseStat(b)
}

// parseStat parses a stat line. The command's name is in parentheses and may hold anything, parentheses and newlines
// too.
func parseStat(b []byte) (stat, error) {
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 1 || end < open {
		return stat{}, errStat
	}
	pid, err := strconv.Atoi(string(bytes.TrimSpace(b[:open])))
	if err != nil {
		return stat{}, fmt.Errorf("%w: %w", errStat, err)
	}
	s := stat{pid: pid, comm: string(b[open+1 : end])}
	f := bytes.Fields(b[end+1:]) // f[0] is field 3
	if len(f) < 22 || len(f[0]) != 1 {
		return stat{}, errStat
	}
	s.state = f[0][0]
	n := numbers{f: f}
	s.ppid = int(n.signed(4))
	s.session = int(n.signed(6))
	s.cpu = time.Duration(n.unsigned(14)+n.unsigned(15)) * (time.Second / userHz)
	s.start = n.unsigned(22)
	s.rss = n.signed(24)
	if len(f) >= 50 {
		s.exit = uint32(n.unsigned(52))
	}
	if n.err != nil {
		return stat{}, fmt.Errorf("%w: %w", errStat, n.err)
	}
	return s, nil
}

// numbers parses numbered fields and keeps the first error.
type numbers struct {
	f   [][]byte
	err error
}

func (n *numbers) signed(field int) int64 {
	v, err := strconv.ParseInt(string(n.f[field-3]), 10, 64)
	if n.err == nil {
		n.err = err
	}
	return v
}

func (n *numbers) unsigned(field int) uint64 {
	v, err := strconv.ParseUint(string(n.f[field-3]), 10, 64)
	if n.err == nil {
		n.err = err
	}
	return v
}
