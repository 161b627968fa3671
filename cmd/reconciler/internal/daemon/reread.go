package daemon

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"reflect"
	"syscall"
	"time"
)

// hostEvery is how often the host configuration is looked at.
const hostEvery = 3 * time.Second

// errAgain is why a daemon ends that is to begin anew, with other sources.
var errAgain = errors.New("the sources have changed")

// stamp tells one content of a file from another without reading it.
type stamp struct {
	ino, dev     uint64
	size         int64
	mtime, ctime syscall.Timespec
}

func stampOf(path string) (stamp, error) {
	info, err := os.Stat(path)
	if err != nil {
		return stamp{}, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return stamp{}, fs.ErrInvalid
	}
	return stamp{st.Ino, st.Dev, st.Size, st.Mtim, st.Ctim}, nil
}

// rereadHost takes over a changed host configuration. One that is faulty, or gone, is reported and the last good one counts
// on.
func (d *daemon) rereadHost(ctx context.Context) error {
	if d.cfg.HostFile == "" {
		return nil
	}
	tick := time.NewTicker(hostEvery)
	defer tick.Stop()
	last := d.hostStamp
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		now, err := stampOf(d.cfg.HostFile)
		if err == nil && now == last {
			continue
		}
		if err == nil {
			last = now
			err = d.takeHost(ctx)
		}
		d.tellHostError(err)
	}
}

// takeHost reads the file and puts it to use.
func (d *daemon) takeHost(ctx context.Context) error {
	host, err := d.loadHost()
	if err != nil {
		return err
	}
	if _, err := d.roots(host); err != nil {
		return err
	}
	before := d.host.Swap(host)
	if !reflect.DeepEqual(before.Sources, host.Sources) {
		d.log.Info("the host configuration names other sources; beginning anew with them")
		d.quit(errAgain)
		return nil
	}
	d.log.Info("the host configuration has changed and is in use")
	d.loop.Wake()
	ask, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	if err := d.client.SetHost(ask, host.Keeper); err != nil {
		d.log.Warn("the keeper has not heard of the new host configuration yet; it will when it is connected again", "error", err)
	}
	return nil
}

// tellHostError keeps and logs why the newest configuration is not in use; nil = it is.
func (d *daemon) tellHostError(err error) {
	text := problem(err)
	if old := d.hostError.Swap(&text); err != nil && (old == nil || *old != text) {
		d.log.Error("the host configuration cannot be used; the last good one counts on", "error", err)
	}
}
