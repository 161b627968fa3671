package keeper_test

import (
	"syscall"

	"reconciler.dev/reconciler/keeper"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// fakeProcess is a process of the fake host.
type fakeProcess struct {
	id       state.Identity
	run      string
	cgroup   string
	kind     string
	scope    spec.Scope
	program  bool // of a place of a program
	probe    spec.Purpose
	held     bool // at the stage
	staged   bool // nothing of the workload ran, or ever will
	executed int
	status   *uint32 // it has ended
	reaped   bool
	ours     bool // child of the living keeper
	signals  []string
	lines    []string
	typed    []byte // on its terminal
	sizes    []spec.LaunchTTY
	mute     bool // its terminal shows nothing that is typed
	room     int  // of its terminal, for what it does not read; 0 = it reads all
}

// fakeHandle is a pidfd.
type fakeHandle struct {
	k *fakeKernel
	p *fakeProcess
}

func (h *fakeHandle) Identity() state.Identity { return h.p.id }
func (h *fakeHandle) Staged() (bool, error)    { return h.p.staged, nil }
func (h *fakeHandle) Close()                   {}

func (h *fakeHandle) Signal(sig string) error {
	if err := h.k.begin("Signal"); err != nil {
		return err
	}
	h.k.signal(h.p, sig)
	h.k.point()
	return nil
}

func (h *fakeHandle) Peek() (state.MainExit, bool, error) {
	if err := h.k.begin("Peek"); err != nil {
		return state.MainExit{}, false, err
	}
	if h.p.status == nil {
		return state.MainExit{}, false, nil
	}
	at := h.k.Now().Wall
	if h.p.reaped {
		return state.MainExit{From: "NotTold", At: at}, true, nil
	}
	status := *h.p.status
	return state.MainExit{Status: &status, From: "Wait", At: at}, true, nil
}

func (h *fakeHandle) Reap() error {
	if err := h.k.begin("Reap"); err != nil {
		return err
	}
	h.k.onReap(h.p)
	h.p.reaped = h.p.reaped || h.p.ours
	h.k.point()
	return nil
}

func (h *fakeHandle) Release() error {
	if err := h.k.begin("Release"); err != nil {
		return &keeper.ExecError{Op: "release the stage", Errno: syscall.EPIPE}
	}
	h.p.held = false
	if h.p.kind == workBroken {
		h.k.end(h.p, 126<<8)
		h.k.point()
		return &keeper.ExecError{Op: "execute the program", Errno: syscall.ENOENT}
	}
	h.k.onExec(h.p)
	h.p.staged = false
	h.p.executed++
	switch h.p.kind {
	case workExits:
		h.k.end(h.p, 3<<8)
	case workDone:
		h.k.end(h.p, 0)
	case workQuits:
		h.k.end(h.p, 0)
		for _, x := range h.k.processes {
			if x.kind == workLadder && x.scope == h.p.scope && !x.program && x.status == nil {
				h.k.end(x, 0)
			}
		}
	case workLeaves:
		h.k.fork(keeper.Place{Scope: h.p.scope, RunID: h.p.run, Cgroup: h.p.cgroup, Program: h.p.program, Probe: h.p.probe}, "child")
		h.k.end(h.p, 0)
	case workFamily:
		h.k.fork(keeper.Place{Scope: h.p.scope, RunID: h.p.run, Cgroup: h.p.cgroup, Program: h.p.program, Probe: h.p.probe}, "child")
	}
	h.k.point()
	return nil
}

func (h *fakeHandle) Abandon() error {
	h.k.point()
	h.p.held = false
	h.k.end(h.p, 125<<8)
	h.p.reaped = true
	h.k.point()
	return nil
}
