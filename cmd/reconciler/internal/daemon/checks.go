package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"reconciler.dev/reconciler/cmd/reconciler/internal/api"
	"reconciler.dev/reconciler/keeper"
	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/state"
)

// checklist collects findings.
type checklist []api.Check

// must is a required check; a message that is not empty says why it failed.
func (c *checklist) must(axis, name, failure, fine string) {
	c.add(axis, name, true, api.CheckFailed, failure, fine)
}

// should is one whose failure is a warning.
func (c *checklist) should(axis, name, failure, fine string) {
	c.add(axis, name, false, api.CheckWarning, failure, fine)
}

func (c *checklist) add(axis, name string, required bool, bad, failure, fine string) {
	check := api.Check{Axis: axis, Name: name, Required: required, State: api.CheckOK, Message: fine}
	if failure != "" {
		check.State, check.Message = bad, failure
	}
	*c = append(*c, check)
}

// errHangs says that a disk has not taken a write in time.
var errHangs = errors.New("cannot write: the disk has not answered within " + askPatience.String())

// tryStore looks whether our own store can be written. A disk that hangs is tried once.
func (d *daemon) tryStore(ctx context.Context) error {
	if !d.trying.TryLock() {
		return errHangs
	}
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	tried := make(chan error, 1)
	go func() { // it ends when the disk answers, which may be never
		defer d.trying.Unlock()
		tried <- state.Try(state.LinuxDisk{}, d.cfg.Layout.Reconciler())
	}()
	select {
	case err := <-tried:
		return err
	case <-ctx.Done():
		return errHangs
	}
}

// tryKeeper is why the keeper's store cannot be written, "" when it can.
func (d *daemon) tryKeeper(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	err := d.client.Try(ctx)
	var refused *keeper.Refused
	switch {
	case errors.As(err, &refused):
		return refused.Detail
	case errors.Is(err, context.DeadlineExceeded):
		return errHangs.Error()
	}
	return problem(err)
}

// Checks looks whether everything is as it must be, and changes nothing but that it writes a file and removes it (EN-10).
func (d *daemon) Checks(ctx context.Context) []api.Check {
	var c checklist
	c.must(api.AxisRuntime, "reconciler", "", "running")
	c.must(api.AxisRuntime, "reconciler store", problem(errors.Join(d.tryStore(ctx), d.table.Health(), d.jobs.Health())), "")
	d.checkSources(&c)
	if d.cfg.HostFile != "" {
		failure := ""
		if text := d.hostError.Load(); text != nil {
			failure = *text
		}
		c.must(api.AxisRuntime, "host configuration", failure, "in use")
	}
	ask, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	st, err := d.client.Status(ask)
	if err != nil {
		c.must(api.AxisRuntime, "keeper", err.Error(), "")
		c.must(api.AxisOwnership, "runs", "unknown: the keeper does not answer", "")
		return c
	}
	d.checkKeeper(ctx, &c, st)
	d.checkOwnership(&c, st)
	return c
}

func problem(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func (d *daemon) checkSources(c *checklist) {
	snap := d.loop.Snapshot()
	for i := range snap.Sources {
		s := &snap.Sources[i]
		failure := ""
		if !s.Complete {
			failure = "cannot be read whole: " + s.Reason
		}
		c.must(api.AxisRuntime, "source "+s.Name, failure, "read whole")
		if bad := s.Objects["invalid"] + s.Objects["conflict"]; bad > 0 {
			c.should(api.AxisRuntime, "manifests of "+s.Name, "files have faults; see 'reconciler get sources'", "")
		}
	}
}

func (d *daemon) checkKeeper(ctx context.Context, c *checklist, st keeper.Status) {
	c.must(api.AxisRuntime, "keeper", "", "running")
	c.must(api.AxisRuntime, "keeper store", cmp.Or(d.tryKeeper(ctx), st.Health), "")
	c.must(api.AxisRuntime, "keeper's host configuration", st.HostError, "")
	different := ""
	if st.Version != d.cfg.Version {
		different = fmt.Sprintf("the keeper is %s, the reconciler %s", st.Version, d.cfg.Version)
	}
	c.should(api.AxisRuntime, "versions", different, "equal")
	for _, g := range st.Guarantees {
		weak := ""
		if g.Tier != "Kernel" {
			weak = g.Tier
			if g.Note != "" {
				weak += ": " + g.Note
			}
		}
		c.should(api.AxisRuntime, "guarantee "+g.Name, weak, g.Tier)
	}
	for _, note := range st.Notes {
		c.should(api.AxisRuntime, "keeper store", note, "")
	}
}

func (d *daemon) checkOwnership(c *checklist, st keeper.Status) {
	facts, known := d.client.Facts()
	unheard := ""
	if !known {
		unheard = "the keeper has not been heard whole yet"
	}
	live, unproven := 0, []string(nil)
	for _, f := range facts {
		if f.Run.Over() {
			continue
		}
		live++
		if f.Run.Alive == observe.Unknown {
			unproven = append(unproven, f.Scope.String())
		}
	}
	c.must(api.AxisOwnership, "facts", unheard, "heard whole")
	failure := ""
	if len(unproven) > 0 {
		failure = "cannot be proven to be ours: " + strings.Join(unproven, ", ")
	}
	c.must(api.AxisOwnership, "runs", failure, fmt.Sprintf("%d live, each proven to be ours", live))
	var blocked []string
	for _, b := range st.Blocked {
		blocked = append(blocked, fmt.Sprintf("%s (%s)", b.Scope, b.Reason))
	}
	failure = ""
	if len(blocked) > 0 {
		failure = "blocked: " + strings.Join(blocked, ", ") + "; 'reconciler retire NAME' sets the record aside once nothing of it runs"
	}
	c.must(api.AxisOwnership, "records", failure, fmt.Sprintf("%d scopes, each usable", st.Scopes))
	failure = ""
	if st.Strays > 0 {
		failure = fmt.Sprintf("%d processes that no record knows have come to the keeper; they are left alone", st.Strays)
	}
	c.should(api.AxisOwnership, "strays", failure, "none")
}
