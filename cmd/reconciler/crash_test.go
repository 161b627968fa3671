//go:build crash

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// drama is a life of a few servers, with one process of ours followed call by call.
type drama struct {
	name string
	play func(s *scene)
}

// scene is one performance.
type scene struct {
	*trial
	places places
	kill   *killAt // nil = only look
	met    bool

	mu     sync.Mutex
	counts map[string]int // how often each point was reached
	order  []string
	odd    map[string]bool // calls of which nobody has said what they do
}

// killAt says where somebody is killed.
type killAt struct {
	point string
	nth   int
	after bool
	both  bool
}

func (k *killAt) String() string {
	when, who := "before", "it"
	if k.after {
		when = "after"
	}
	if k.both {
		who = "both"
	}
	return fmt.Sprintf("%s %s %d, %s", when, k.point, k.nth, who)
}

// watcher sees the calls of the keeper or the reconciler, and kills at the point.
func (s *scene) watcher(keeper bool) func(*call) {
	return func(c *call) {
		known := true
		if !c.after {
			c.point, known = s.places.point(c)
		}
		point := c.point
		s.mu.Lock()
		if !known {
			s.odd[fmt.Sprintf("%s (system call %d)", point, c.nr)] = true
		}
		if point == "" {
			s.mu.Unlock()
			return
		}
		if !c.after {
			if s.counts[point] == 0 {
				s.order = append(s.order, point)
			}
			s.counts[point]++
		}
		strike := s.kill != nil && !s.met && s.kill.point == point && s.kill.after == c.after && s.counts[point] == s.kill.nth
		s.met = s.met || strike
		s.mu.Unlock()
		if !strike {
			return
		}
		s.tell("struck %s", s.kill)
		s.strike(c.pid, keeper)
	}
}

// strike kills the followed process, which stands at a call, and with both the other one first.
func (s *scene) strike(pid int, keeper bool) {
	if s.kill.both && keeper {
		s.killReconciler(syscall.SIGKILL)
	}
	if s.kill.both && !keeper {
		s.killKeeper(syscall.SIGKILL)
	}
	s.broken(keeper)
	s.trial.mu.Lock()
	s.keeper[pid], s.wanted[pid] = keeper, !keeper
	s.trial.mu.Unlock()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		s.fault("cannot kill process %d: %v", pid, err)
	}
}

// traceKeeper starts a keeper that is followed, and waits until it listens or has ended.
func (s *scene) traceKeeper() {
	cmd := s.command(context.Background(), "keeper")
	log, err := os.OpenFile(filepath.Join(s.dir, "traced.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	started := belowUs(s.t, cmd)
	t, err := startTraced(cmd, s.watcher(true))
	started()
	if err != nil {
		s.t.Fatal(err)
	}
	s.tell("keeper %d starts, followed", cmd.Process.Pid)
	s.t.Cleanup(func() {
		<-t.ended
		if t.err != nil {
			s.t.Errorf("cannot follow the keeper: %v", t.err)
		}
	})
	_ = until(patience, func() error {
		select {
		case <-t.ended:
			return nil
		default:
		}
		if pid := s.keeperPID(); pid != cmd.Process.Pid {
			return fmt.Errorf("keeper %d has the lock", pid)
		}
		_, err := os.Stat(s.layout.KeeperSocket())
		return err
	})
}

// traceReconciler starts a reconciler that is followed.
func (s *scene) traceReconciler(cmd *exec.Cmd) (wait func() error, err error) {
	t, err := startTraced(cmd, s.watcher(false))
	if err != nil {
		return nil, err
	}
	return func() error {
		<-t.ended
		return t.err
	}, nil
}

// population is a few servers, so that a life takes seconds.
func (s *scene) population() {
	term := []string{"SIGTERM"}
	steady := s.plain("steady", "/usr/bin/sleep", term, "86400")
	steady.steady = true
	flood := s.faulty("flood", ending{}, []string{"0", "SIGTERM"}, "flood", "-mbps", "0.3", "-each", "-for", "24h", "-linger")
	flood.flood = true
	family := s.faulty("family", ending{}, []string{"0", "SIGTERM"}, "spawn", "-n", "1")
	family.stop = "[{signal: {name: SIGTERM}, waitSeconds: 1}]"
	held := s.plain("held", "/usr/bin/sleep", term, "86400")
	held.stop = "[{exec: {executable: bin/true}, waitFor: Done, waitSeconds: 2}, {signal: {name: SIGTERM}, waitSeconds: 30}]"
	held.probe = "{exec: {executable: bin/true}, periodSeconds: 1, timeoutSeconds: 60}"
	ender := s.faulty("ender", ending{ends: true, code: 7}, term, "exit", "-code", "7", "-after", "300ms")
	s.add(steady, flood, family, ender, held,
		s.plain("edited", "/usr/bin/sleep", term, "86400"),
		s.plain("gone", "/usr/bin/sleep", term, "86400"))
}

// converge waits until all servers are what their files say.
func (s *scene) converge(when string) {
	err := until(patience, func() error {
		s.startReconciler()
		servers, err := s.servers()
		if err != nil {
			return err
		}
		for name, a := range s.actors {
			st, ok := servers[name]
			switch {
			case a.absent && !ok, a.own.ends && ok:
			case ok == a.absent:
				return fmt.Errorf("%s is there: %v", name, ok)
			case st.State != spec.ServerState(a.state):
				return fmt.Errorf("%s is %s and should be %s", name, st.State, a.state)
			}
		}
		return nil
	})
	if err != nil {
		s.fault("it does not converge %s: %v", when, err)
	}
	s.tell("settled %s", when)
}

// changes is an edit, a removal, a hold and its end.
func (s *scene) changes() {
	edited, gone, held := s.actors["edited"], s.actors["gone"], s.actors["held"]
	s.wish("edited")
	edited.turn++
	s.write(edited)
	s.wish("gone")
	s.take(gone)
	held.state = "Stopped" // by hold, not by its file
	s.must("held", "stop")
	s.converge("after the changes")
	held.state = "Running"
	s.must("held", "release")
	s.wish("gone")
	s.write(gone)
	s.converge("after they were taken back")
}

// must gives a command until it was taken.
func (s *scene) must(server, verb string) {
	err := until(patience, func() error {
		s.startReconciler()
		s.wish(server)
		_, err := s.cli(patience, verb, server)
		s.tell("%s %s: %v", verb, server, err)
		if err != nil && verb == "release" && strings.Contains(err.Error(), "no hold") {
			return nil
		}
		return err
	})
	if err != nil {
		s.fault("cannot %s %s: %v", verb, server, err)
	}
}

// dramas are the lives in which everything that keeper and reconciler do to the world is seen.
var dramas = []drama{
	{"keeper", func(s *scene) {
		s.traceKeeper()
		s.population()
		s.converge("at first")
		s.changes()
	}},
	{"adoption", func(s *scene) {
		s.population()
		s.converge("at first")
		s.killReconciler(syscall.SIGKILL)
		s.killAnchor()
		s.killKeeper(syscall.SIGKILL)
		s.killOne("edited") // its end is nobody's to see
		s.traceKeeper()
		s.converge("after the adoption")
	}},
	{"reconciler", func(s *scene) {
		s.population()
		s.launch = s.traceReconciler
		s.converge("at first")
		s.changes()
	}},
}

// killOne ends a workload behind everybody's back.
func (s *scene) killOne(server string) {
	scope := spec.Scope{Namespace: spec.DefaultNamespace, Server: server, Profile: server}
	r, err := state.ReadRecord(filepath.Join(s.layout.Keeper(), "records", scope.ID()+".json"))
	if err != nil || r.Run == nil || r.Run.Identity == nil {
		s.fault("%s has no process: %v", server, err)
		return
	}
	now := time.Now()
	if s.signalMain(r, syscall.SIGKILL) {
		s.trial.mu.Lock()
		s.kills[r.Run.ID] = now
		s.trial.mu.Unlock()
	}
}

// perform plays a drama to its end and judges it.
func perform(t *testing.T, p trialPrograms, d drama, kill *killAt) *scene {
	tr := newTrial(t, p)
	s := &scene{trial: tr, places: places{tr.layout}, kill: kill, counts: map[string]int{}, odd: map[string]bool{}}
	defer tr.verdict()
	ctx, cancel := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	watching.Go(func() { tr.watch(ctx, 300*time.Millisecond) })
	d.play(s)
	tr.shutdown()
	cancel()
	watching.Wait()
	tr.judgeExits()
	tr.judgeKills()
	tr.judgeSteady()
	tr.judgeTrails()
	tr.judgeFloods()
	for odd := range s.odd {
		tr.fault("nobody has said what %s is for", odd)
	}
	return s
}

// The seed of the choice among the times at which a point is reached, and how many of the performances there are: one in
// CRASH_SAMPLE, chosen by the seed too.
const (
	crashSeedVariable   = "CRASH_SEED"
	crashSampleVariable = "CRASH_SAMPLE"
)

// TestCrashPoints kills keeper, reconciler, or both at every point of their lives at which something changes in the world, and looks
// that all promises hold when they are back. The points are found by a performance in which nobody is killed.
func TestCrashPoints(t *testing.T) {
	seed := number(t, crashSeedVariable, rand.Uint64()%1_000_000)
	sample := int(number(t, crashSampleVariable, 1))
	t.Logf("%s=%d %s=%d", crashSeedVariable, seed, crashSampleVariable, sample)
	r := rand.New(rand.NewPCG(seed, 0))
	programs := buildTrialPrograms(t)
	type performance struct {
		drama drama
		kill  *killAt
	}
	var all []performance
	for _, d := range dramas {
		t.Run(d.name, func(t *testing.T) {
			s := perform(t, programs, d, nil)
			for i, p := range s.order {
				t.Logf("%5d %s: %s", s.counts[p], p, points[p])
				nth := func() int { return 1 + r.IntN(s.counts[p]) }
				all = append(all, performance{d, &killAt{p, 1, false, false}}, performance{d, &killAt{p, nth(), true, false}},
					performance{d, &killAt{p, nth(), i%2 == 0, true}})
			}
		})
	}
	if t.Failed() {
		return
	}
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] }) // so that a sample is of every kind
	var mu sync.Mutex
	met, played := 0, 0
	t.Run("kill", func(t *testing.T) {
		for i := 0; i < len(all); i += sample {
			p := all[i]
			t.Run(p.drama.name+" "+p.kill.String(), func(t *testing.T) {
				t.Parallel()
				s := perform(t, programs, p.drama, p.kill)
				mu.Lock()
				defer mu.Unlock()
				played++
				if s.met {
					met++
				}
			})
		}
	})
	t.Logf("%d points in %d dramas, %d performances of %d, in %d of which the point was reached", len(points), len(dramas), played, len(all), met)
	if met < played*9/10 {
		t.Errorf("only %d of %d points were reached again", met, played)
	}
}
