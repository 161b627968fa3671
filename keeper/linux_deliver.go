package keeper

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/keeper/console"
	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// Deliver implements [Kernel].
func (k *linux) Deliver(p Place, d Delivery) {
	k.late.Go(func() {
		o := k.handOver(p, d)
		if o.Reason != "" {
			k.log.Warn("a delivery did not come to what was asked for", "scope", p.Scope.String(), "run", p.Number, "result", string(o.Result), "reason", o.Reason, "detail", o.Detail)
		}
		if k.ctx.Err() == nil { // else nobody hears it: the next keeper finds the journal open
			k.delivered(p.Scope, d.Ref, o)
		}
	})
}

// handOver waits for the run's turn and hands the line or the request over.
func (k *linux) handOver(p Place, d Delivery) Outcome {
	ctx, cancel := context.WithTimeout(k.ctx, d.Within)
	defer cancel()
	leave, err := k.lines.enter(ctx, p.RunID)
	if err != nil {
		return Outcome{Result: state.Undeliverable, Reason: reasonBusy, Detail: "the line before it took all of its time"}
	}
	defer leave()
	if d.HTTP != nil {
		return outcomeFrom(k.toHTTP(ctx, p, d))
	}
	line := console.Line{Text: d.Line, Expect: d.Expect}
	output := runOutput{ctx, k, p}
	switch d.Launch.Console.Input {
	case spec.ConsoleStdin:
		if p.Terminal != nil {
			return outcomeFrom(onceRead(ctx, d, func() console.Outcome { return k.toTerminal(ctx, p, line, output) }))
		}
		return outcomeFrom(onceRead(ctx, d, func() console.Outcome { return k.toStdin(ctx, p, line, output) }))
	case spec.ConsoleFIFO:
		return outcomeFrom(onceRead(ctx, d, func() console.Outcome { return k.toFIFO(ctx, d, line, output) }))
	case spec.ConsoleMailbox:
		put := func() console.Outcome { return console.Mailbox{Directory: k.folder(p.RunID)}.Put(ctx, line, output) }
		if !d.Patient {
			return outcomeFrom(put()) // a full one holds the input of hours
		}
		return outcomeFrom(onceRead(ctx, d, put))
	case spec.ConsoleRCON, spec.ConsoleQuakeRCON, spec.ConsoleWebRCON, spec.ConsoleTelnet:
		return outcomeFrom(k.toNetwork(ctx, p, d, line))
	}
	return Outcome{Result: state.Undeliverable, Reason: string(console.Failed), Detail: "the console is of a kind that this version does not know"}
}

// The wait for a server to read its earlier input. Games look at theirs once a tick, which is 50 ms in Minecraft; one that has
// not looked for this long is busy or hung. Whoever is patient waits until little of the delivery's time is left, in which the line must be
// handed over.
const (
	unreadPatience = time.Second
	unreadPause    = 10 * time.Millisecond
	unreadReserve  = 2 * time.Second
)

// onceRead tries to hand over as long as earlier input is unread: nothing was handed over by then, for certain.
func onceRead(ctx context.Context, d Delivery, try func() console.Outcome) console.Outcome {
	wait := unreadPatience
	if d.Patient {
		wait = max(wait, d.Within-unreadReserve)
	}
	patience, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	pause := time.NewTicker(unreadPause)
	defer pause.Stop()
	for {
		o := try()
		if o.Result != console.Undeliverable || o.Reason != console.Unread {
			return o
		}
		select {
		case <-pause.C:
		case <-patience.Done():
			return o
		}
	}
}

// reasonBusy is why a line was not handed over that waited for another in vain.
const reasonBusy = "Busy"

// outcomeFrom puts a rail's answer into the words of the record.
func outcomeFrom(o console.Outcome) Outcome {
	out := Outcome{Reason: string(o.Reason), Reply: o.Reply, Mute: o.Mute}
	if o.Err != nil {
		out.Detail = o.Err.Error()
	}
	switch {
	case o.Result == console.Done:
		out.Result = state.Done
	case o.OK():
		out.Result = state.Sent
	case o.Result == console.HandedOver:
		out.Result = state.Failed
	case o.Result == console.Indeterminate:
		out.Result = state.Indeterminate
	default:
		out.Result = state.Undeliverable
	}
	return out
}

// runOutput is the output of a run as the rails await it.
type runOutput struct {
	ctx   context.Context
	k     *linux
	place Place
}

// Await implements [console.Output].
func (o runOutput) Await(literal string) (<-chan error, func(), error) {
	return o.k.pump.Await(o.ctx, runOf(o.place), literal)
}

func (k *linux) toStdin(ctx context.Context, p Place, line console.Line, output console.Output) console.Outcome {
	fd, err := k.openInput(p)
	if err != nil {
		k.log.Warn("the input of a run cannot be opened", "scope", p.Scope.String(), "run", p.Number, "error", err)
		return console.Outcome{Result: console.Undeliverable, Reason: console.NotListening, Err: errors.New("the run's input cannot be opened")}
	}
	defer unix.Close(fd)
	return console.Stdin(ctx, fd, line, output)
}

// openInput opens the writing end of a run's standard input. Without a reader it fails with ENXIO. When the FIFO's name was
// taken away, the main process still has it.
func (k *linux) openInput(p Place) (int, error) {
	const flags = unix.O_WRONLY | unix.O_NONBLOCK | unix.O_CLOEXEC
	path := filepath.Join(k.folder(p.RunID), fifoStdin)
	fd, err := unix.Open(path, flags|unix.O_NOFOLLOW, 0)
	if err == nil || !errors.Is(err, fs.ErrNotExist) || p.Main == nil {
		return fd, err
	}
	main, openErr := k.proc.Open(*p.Main)
	if openErr != nil {
		return -1, errors.Join(err, openErr)
	}
	defer main.Close()
	fd, openErr = openOf(p.Main.PID, 0, path, flags)
	if openErr == nil && main.Alive() != observe.Alive { // its number may have been another's meanwhile
		openErr = errors.Join(ErrGone, unix.Close(fd))
	}
	if openErr != nil {
		return -1, errors.Join(err, openErr)
	}
	return fd, nil
}

// toFIFO writes to a FIFO that the server made in its directory.
func (k *linux) toFIFO(ctx context.Context, d Delivery, line console.Line, output console.Output) console.Outcome {
	dir, owner, err := k.fifoOf(d)
	if err != nil {
		k.log.Warn("the directory of a run cannot be opened", "scope", d.Launch.Scope.String(), "error", err)
		return console.Outcome{Result: console.Undeliverable, Reason: console.NotListening, Err: errors.New("the server's directory cannot be opened")}
	}
	defer unix.Close(dir)
	return console.FIFO(ctx, console.Pipe{Directory: dir, Path: d.Launch.Console.Path, Owner: owner}, line, output)
}

// fifoOf opens the directory of a run and tells whose the FIFO must be.
func (k *linux) fifoOf(d Delivery) (dir int, owner uint32, err error) {
	u, err := k.users.find(d.Launch.User)
	if err != nil {
		return -1, 0, err
	}
	owner = uint32(os.Geteuid())
	if u.credential != nil {
		owner = u.credential.UID
	}
	w, ok := d.Host.Workspace(d.Launch.Directory.Workspace)
	if !ok {
		return -1, 0, fmt.Errorf("workspace %s is not opened by this host any more", d.Launch.Directory.Workspace)
	}
	root, err := openRoot(w)
	if err != nil {
		return -1, 0, err
	}
	defer unix.Close(root)
	dir, err = openBeneath(root, d.Launch.Directory.Path, unix.O_PATH|unix.O_DIRECTORY, unix.RESOLVE_BENEATH|unix.RESOLVE_NO_MAGICLINKS)
	return dir, owner, err
}
