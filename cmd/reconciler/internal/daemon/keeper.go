package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"reconciler.dev/reconciler/keeper"
	"reconciler.dev/reconciler/metrics"
	"reconciler.dev/reconciler/spec"
)

func (d *daemon) spawner() keeper.Spawner {
	return keeper.Spawner{Layout: d.cfg.Layout, Path: d.cfg.Keeper[0], Args: d.cfg.Keeper}
}

// firstKeeper makes sure of a keeper before anything else is done: one that cannot start ends the command (EN-11). One
// that is there and does not answer is no reason to end; it is reported until it does.
func (d *daemon) firstKeeper(ctx context.Context) error {
	ask, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	_, err := keeper.Ask(ask, d.cfg.Layout, d.cfg.Version)
	if err == nil || keeperIsThere(err) || ask.Err() != nil && ctx.Err() == nil {
		return nil
	}
	err = d.spawner().Spawn(ctx)
	switch {
	case err == nil || errors.Is(err, keeper.ErrUnresponsive):
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	if last := lastLine(filepath.Join(d.cfg.Layout.State, "keeper.log")); last != "" {
		return fmt.Errorf("%w\nits last words: %s", err, last)
	}
	return err
}

// keeperIsThere reports whether a failed question says that somebody listens, though without an answer to like.
func keeperIsThere(err error) bool {
	_, refused := keeper.IsRefused(err)
	return refused || errors.Is(err, keeper.ErrUnresponsive)
}

// lastLine is the last line of a file, "" if it has none.
func lastLine(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > 4096 {
		if _, err := f.Seek(-4096, io.SeekEnd); err != nil {
			return ""
		}
	}
	data, err := io.ReadAll(f)
	if err != nil {
		return ""
	}
	lines := bytes.Split(bytes.TrimSpace(data), []byte("\n"))
	return string(lines[len(lines)-1])
}

// spawn replaces a keeper that has died, unless everything is to end.
func (d *daemon) spawn(ctx context.Context) error {
	if d.closing.Load() {
		return keeper.ErrNoKeeper
	}
	d.log.Warn("no keeper is there; starting one")
	if err := d.spawner().Spawn(ctx); err != nil {
		return err
	}
	d.log.Info("a keeper is there")
	return nil
}

// askPatience is how long a question to the keeper may take that nothing depends on.
const askPatience = 2 * time.Second

// follow wakes the loop when the keeper has news, tells when the connection to it breaks and comes back, and asks each new
// keeper what this host lets us promise.
func (d *daemon) follow(ctx context.Context) error {
	var session uint64
	var problem string
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-d.client.Changed():
		}
		d.loop.Wake()
		if now := d.client.Welcome().Session; now != session && d.client.Problem() == nil && d.learnGuarantees(ctx) {
			session = now // else it is asked again at its next news
		}
		problem = d.tellProblem(problem)
	}
}

// tellProblem logs what is new about the connection.
func (d *daemon) tellProblem(last string) string {
	err := d.client.Problem()
	switch {
	case err == nil && last != "":
		d.log.Info("connected to the keeper")
		return ""
	case err == nil:
		return ""
	case err.Error() != last && !d.closing.Load(): // at the end the keeper goes first
		d.log.Warn("not connected to the keeper; what runs goes on, and nothing is started or stopped meanwhile", "error", err)
	}
	return err.Error()
}

// learnGuarantees asks the keeper what this host lets us promise, and reports whether it has answered.
func (d *daemon) learnGuarantees(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	st, err := d.client.Status(ctx)
	if err != nil {
		d.log.Warn("cannot ask the keeper what this host lets us promise", "error", err)
		return false
	}
	d.guarantees.Store(&st.Guarantees)
	d.loop.Wake()
	if st.OwnHost && d.cfg.HostFile != "" {
		d.log.Info("the keeper has a host configuration of its own, which counts besides ours")
	}
	return true
}

// usage is what the live runs use, nil when the keeper does not say in time.
func (d *daemon) usage() map[spec.Scope]metrics.Usage {
	ctx, cancel := context.WithTimeout(context.Background(), askPatience)
	defer cancel()
	list, err := d.client.Usage(ctx)
	if err != nil {
		d.log.Debug("cannot ask the keeper what runs use", "error", err)
		return nil
	}
	all := make(map[spec.Scope]metrics.Usage, len(list))
	for _, u := range list {
		all[u.Scope] = metrics.Usage{CPU: u.CPU, ResidentBytes: u.ResidentBytes, OpenFDs: u.OpenFDs, LogBytes: u.LogBytes, LogDroppedLines: u.LogDroppedLines}
	}
	return all
}
