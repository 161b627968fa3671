package sim

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

	"reconciler.dev/reconciler/keeper"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// process is a handle: it stays its process's own whatever becomes of the PID.
type process struct {
	k *kernel
	p *proc
}

func (h *process) Identity() state.Identity {
	return state.Identity{BootID: h.p.boot, PID: h.p.pid, PidfdInode: h.p.inode, StartTicks: h.p.inode}
}

func (h *process) Staged() (bool, error) { return h.p.staged && !h.p.released, nil }

func (h *process) Signal(name string) error {
	h.k.w.point("signal")
	if h.p.reaped {
		return keeper.ErrGone
	}
	if h.p.released {
		h.k.needJournaled(h.p.scope, h.p.run, name)
	}
	if !h.p.dead {
		h.k.signal(h.p, name)
	}
	h.k.w.point("signalled")
	return nil
}

func (h *process) Peek() (state.MainExit, bool, error) {
	h.k.w.point("peek")
	p := h.p
	if !p.dead {
		return state.MainExit{}, false, nil
	}
	status := p.status
	switch {
	case p.child && !p.reaped:
		return state.MainExit{Status: &status, From: "Wait", At: h.k.wall}, true, nil
	case !p.reaped:
		return state.MainExit{Status: &status, From: "ZombieStat", At: h.k.wall}, true, nil
	case h.k.exitInfo:
		return state.MainExit{Status: &status, From: "PidfdInfo", At: h.k.wall}, true, nil
	}
	return state.MainExit{From: "reaped by another process", At: h.k.wall}, true, nil
}

func (h *process) Reap() error {
	h.k.w.point("reap")
	p := h.p
	if !p.child || p.reaped {
		return nil
	}
	if !p.dead {
		return errors.New("it has not ended")
	}
	if p.released && p.program && p.probe == "" { // no record tells of a probe
		if j := programOf(h.k.w.record(p.scope), p.run); j == nil || j.Exit == nil {
			h.k.w.failf("I4", "a program of %s was reaped before its end was on record", p.scope)
		}
	} else if p.released && p.main {
		if r := h.k.w.record(p.scope); r == nil || !tellsEnd(r, p.run) {
			h.k.w.failf("I4", "the main process of %s was reaped before its end was on record", p.scope)
		}
	}
	h.k.forget(p)
	h.k.w.point("reaped")
	return nil
}

// tellsEnd reports whether a record has the end of a run's main process.
func tellsEnd(r *state.Record, runID string) bool {
	if r.Run != nil && r.Run.ID == runID && r.Run.MainExit != nil {
		return true
	}
	return slices.ContainsFunc(r.History, func(e state.Exit) bool { return e.RunID == runID })
}

func (h *process) Close() {}

func (h *process) Release() error {
	k, p := h.k, h.p
	k.w.point("release")
	if k.execFails {
		k.execFails = false
		k.die(p, 126<<8)
		return &keeper.ExecError{Errno: syscall.ENOEXEC}
	}
	if p.probe != "" {
		k.releaseProbe(p)
		return nil
	}
	if p.program {
		k.releaseProgram(h)
		return nil
	}
	r := k.needRecord("a workload was executed", p.scope, p.run)
	if r != nil && (r.Run.Identity == nil || *r.Run.Identity != h.Identity()) {
		k.w.failf("I2", "a workload of %s was executed before its identity was on record", p.scope)
	}
	for _, q := range k.procs {
		if q != p && q.run != "" && q.scope.ServerKey() == p.scope.ServerKey() && q.run != p.run && q.released && !q.dead && q.owner != p.run {
			k.w.failf("I1", "%s is executed while a run of %s lives", p.scope, q.scope)
		}
	}
	if r != nil {
		k.number(p.scope, r.Run.Number)
	}
	p.released, p.staged = true, false
	p.onTerm = []string{"Exit0", "Die", "Exit0", "Ignore"}[k.w.choose(4)]
	k.w.executed(p)
	k.w.point("released")
	return nil
}

// number notes that a run may write a log from here on.
func (k *kernel) number(scope spec.Scope, number int64) {
	name := fmt.Sprintf("%s %d", scope, number)
	if k.w.numbered[name] {
		k.w.failf("I11", "run %d of %s was there before: their logs would be one", number, scope)
	}
	k.w.numbered[name] = true
}

func (h *process) Abandon() error {
	h.k.w.point("abandon")
	if !h.p.dead {
		h.k.die(h.p, 125<<8)
	}
	h.k.forget(h.p)
	return nil
}
