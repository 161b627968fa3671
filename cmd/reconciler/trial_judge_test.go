//go:build chaos || crash

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"reconciler.dev/reconciler/keeper/faultd"
	"reconciler.dev/reconciler/keeper/pump"
	"reconciler.dev/reconciler/observe/logs"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// slack is how much later than its cause a thing may be seen: what was wanted before a run is still being carried out.
const slack = 15 * time.Second

// judgeExits holds every recorded end against what was done to the run.
func (tr *trial) judgeExits() {
	tr.mu.Lock()
	runs, exits := tr.runs, tr.exits
	tr.mu.Unlock()
	for id, r := range runs {
		e, ended := exits[id]
		if !ended {
			tr.fault("I4: run %d of %s (process %d) is over and its end is not on record", r.number, r.server, r.pid)
			continue
		}
		if why := tr.judgeExit(r, e); why != "" {
			tr.fault("run %d of %s ended as %s, but %s", r.number, r.server, exitText(e), why)
		}
	}
}

// between reports whether one of the times lies in the life of a run, or shortly before it.
func (tr *trial) between(times []time.Time, r runSeen, e state.Exit) bool {
	return slices.ContainsFunc(times, func(t time.Time) bool {
		return t.After(r.launchingAt.Add(-slack)) && !t.After(e.FinishedAt)
	})
}

// judgeExit says why an end cannot be true, "" = it can.
func (tr *trial) judgeExit(r runSeen, e state.Exit) string {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	a := tr.actors[r.server]
	killed, wasKilled := tr.kills[e.RunID]
	wasKilled = wasKilled && !killed.After(e.FinishedAt)
	wished := tr.between(tr.wishes[r.server], r, e)
	blind := tr.between(tr.downs, r, e)
	switch e.Reason {
	case spec.ReasonStopRequested:
		switch {
		case !wished:
			return "I8: nobody wanted it to stop"
		case e.Class != spec.Expected:
			return "I5: a stop that was asked for is expected"
		case e.StopStep == nil && !e.Killed:
			return "I5: no step of a stop was sent"
		}
		return tr.judgeHow(a, e, blind, wasKilled, true)
	case spec.ReasonStartAborted:
		if !blind {
			return "no keeper died while it was started"
		}
	case spec.ReasonCancelled:
		if !wished && !tr.between(tr.breaks, r, e) {
			return "nobody called it off"
		}
	case spec.ReasonUnknown:
		if !blind {
			return "I4: a keeper was there to see its end"
		}
		if !wasKilled && !a.own.ends && !wished {
			return "it had no reason to end"
		}
	case spec.ReasonExited, spec.ReasonSignaled, spec.ReasonMainExited:
		if !wasKilled && !a.own.ends {
			return "it had no reason to end"
		}
		return tr.judgeHow(a, e, blind, wasKilled, e.Killed)
	default:
		return "nothing was done that leads to it"
	}
	if e.Class != spec.Unexpected {
		return "I5: nobody asked for it"
	}
	if e.ExitCode != nil || e.Signal != "" {
		return "I4: nothing can be known of its end"
	}
	return ""
}

// judgeHow says why code or signal cannot be true.
func (tr *trial) judgeHow(a *actor, e state.Exit, blind, killed, stopped bool) string {
	if !stopped && e.Class != spec.Unexpected {
		return "I5: nobody asked for it"
	}
	how := e.Signal
	if e.ExitCode != nil {
		how = strconv.Itoa(*e.ExitCode)
	}
	possible := []string{}
	if a.own.ends && a.own.signal != "" {
		possible = append(possible, a.own.signal)
	} else if a.own.ends {
		possible = append(possible, strconv.Itoa(a.own.code))
	}
	if blind {
		possible = append(possible, "")
	}
	if killed || e.Killed {
		possible = append(possible, "SIGKILL")
	}
	if stopped {
		possible = append(possible, a.onStop...)
	}
	if !slices.Contains(possible, how) {
		return fmt.Sprintf("I4: it can only have ended as one of %q", possible)
	}
	return ""
}

// judgeKills looks that every kill was noticed.
func (tr *trial) judgeKills() {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for id := range tr.kills {
		if _, ok := tr.exits[id]; !ok {
			tr.faults = append(tr.faults, fmt.Sprintf("I4: run %d of %s was killed, and that is not on record", tr.runs[id].number, tr.runs[id].server))
		}
	}
}

// judgeSteady looks that what nobody touched had one run until the shutdown, tries that a keeper's death has cut short left out.
func (tr *trial) judgeSteady() {
	count := map[string]int{}
	for id, r := range tr.runs {
		if reason := tr.exits[id].Reason; reason != spec.ReasonStartAborted && reason != spec.ReasonCancelled && r.launchingAt.Before(tr.closed) {
			count[r.server]++
		}
	}
	for name, a := range tr.actors {
		if a.steady && count[name] != 1 {
			tr.fault("I8: %s had %d runs although nothing was done to it", name, count[name])
		}
	}
}

// judgeTrails holds what workloads have written of themselves against the records: nothing ran that is not on record.
func (tr *trial) judgeTrails() {
	starts := map[string]int{}
	for _, r := range tr.runs {
		starts[r.server]++
	}
	for name, a := range tr.actors {
		if !a.trail || len(a.args) > 0 && (a.args[0] == "daemonise" || a.args[0] == "spawn") {
			continue // their children leave numbers too
		}
		text, err := os.ReadFile(tr.trailOf(name))
		if err != nil && !os.IsNotExist(err) {
			tr.fault("%v", err)
		}
		if n := bytes.Count(text, []byte("\n")); n > starts[name] {
			tr.fault("I2: %s was executed %d times and has %d runs on record", name, n, starts[name])
		}
	}
}

// judgeFloods is I11: within the budget, no line of a flood is lost, doubled, split or swapped. It returns how many lines there were.
func (tr *trial) judgeFloods() (lines int64) {
	for name, a := range tr.actors {
		if !a.flood {
			continue
		}
		scope := spec.Scope{Namespace: spec.DefaultNamespace, Server: name, Profile: name}
		folder := filepath.Join(tr.layout.Logs(), scope.ID())
		files, err := logs.Files(folder)
		if err != nil {
			tr.fault("%v", err)
			continue
		}
		texts := map[int64]*bytes.Buffer{}
		for _, f := range files {
			data, err := os.ReadFile(filepath.Join(folder, logs.FileName(f.Run, f.Index)))
			if err != nil {
				tr.fault("%v", err)
				continue
			}
			if texts[f.Run] == nil {
				texts[f.Run] = &bytes.Buffer{}
			}
			texts[f.Run].Write(data)
		}
		for number, text := range texts {
			lines += tr.judgeFlood(name, number, text.Bytes())
		}
	}
	return lines
}

func (tr *trial) judgeFlood(server string, number int64, text []byte) int64 {
	var out bytes.Buffer
	said := int64(-1)
	for line := range bytes.Lines(text) {
		f := bytes.SplitN(line, []byte(" "), 4)
		if len(f) == 4 && string(f[1]) == "stderr" {
			if rest, ok := bytes.CutPrefix(f[3], []byte("flooded lines=")); ok {
				n, _, _ := strings.Cut(string(rest), " ")
				said, _ = strconv.ParseInt(n, 10, 64)
			}
			continue
		}
		out.Write(line)
	}
	if out.Len() == 0 {
		return 0 // it was ended before its first line
	}
	report, err := faultd.CheckFlood(&out)
	if err != nil {
		tr.fault("%v", err)
		return 0
	}
	if report.Torn+report.Doubled+report.Swapped > 0 || report.Lost > tr.loss[server] {
		tr.fault("I11: output of run %d of %s (the keeper says that it dropped %d lines): %v", number, server, tr.loss[server], report.Err())
	}
	if said >= 0 && said != report.Highest+1 && tr.loss[server] == 0 {
		tr.fault("I11: run %d of %s wrote %d lines, the last in its log is number %d", number, server, said, report.Highest)
	}
	return report.Lines
}

// shutdown ends everything and looks that nothing is left. Where a keeper was killed meanwhile, what it had yet to take away is left to the
// next one: it is done once more.
func (tr *trial) shutdown() {
	for range 3 {
		for name := range tr.actors {
			tr.wish(name)
		}
		began := time.Now()
		tr.endAll()
		tr.mu.Lock()
		struck := slices.ContainsFunc(tr.breaks, began.Before)
		tr.mu.Unlock()
		if !struck {
			break
		}
	}
	for _, s := range tr.scan() {
		tr.fault("after the shutdown there is %v", s)
		_ = killPID(s.pid, syscall.SIGKILL, true)
	}
	for _, r := range tr.records() {
		tr.note(r)
	}
	tr.judgeLeftovers()
}

// endAll runs the command, and waits for the end of all of ours.
func (tr *trial) endAll() {
	tr.startReconciler()
	tr.mu.Lock()
	if tr.closed.IsZero() {
		tr.closed = time.Now()
	}
	main, ended := tr.main, tr.ended
	tr.wanted[main.Process.Pid] = true
	tr.mu.Unlock()
	tr.tell("shutdown")
	err := until(patience, func() error {
		_, err := tr.cli(patience, "shutdown")
		return err
	})
	if err != nil {
		tr.fault("cannot shut down: %v", err)
		tr.killReconciler(syscall.SIGKILL)
		tr.killAnchor()
		tr.killKeeper(syscall.SIGKILL)
	}
	select {
	case <-ended:
	case <-time.After(patience):
		tr.fault("the reconciler does not end after a shutdown")
		tr.killReconciler(syscall.SIGKILL)
	}
	err = until(5*time.Second, func() error {
		if pid := tr.keeperPID(); pid != 0 {
			return fmt.Errorf("keeper %d", pid)
		}
		return nil
	})
	if err != nil {
		tr.fault("after the shutdown there is %v", err)
		tr.killAnchor()
		tr.killKeeper(syscall.SIGKILL)
	}
}

// judgeLeftovers looks for cgroups, run folders and shared memory.
func (tr *trial) judgeLeftovers() {
	left, _ := filepath.Glob(filepath.Join(tr.layout.Runs(), "*"))
	shared, _ := filepath.Glob("/dev/shm/reconciler-*")
	for _, path := range shared {
		if tr.sharedOfOurs(path) {
			left = append(left, path)
		}
	}
	left = append(left, tr.cgroupsLeft()...)
	for _, path := range left {
		tr.fault("after the shutdown there is %s", path)
	}
}

// cgroupsLeft are the cgroups that have a run's name.
func (tr *trial) cgroupsLeft() (left []string) {
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil // other hands' cgroups come and go
		}
		if tr.serverOf(d.Name()) != "" {
			left = append(left, path)
		}
		return nil
	})
	return left
}

// sharedOfOurs reports whether a folder in shared memory is of this trial's keepers.
func (tr *trial) sharedOfOurs(path string) bool {
	if slices.Contains(pump.PoolDirs(tr.layout.Runtime, tr.layout.State), path) {
		return true
	}
	return path == sharedRuns(tr.layout)
}

// sharedRuns is the folder in shared memory that keepers of this directory give their runs, "" = there is no such directory.
func sharedRuns(l state.Layout) string {
	var st syscall.Stat_t
	if err := syscall.Stat(l.Keeper(), &st); err != nil {
		return ""
	}
	return fmt.Sprintf("/dev/shm/reconciler-runs-%x-%x", st.Dev, st.Ino)
}
