//go:build chaos || crash

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/state"
)

// sighting is a live process of a server, found from outside: by its environment and its cgroup or output.
type sighting struct {
	pid    int
	ticks  uint64
	server string
	run    string // "" = it cannot be told
	comm   string
}

func (s sighting) String() string {
	return fmt.Sprintf("process %d (%s) of %s, run %q", s.pid, s.comm, s.server, s.run)
}

// lives reports whether it still does.
func (s sighting) lives() bool {
	_, ticks, ok := statOf(s.pid)
	return ok && ticks == s.ticks
}

// statOf is a process's name and start, ok = it is there and no zombie.
func statOf(pid int) (comm string, ticks uint64, ok bool) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	end := bytes.LastIndexByte(data, ')')
	if err != nil || end < 0 {
		return "", 0, false
	}
	f := strings.Fields(string(data[end+1:]))
	if len(f) < 20 || f[0] == "Z" || f[0] == "X" {
		return "", 0, false
	}
	ticks, err = strconv.ParseUint(f[19], 10, 64) // field 22 of proc(5)
	return string(data[bytes.IndexByte(data, '(')+1 : end]), ticks, err == nil
}

// scan finds every process of the trial's servers.
func (tr *trial) scan() []sighting {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		tr.fault("cannot look at the processes: %v", err)
		return nil
	}
	mark := []byte("TRIAL=" + tr.marker + "/")
	var found []sighting
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if err != nil {
			continue
		}
		run := runIDOf(pid)
		server := tr.serverOf(run) // some write their title over their environment
		if _, after, ok := bytes.Cut(env, mark); ok {
			name, _, _ := bytes.Cut(after, []byte{0})
			server = string(name)
		}
		if comm, ticks, ok := statOf(pid); ok && server != "" {
			found = append(found, sighting{pid, ticks, server, run, comm})
		}
	}
	return found
}

// serverOf is the server that had a run, "" = it is none of the trial's.
func (tr *trial) serverOf(run string) string {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.runs[run].server
}

// runIDOf reads off a process which run it belongs to: its cgroup is reconciler/RUN, or below that of a program beside it; its
// output is the FIFO FOLDER/RUN/stdout, but for a program, which has a folder of its own and nothing to read.
func runIDOf(pid int) string {
	cgroups, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	for line := range strings.Lines(string(cgroups)) {
		path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::")
		if leaf := filepath.Base(path); strings.HasPrefix(leaf, "cmd-") || strings.HasPrefix(leaf, "probe-") {
			path = filepath.Dir(path)
		}
		if ok && filepath.Base(filepath.Dir(path)) == "reconciler" {
			return filepath.Base(path)
		}
	}
	if in, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/0", pid)); err == nil && in == os.DevNull {
		return ""
	}
	for _, fd := range []int{0, 1, 2} {
		link, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", pid, fd))
		link = strings.TrimSuffix(link, " (deleted)")
		if err == nil && filepath.Base(link) == []string{"stdin", "stdout", "stderr"}[fd] {
			return filepath.Base(filepath.Dir(link))
		}
	}
	return ""
}

// lookForTwins is I1 from outside: no server has live processes of two runs. Those of a scan were not seen at the same moment; two
// that still live after it were.
func (tr *trial) lookForTwins(found []sighting) {
	first := map[string]sighting{}
	for _, s := range found {
		other, ok := first[s.server]
		if !ok || s.run == "" {
			first[s.server] = s
			continue
		}
		if other.run == s.run || other.run == "" {
			continue
		}
		if s.lives() && other.lives() {
			tr.fault("I1: two runs live at once: %v and %v", other, s)
		}
	}
}

// records reads every record there is, archived ones too. One that is read while it changes its place is read again.
func (tr *trial) records() []*state.Record {
	var all []*state.Record
	for _, folder := range []string{"records", "archive"} {
		files, _ := filepath.Glob(filepath.Join(tr.layout.Keeper(), folder, "*.json"))
		for _, file := range files {
			if strings.HasPrefix(filepath.Base(file), ".") {
				continue
			}
			r, err := state.ReadRecord(file)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				tr.fault("a record cannot be read: %s: %v", file, err)
			}
			if err == nil {
				all = append(all, r)
			}
		}
	}
	return all
}

// note takes in what a record says, and holds it against what records said before.
func (tr *trial) note(r *state.Record) {
	numbers := map[int64]bool{}
	for _, e := range r.History {
		if numbers[e.Number] {
			tr.fault("I4: run %d of %s has ended twice", e.Number, r.Scope.Server)
		}
		numbers[e.Number] = true
		tr.noteExit(r.Scope.Server, e)
	}
	if r.Run == nil {
		return
	}
	if ended := r.Run.Phase == state.Exited; ended != numbers[r.Run.Number] {
		tr.fault("I4: run %d of %s is in phase %s, its end on record: %v", r.Run.Number, r.Scope.Server, r.Run.Phase, numbers[r.Run.Number])
	}
	seen := runSeen{server: r.Scope.Server, number: r.Run.Number, launchingAt: r.Run.LaunchingAt}
	if r.Run.Identity != nil {
		seen.pid = r.Run.Identity.PID
	}
	tr.mu.Lock()
	old, ok := tr.runs[r.Run.ID]
	tr.runs[r.Run.ID] = seen
	tr.loss[r.Scope.Server] = r.Counters.LogDroppedLines
	if !ok {
		tr.tellLocked("%s: run %d (%s) is on record, process %d", seen.server, seen.number, r.Run.ID, seen.pid)
	}
	tr.mu.Unlock()
	if ok && old.pid != 0 && old.pid != seen.pid {
		tr.fault("run %d of %s was process %d and is now %d", seen.number, seen.server, old.pid, seen.pid)
	}
}

func (tr *trial) noteExit(server string, e state.Exit) {
	tr.mu.Lock()
	old, ok := tr.exits[e.RunID]
	tr.exits[e.RunID] = e
	if !ok {
		tr.tellLocked("%s: run %d has ended: %s", server, e.Number, exitText(e))
		if _, seen := tr.runs[e.RunID]; !seen {
			tr.runs[e.RunID] = runSeen{server: server, number: e.Number}
		}
	}
	tr.mu.Unlock()
	if ok && !reflect.DeepEqual(old, e) {
		tr.fault("I4: the recorded end of run %d of %s has changed: from %s to %s", e.Number, server, exitText(old), exitText(e))
	}
}

func exitText(e state.Exit) string {
	how := "not told"
	if e.ExitCode != nil {
		how = "code " + strconv.Itoa(*e.ExitCode)
	}
	if e.Signal != "" {
		how = e.Signal
	}
	text := fmt.Sprintf("%s %s, %s", e.Class, e.Reason, how)
	if e.StopStep != nil {
		text += fmt.Sprintf(", step %d", *e.StopStep)
	}
	if e.Killed {
		text += ", killed"
	}
	if e.Why != "" {
		text += " (" + e.Why + ")"
	}
	return text
}

// look looks once, from all sides.
func (tr *trial) look() {
	for _, r := range tr.records() {
		tr.note(r)
	}
	found := tr.scan()
	tr.lookForTwins(found)
	tr.lookForUnrecorded(found)
}

// lookForUnrecorded is I2 from outside: what lives was on record before it was seen. A stage is no workload yet.
func (tr *trial) lookForUnrecorded(found []sighting) {
	var unknown []sighting
	tr.mu.Lock()
	for _, s := range found {
		if _, ok := tr.runs[s.run]; s.run != "" && !ok {
			unknown = append(unknown, s)
		}
	}
	tr.mu.Unlock()
	if len(unknown) == 0 {
		return
	}
	for _, r := range tr.records() { // they may have come since the records were read
		tr.note(r)
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for _, s := range unknown {
		if _, ok := tr.runs[s.run]; !ok && s.lives() {
			text := "I2: " + s.String() + " is in no record"
			tr.faults = append(tr.faults, text)
			tr.tellLocked("FAULT %s", text)
		}
	}
}

// watch looks at every tick until ctx ends, and that a keeper ends only when it is killed.
func (tr *trial) watch(ctx context.Context, pace time.Duration) {
	tick := time.NewTicker(pace)
	defer tick.Stop()
	last := 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		tr.look()
		now := tr.keeperPID()
		if now == last {
			continue
		}
		tr.mu.Lock()
		if now != 0 {
			tr.tellLocked("keeper %d serves", now)
		}
		byItself := last != 0 && !tr.keeper[last] && tr.closed.IsZero()
		tr.mu.Unlock()
		if byItself {
			tr.fault("keeper %d has ended by itself; see keeper.log", last)
		}
		last = now
	}
}

// signalMain signals the main process of a run if that is still the recorded one, and reports whether the kernel took it.
func (tr *trial) signalMain(r *state.Record, sig unix.Signal) bool {
	id := r.Run.Identity
	fd, err := unix.PidfdOpen(id.PID, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	if _, ticks, ok := statOf(id.PID); !ok || ticks != id.StartTicks {
		return false
	}
	return unix.PidfdSendSignal(fd, sig, nil, 0) == nil
}
