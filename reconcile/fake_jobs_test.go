package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// commands is how the commands of servers behave. What is not told of one: it is done at once.
type commands struct {
	mu sync.Mutex // held while one is carried out

	result map[string]state.DeliveryResult // by command
	output map[string]string
	detail map[string]string
	refuse map[string]error
	hang   map[string]bool // it is under way until finish
	lose   map[string]bool // it is carried out, and its answer is lost
	deaf   map[string]bool // it does not get there, and nobody tells
	done   map[string]int  // how often each delivery was carried out, by its id
}

func newCommands() commands {
	return commands{
		result: map[string]state.DeliveryResult{}, output: map[string]string{}, detail: map[string]string{}, refuse: map[string]error{},
		hang: map[string]bool{}, lose: map[string]bool{}, deaf: map[string]bool{}, done: map[string]int{},
	}
}

// refused is an order that failed a check.
type refused struct{ check, text string }

func (r refused) Error() string       { return r.text }
func (r refused) Public() string      { return r.text }
func (r refused) FailedCheck() string { return r.check }

var errLost = errors.New("the connection broke")

// Do carries out a command at most once, as a keeper does: by its id.
func (h *host) Do(_ context.Context, o state.DoOrder) (state.Receipt, error) {
	c := &h.commands
	c.mu.Lock()
	defer c.mu.Unlock()
	if o.Check {
		o.Command = state.CheckCommand
		if o.Launch == nil || o.Launch.Check == nil {
			h.t.Errorf("a check of %s without a spec that declares one", o.Scope)
		}
	}
	if d := h.deliveryOf(o.Scope, o.ID); d != nil || o.Recall {
		switch {
		case d == nil:
			return state.Receipt{Delivery: state.Delivery{ID: o.ID, Result: state.Indeterminate}}, nil
		case d.Result == "":
			return state.Receipt{}, context.DeadlineExceeded
		}
		return state.Receipt{Delivery: *d, Reply: c.output[o.Command]}, nil
	}
	if c.deaf[o.Command] {
		return state.Receipt{}, errLost
	}
	run := "no run"
	if o.RunID != "" {
		run = o.RunID
	}
	if err := h.did("Do", o.Scope, " "+o.Command+" for "+run); err != nil {
		return state.Receipt{}, err
	}
	if err := c.refuse[o.Command]; err != nil {
		return state.Receipt{}, err
	}
	if err := h.checkDo(o); err != nil {
		return state.Receipt{}, err
	}
	c.done[o.ID]++
	d := state.Delivery{ID: o.ID, Command: o.Command, RunID: o.RunID, Rail: state.RailExec, By: o.By}
	if !c.hang[o.Command] {
		d.Result = h.resultOf(o.Command)
	}
	h.change(o.Scope, func(f *observe.Facts) {
		d.At = h.wall
		f.Deliveries = append(slices.Clone(f.Deliveries), d)
		if over := len(f.Deliveries) - state.DeliveryLimit; over > 0 {
			f.Deliveries = f.Deliveries[over:]
		}
	})
	switch {
	case c.lose[o.Command]:
		return state.Receipt{}, errLost
	case d.Result == "":
		return state.Receipt{}, context.DeadlineExceeded
	}
	return state.Receipt{Delivery: d, Detail: c.detail[o.Command], Reply: c.output[o.Command]}, nil
}

// checkDo fails the test for an order that a sound loop never gives, and refuses what the world has overtaken.
func (h *host) checkDo(o state.DoOrder) error {
	f := h.record(o.Scope)
	live := f != nil && f.Run != nil && !f.Run.Over()
	switch {
	case o.RunID == "" && live:
		h.t.Errorf("%s is for a scope at rest, and %s lives", o.Command, f.Run.ID)
	case o.RunID == "" && o.Launch == nil:
		h.t.Errorf("%s comes without a launch", o.Command)
	case o.RunID != "" && (!live || f.Run.ID != o.RunID):
		return refused{"run", "another run"}
	}
	return nil
}

func (h *host) resultOf(command string) state.DeliveryResult {
	if r := h.commands.result[command]; r != "" {
		return r
	}
	return state.Done
}

func (h *host) deliveryOf(scope spec.Scope, id string) *state.Delivery {
	f := h.record(scope)
	if f == nil {
		return nil
	}
	i := slices.IndexFunc(f.Deliveries, func(d state.Delivery) bool { return d.ID == id })
	if i < 0 {
		return nil
	}
	return &f.Deliveries[i]
}

// finish ends the commands of a scope that are under way.
func (h *host) finish(scope spec.Scope, result state.DeliveryResult) {
	h.change(scope, func(f *observe.Facts) {
		f.Deliveries = slices.Clone(f.Deliveries)
		for i := range f.Deliveries {
			if f.Deliveries[i].Result == "" {
				f.Deliveries[i].Result = result
			}
		}
	})
}

// chat fills a scope's journal with lines of people.
func (h *host) chat(scope spec.Scope, lines int) {
	h.change(scope, func(f *observe.Facts) {
		f.Deliveries = slices.Clone(f.Deliveries)
		for i := range lines {
			f.Deliveries = append(f.Deliveries, state.Delivery{ID: "line-" + strconv.Itoa(i), At: h.wall, Result: state.Sent})
		}
		if over := len(f.Deliveries) - state.DeliveryLimit; over > 0 {
			f.Deliveries = f.Deliveries[over:]
		}
	})
}

// job declares a job; each edit changes it before.
func (h *host) job(name, server, command string, edits ...func(*spec.JobSpec)) {
	j := &spec.Accepted[spec.Job]{Object: &spec.Job{}, Source: spec.ObjectSource{File: name + ".yaml"}}
	j.Object.Meta = spec.Meta{Name: name, Namespace: "default"}
	j.Object.Spec.Server, j.Object.Spec.Command = server, command
	for _, edit := range edits {
		edit(&j.Object.Spec)
	}
	h.wanted[name] = j
	h.publish()
}

// removeJob takes a job out of the source.
func (h *host) removeJob(name string) {
	delete(h.wanted, name)
	h.publish()
}

func (h *host) jobView(name string) *JobView {
	h.t.Helper()
	v := h.loop.Snapshot().Job(key(name))
	if v == nil {
		h.t.Fatalf("the snapshot has no job %s", name)
	}
	return v
}

func (h *host) wantJob(name string, phase spec.JobPhase, reason string) {
	h.t.Helper()
	if st := h.jobView(name).Status; st.Phase != phase || st.Reason != reason {
		h.t.Fatalf("job %s is %s (%s, check %q: %s), want %s (%s)", name, st.Phase, st.Reason, st.Check, st.Message, phase, reason)
	}
}

// addJob asks for a job directly, and carries it through.
func (h *host) addJob(name string, s spec.JobSpec) error {
	h.t.Helper()
	return h.answered(h.loop.SubmitJob(JobAsk{Key: key(name), Spec: s, By: "anna"}, false))
}

func (h *host) cancelJob(name string) error {
	h.t.Helper()
	return h.answered(h.loop.SubmitJob(JobAsk{Key: key(name), By: "bert"}, true))
}

func (h *host) answered(answer <-chan error) error {
	h.t.Helper()
	h.settle()
	select {
	case err := <-answer:
		return err
	default:
		h.t.Fatal("a request about a job was not answered")
		return nil
	}
}

// once fails the test when a delivery was carried out more than once.
func (h *host) once() {
	h.t.Helper()
	for id, n := range h.commands.done {
		if n != 1 {
			h.t.Errorf("%s was carried out %d times", id, n)
		}
	}
}

// withCommands declares commands, and a console for those that need one.
func withCommands(list ...spec.Command) func(*spec.ProfileSpec) {
	return func(p *spec.ProfileSpec) {
		p.Console = &spec.Console{Input: spec.ConsoleStdin}
		p.Actions.Commands = list
	}
}

func program(name string, requires spec.Requires) spec.Command {
	return spec.Command{Name: name, Action: spec.Action{Exec: &spec.Exec{Executable: "bin/" + name}}, Requires: string(requires)}
}

func console(name string) spec.Command {
	return spec.Command{Name: name, Action: spec.Action{Console: &spec.Line{Line: name}}}
}

func around(c spec.Command, before, after string) spec.Command {
	if before != "" {
		c.Before = []string{before}
	}
	if after != "" {
		c.After = []string{after}
	}
	return c
}

// jobTable is the store of jobs.
type jobTable struct{ h *host }

func (s jobTable) All() map[string]JobMemory { return maps.Clone(s.h.jobs) }

// Set keeps what a memory is after it was on disk.
func (s jobTable) Set(key string, m JobMemory) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	var back JobMemory
	if err := json.Unmarshal(text, &back); err != nil {
		return err
	}
	s.h.jobs[key] = back
	return s.h.diskErr
}

func (s jobTable) Delete(key string) error {
	delete(s.h.jobs, key)
	return s.h.diskErr
}

func (s jobTable) Flush(context.Context) error { return s.h.diskErr }

// cutCommand is the command of an order in words.
func cutCommand(order string) (string, bool) {
	fields := strings.Fields(order)
	if fields[0] != "Do" {
		return "", false
	}
	return fields[2], true
}
