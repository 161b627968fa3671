package keeper

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"reconciler.dev/reconciler/keeper/anchor"
	"reconciler.dev/reconciler/state"
)

// ExitHeld is the exit code with which the keeper command says that another keeper has the state directory.
const ExitHeld = anchor.ExitHeld

// Spawner starts keepers that outlive their starter: in a session of their own, with no descriptor of ours, writing to a private
// file.
type Spawner struct {
	Layout state.Layout
	Path   string   // the program, by its absolute path
	Args   []string // with the program's name first
	// Patience is how long a keeper may take until it listens; 0 = 15 s.
	Patience time.Duration
}

// spawnPatience is how long a keeper may take until it answers.
const spawnPatience = 15 * time.Second

// Spawn starts a keeper and returns when the socket is listened to. The kernel's lock sees to it that there is never a rival: the
// new one ends at once when another has the state directory, and if that one does not answer either, the error wraps [ErrUnresponsive].
// One that a signal has ended, by whoever's hand, is started again: only its own word is a reason to give up before Patience is over.
func (s Spawner) Spawn(ctx context.Context) error {
	if conn, err := dial(ctx, s.Layout); err == nil {
		return conn.Close()
	}
	patience := s.Patience
	if patience == 0 {
		patience = spawnPatience
	}
	if s.comesBack(ctx, min(patience, anchorPatience)) {
		return nil
	}
	ended, err := s.launch()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return s.await(ctx, ended)
}

// anchorPatience is how long a keeper is waited for that an anchor starts again: it knows how runs have ended meanwhile, another would
// not.
const anchorPatience = 3 * anchor.LastPause

// comesBack waits for the keeper of an anchor, as long as there is one, and reports whether it listens.
func (s Spawner) comesBack(ctx context.Context, patience time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for pause := time.Millisecond; Anchored(s.Layout); pause = min(2*pause, 50*time.Millisecond) {
		select {
		case <-time.After(pause): // the kernel tells nobody
		case <-ctx.Done():
			return false
		}
		if conn, err := dial(ctx, s.Layout); err == nil {
			return conn.Close() == nil
		}
	}
	return false
}

// launch starts a keeper and tells its end.
func (s Spawner) launch() (<-chan *os.ProcessState, error) {
	process, err := s.start()
	if err != nil {
		return nil, err
	}
	ended := make(chan *os.ProcessState, 1)
	go func() { // it ends with the keeper, which is our child as long as both live
		st, err := process.Wait()
		if err == nil {
			ended <- st
		}
		close(ended)
	}()
	return ended, nil
}

// The waits between two starts of a keeper that found another in its place, or was killed.
const (
	firstAgain = 5 * time.Millisecond
	lastAgain  = time.Second
)

// await waits until somebody listens. A keeper that found another in its place is started again as long as that one does
// not listen: it may be dying, and its lock goes a moment after its socket. The lock keeps each from being a rival.
func (s Spawner) await(ctx context.Context, ended <-chan *os.ProcessState) error {
	held, killed := false, ""
	var again <-chan time.Time
	retry := firstAgain
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		conn, err := dial(ctx, s.Layout)
		if err == nil {
			return conn.Close()
		}
		select {
		case st, ok := <-ended:
			switch {
			case ok && (st.ExitCode() == ExitHeld || st.Sys().(syscall.WaitStatus).Signaled()):
				held, killed = st.ExitCode() == ExitHeld, st.String()
				again = time.After(retry)
				retry = min(2*retry, lastAgain)
			case ok:
				return fmt.Errorf("the keeper ended at its start (%s): see %s", st, keeperLog(s.Layout))
			}
			ended = nil
		case <-again:
			if ended, err = s.launch(); err != nil {
				return err
			}
		case <-time.After(pause):
		case <-ctx.Done():
			if held {
				return fmt.Errorf("%w: another keeper has the state directory %s", ErrUnresponsive, s.Layout.State)
			}
			if killed != "" {
				return fmt.Errorf("the keeper ended at each start (%s): see %s", killed, keeperLog(s.Layout))
			}
			return fmt.Errorf("the keeper does not listen: %w; see %s", err, keeperLog(s.Layout))
		}
	}
}

func (s Spawner) start() (*os.Process, error) {
	if err := os.MkdirAll(filepath.Dir(keeperLog(s.Layout)), 0o711); err != nil {
		return nil, fmt.Errorf("cannot make the state directory: %w", err)
	}
	out, err := openKeeperLog(keeperLog(s.Layout))
	if err != nil {
		return nil, err
	}
	defer out.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, fmt.Errorf("cannot start a keeper: %w", err)
	}
	defer null.Close()
	p, err := os.StartProcess(s.Path, s.Args, &os.ProcAttr{
		Dir: "/", Env: os.Environ(), Files: []*os.File{null, out, out}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return nil, fmt.Errorf("cannot start a keeper: %w", err)
	}
	return p, nil
}

func openKeeperLog(path string) (*os.File, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("cannot look at the keeper's log: %w", err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file: move it away", path)
	case info.Size() > maxKeeperLog:
		if err := os.Rename(path, path+".old"); err != nil {
			return nil, fmt.Errorf("cannot begin the keeper's log anew: %w", err)
		}
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot open the keeper's log: %w", err)
	}
	return f, nil
}
