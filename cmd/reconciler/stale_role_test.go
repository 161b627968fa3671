package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/cmd/reconciler/internal/daemon"
	"reconciler.dev/reconciler/keeper"
	"reconciler.dev/reconciler/reconcile"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// A reconciler whose lock was taken from it cannot be the program itself: the program's tables lie beside the lock, and two would
// write them. This one is the shipped loop and the shipped client, with the lock where it belongs and tables of its own.

// staleWish is what both reconcilers of the test want.
const staleWish = `apiVersion: reconciler.dev/v1alpha1
kind: Profile
metadata: {name: game}
spec:
  actions:
    start: {workspace: bin, executable: faultd, args: [console]}
    stop: {steps: [{console: {line: stop}, waitSeconds: 3600}]}
    commands: [{name: save, console: {line: save, expect: unknown command "save"}}]
  console: {input: Stdin}
  readinessProbe: {log: {contains: [console ready]}}
---
apiVersion: reconciler.dev/v1alpha1
kind: Server
metadata: {name: town}
spec: {profile: game}
`

// fixed is a source that never changes.
type fixed struct{ set *spec.Set }

func (s fixed) Latest() *spec.Set        { return s.set }
func (s fixed) Changed() <-chan struct{} { return nil }

func staleSet() *spec.Set {
	set := &spec.Set{
		Known: true, Profiles: map[spec.Key]*spec.Accepted[spec.Profile]{},
		Servers: map[spec.Key]*spec.Accepted[spec.Server]{}, Jobs: map[spec.Key]*spec.Accepted[spec.Job]{},
	}
	for _, d := range spec.Decode("town.yaml", []byte(staleWish)).Documents {
		if d.Profile != nil {
			set.Profiles[d.Key] = &spec.Accepted[spec.Profile]{Object: d.Profile}
		}
		if d.Server != nil {
			set.Servers[d.Key] = &spec.Accepted[spec.Server]{Object: d.Server}
		}
	}
	return set
}

// speaker says one line at a time.
type speaker struct {
	mu   sync.Mutex
	said map[string]bool
}

// once says what was not said before.
func (s *speaker) once(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.said[line] {
		s.said[line] = true
		fmt.Println(line)
	}
}

// telling is an executor that says which check its orders failed.
type telling struct {
	*keeper.Client
	speaker *speaker
}

func (e telling) tell(kind string, err error) error {
	if check, refused := keeper.IsRefused(err); refused {
		e.speaker.once("%s refused by %s", kind, check)
	}
	return err
}

func (e telling) Start(ctx context.Context, o state.StartOrder) error {
	return e.tell("Start", e.Client.Start(ctx, o))
}

func (e telling) Stop(ctx context.Context, o state.StopOrder) error {
	return e.tell("Stop", e.Client.Stop(ctx, o))
}

func (e telling) Step(ctx context.Context, o state.StepOrder) error {
	return e.tell("Step", e.Client.Step(ctx, o))
}

func (e telling) Do(ctx context.Context, o state.DoOrder) (state.Receipt, error) {
	r, err := e.Client.Do(ctx, o)
	return r, e.tell("Do", err)
}

// playReconciler is one of the reconcilers: args are the state and runtime directories, and where its own tables lie. It does what
// its input says: "NAME TYPE [COMMAND]" is a job, "hold" a person's stop.
func playReconciler(args []string) error {
	l := state.Layout{State: args[0], Runtime: args[1]}
	if err := errors.Join(l.MakeReconciler(), os.Mkdir(args[2], 0o700)); err != nil {
		return err
	}
	if _, err := state.TakeLock(state.LinuxDisk{}, l.ReconcilerLock(), "reconciler"); err != nil {
		return err
	}
	servers, err := state.OpenTable[reconcile.Memory](state.LinuxDisk{}, filepath.Join(args[2], "servers.journal"), state.Format{Kind: "servers", Version: 1})
	if err != nil {
		return err
	}
	jobs, err := state.OpenTable[reconcile.JobMemory](state.LinuxDisk{}, filepath.Join(args[2], "jobs.journal"), state.Format{Kind: "jobs", Version: 1})
	if err != nil {
		return err
	}
	host, err := daemon.NewHost(l, nil, []daemon.Workspace{{Name: "bin", Dir: os.Getenv("BIN")}})
	if err != nil {
		return err
	}
	boot, err := state.LinuxDisk{}.BootID()
	if err != nil {
		return err
	}
	now := func() state.Moment {
		var ts unix.Timespec
		_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts)
		return state.Moment{Wall: time.Now().Round(0), BootID: boot, Uptime: time.Duration(ts.Nano())}
	}
	s := &speaker{said: map[string]bool{}}
	client := keeper.NewClient(keeper.ClientConfig{Layout: l, Version: cliVersion(), Host: host.Keeper})
	loop := reconcile.New(reconcile.Options{
		Executor: telling{client, s}, Source: fixed{staleSet()}, Clock: reconcile.ClockFunc(now), Store: servers, Jobs: jobs,
		Host: func() *spec.HostView { return host.View },
	})
	for _, run := range []func(context.Context) error{servers.Run, jobs.Run, client.Run, loop.Run} {
		go func() { _ = run(context.Background()) }()
	}
	go tellAll(loop, client, s)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		words := append(strings.Fields(in.Text()), "")
		if words[0] == "hold" {
			loop.Submit(reconcile.ActionStop, reconcile.Ask{Server: spec.Key{Namespace: spec.DefaultNamespace, Name: "town"}, By: "somebody"})
			continue
		}
		loop.SubmitJob(reconcile.JobAsk{
			Key: spec.Key{Namespace: spec.DefaultNamespace, Name: words[0]}, By: "somebody",
			Spec: spec.JobSpec{Server: "town", Type: spec.JobType(words[1]), Command: words[2]},
		}, false)
	}
	return nil
}

// tellAll says what becomes of the server, of jobs and of the connection.
func tellAll(loop *reconcile.Loop, client *keeper.Client, s *speaker) {
	changed, end := loop.Watch()
	defer end()
	tick := time.NewTicker(20 * time.Millisecond) // a connection that is not let in changes nothing that is shown
	defer tick.Stop()
	for {
		if check, refused := keeper.IsRefused(client.Problem()); refused {
			s.once("not let in by %s", check)
		}
		snap := loop.Snapshot()
		for _, v := range snap.Servers {
			if r := v.Status.Run; r != nil {
				s.once("run %d is %s", r.Number, v.Status.State)
			}
			if len(v.Facts) > 0 && v.Facts[0].Run != nil && !v.Facts[0].Run.ReadyAt.IsZero() {
				s.once("run %d is recorded as Ready", v.Facts[0].Run.Number)
			}
		}
		for _, v := range snap.Jobs {
			s.once("%s is %s", v.Key.Name, v.Status.Phase)
		}
		select {
		case <-changed:
		case <-tick.C:
		}
	}
}
