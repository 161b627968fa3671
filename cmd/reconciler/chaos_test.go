//go:build chaos

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// The soak's length in seconds and its seed. The seed fixes what is done and to whom; the machine fixes the rest.
const (
	chaosSecondsVariable = "CHAOS_SECONDS"
	chaosSeedVariable    = "CHAOS_SEED"
	chaosSeconds         = 300
)

// chaosFamilies are a hundred servers. The first half of each kind is left alone, where the kind does not end by itself.
func chaosFamilies(tr *trial) []*actor {
	var all []*actor
	many := func(n int, kind string, make func(name string, i int) *actor) {
		for i := range n {
			a := make(fmt.Sprintf("%s-%d", kind, i), i)
			a.steady = !a.own.ends && i < n/2
			all = append(all, a)
		}
	}
	term := []string{"SIGTERM"}
	many(38, "sleep", func(name string, _ int) *actor { return tr.plain(name, "/usr/bin/sleep", term, "86400") })
	many(12, "flood", func(name string, i int) *actor {
		a := tr.faulty(name, ending{}, []string{"0", "SIGTERM"}, "flood", "-mbps", strconv.FormatFloat(0.005*float64(1+i%4), 'f', 3, 64), "-each", "-for", "24h", "-linger")
		a.flood = true
		return a
	})
	many(8, "console", func(name string, _ int) *actor { return tr.faulty(name, ending{}, term, "console") })
	many(8, "exit", func(name string, i int) *actor {
		return tr.faulty(name, ending{ends: true, code: 3 + i}, term, "exit", "-code", strconv.Itoa(3+i), "-after", fmt.Sprintf("%dms", 1500+700*i))
	})
	many(6, "crash", func(name string, i int) *actor {
		sig := []string{"SIGSEGV", "SIGABRT", "SIGBUS"}[i%3]
		return tr.faulty(name, ending{ends: true, signal: sig}, term, "crash", "-signal", sig, "-after", fmt.Sprintf("%dms", 1700+900*i))
	})
	many(6, "deaf", func(name string, _ int) *actor {
		a := tr.faulty(name, ending{}, nil, "ignore-term")
		a.stop = "[{signal: {name: SIGTERM}, waitSeconds: 1}]"
		return a
	})
	many(6, "stayer", func(name string, _ int) *actor {
		return tr.faulty(name, ending{}, []string{"0", "SIGTERM"}, "daemonise", "-stay")
	})
	many(4, "daemon", func(name string, i int) *actor {
		return tr.faulty(name, ending{ends: true, code: 40 + i}, term, "daemonise", "-code", strconv.Itoa(40+i))
	})
	many(4, "parent", func(name string, _ int) *actor {
		return tr.faulty(name, ending{}, []string{"0", "SIGTERM"}, "spawn", "-n", "2")
	})
	many(3, "redis", func(name string, _ int) *actor {
		return tr.plain(name, "/usr/bin/redis-server", []string{"0", "SIGTERM"}, "--port", "0", "--unixsocket", "s", "--save", "")
	})
	conf := filepath.Join(tr.dir, "nginx.conf")
	if err := os.WriteFile(conf, []byte("daemon off; pid nginx.pid; error_log stderr; events {}\n"), 0o644); err != nil {
		tr.t.Fatal(err)
	}
	many(3, "nginx", func(name string, _ int) *actor {
		return tr.plain(name, "/usr/sbin/nginx", []string{"0", "SIGTERM"}, "-p", ".", "-e", "stderr", "-c", conf)
	})
	var some []*actor
	for _, a := range all {
		if _, err := os.Stat("/usr/" + a.exec); a.within == "usr" && err != nil {
			tr.t.Logf("%s is left out: %v", a.name, err)
			continue
		}
		some = append(some, a)
	}
	for i := 0; len(some) < 100; i++ { // others take the place of servers that are not installed
		some = append(some, tr.plain(fmt.Sprintf("more-%d", i), "/usr/bin/sleep", term, "86400"))
	}
	return some
}

// TestChaosSoak lets a hundred servers live through edits, holds, kills and stops of everything, and looks from outside that
// nothing of what is promised breaks.
func TestChaosSoak(t *testing.T) {
	seed := number(t, chaosSeedVariable, rand.Uint64()%1_000_000)
	length := time.Duration(number(t, chaosSecondsVariable, chaosSeconds)) * time.Second
	t.Logf("%s=%d %s=%d", chaosSeedVariable, seed, chaosSecondsVariable, int(length.Seconds()))
	tr := newTrial(t, buildTrialPrograms(t))
	defer tr.verdict()
	tr.tell("seed %d, %s", seed, length)
	c := &chaos{trial: tr, rand: rand.New(rand.NewPCG(seed, 0))}

	for _, a := range chaosFamilies(tr) {
		if a.own.ends {
			a.state = "Stopped"
		}
		tr.add(a)
		c.all = append(c.all, a)
		if !a.steady {
			c.toys = append(c.toys, a)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	watching.Go(func() { tr.watch(ctx, 100*time.Millisecond) })
	tr.startReconciler()
	defer func() {
		tr.shutdown()
		cancel()
		watching.Wait()
		tr.judgeExits()
		tr.judgeKills()
		tr.judgeSteady()
		tr.judgeTrails()
		lines := tr.judgeFloods()
		t.Logf("%d runs, %d ends, %d kills of workloads, %d of keepers, %d kills and stops of ours in all, %d numbered lines looked at",
			len(tr.runs), len(tr.exits), len(tr.kills), len(tr.downs), len(tr.breaks), lines)
	}()

	c.settle("at the beginning", false)
	before := c.descriptors()
	for _, a := range c.all {
		if a.own.ends {
			c.want(a, func() { a.state = "Running" })
		}
	}
	c.rage(length)
	c.calm()
	c.settle("when the chaos has ended", true)
	for _, a := range c.all {
		if a.own.ends {
			c.want(a, func() { a.state = "Stopped" })
		}
	}
	c.settle("at the end", false)
	c.judgeDescriptors(before)
	c.judgeLive()
}

// chaos is who does it: one goroutine, whose choices are the seed's.
type chaos struct {
	*trial
	rand *rand.Rand
	all  []*actor
	toys []*actor // those that something may be done to

	frozen []thaw
	orders sync.WaitGroup // commands under way
	slots  chan struct{}
	counts map[string]int
}

// thaw is a process to be continued later.
type thaw struct {
	at time.Time
	do func()
}

// deed is something that can be done, and how often of all.
type deed struct {
	weight int
	name   string
	do     func()
}

func (c *chaos) rage(length time.Duration) {
	deeds := []deed{
		{30, "kill a workload", c.killWorkload},
		{20, "edit", c.edit},
		{10, "comment", c.commentOn},
		{10, "move", c.moveFile},
		{6, "damage", c.damage},
		{8, "take or return", c.takeOrReturn},
		{20, "command", c.order},
		{3, "kill the keeper", func() { c.killKeeper(syscall.SIGKILL) }},
		{2, "stop the keeper", c.freezeKeeper},
		{3, "kill the reconciler", func() { c.killReconciler(syscall.SIGKILL) }},
		{1, "end the reconciler", func() { c.killReconciler(syscall.SIGTERM) }},
		{2, "stop the reconciler", c.freezeReconciler},
		{1, "kill the anchor", func() { c.killAnchor() }},
		{1, "kill both", func() { c.killReconciler(syscall.SIGKILL); c.killKeeper(syscall.SIGKILL) }},
	}
	sum := 0
	for _, d := range deeds {
		sum += d.weight
	}
	c.slots, c.counts = make(chan struct{}, 4), map[string]int{}
	for end := time.Now().Add(length); time.Now().Before(end); {
		n := c.rand.IntN(sum)
		for _, d := range deeds {
			if n -= d.weight; n < 0 {
				c.counts[d.name]++
				d.do()
				break
			}
		}
		c.thawAll(time.Now())
		// Chaos has a pace, so that there is something to break.
		time.Sleep(time.Duration(c.rand.IntN(150)) * time.Millisecond)
		c.startReconciler()
	}
	c.t.Logf("done: %v", c.counts)
}

func (c *chaos) thawAll(now time.Time) {
	rest := c.frozen[:0]
	for _, f := range c.frozen {
		if now.Before(f.at) {
			rest = append(rest, f)
			continue
		}
		f.do()
	}
	c.frozen = rest
}

func (c *chaos) later(do func()) {
	c.frozen = append(c.frozen, thaw{time.Now().Add(time.Duration(100+c.rand.IntN(2500)) * time.Millisecond), do})
}

func (c *chaos) toy() *actor { return c.toys[c.rand.IntN(len(c.toys))] }

// want changes what is wanted of an actor, and puts it down before anybody can act on it.
func (c *chaos) want(a *actor, change func()) {
	change()
	c.wish(a.name)
	c.tell("%s: state %s, turn %d", a.name, a.state, a.turn)
	c.write(a)
}

func (c *chaos) edit() {
	a := c.toy()
	if a.damaged || a.absent {
		return
	}
	c.want(a, func() {
		if c.rand.IntN(4) == 0 {
			a.state = map[string]string{"Running": "Stopped", "Stopped": "Running"}[a.state]
		} else {
			a.turn++
		}
	})
}

// commentOn and moveFile change nothing that is wanted: every server takes part.
func (c *chaos) commentOn() {
	a := c.all[c.rand.IntN(len(c.all))]
	if a.damaged || a.absent {
		return
	}
	a.comment++
	c.tell("%s: comment %d", a.name, a.comment)
	c.write(a)
}

func (c *chaos) moveFile() {
	a := c.all[c.rand.IntN(len(c.all))]
	if a.absent {
		return
	}
	to := fmt.Sprintf("d%d/%s-%d.yaml", c.rand.IntN(5), a.name, c.rand.IntN(1000))
	c.tell("%s: %s becomes %s", a.name, a.file, to)
	c.move(a, to)
}

// damage breaks a file, or mends it. Nothing may follow from either.
func (c *chaos) damage() {
	a := c.all[c.rand.IntN(len(c.all))]
	if a.absent {
		return
	}
	a.damaged = !a.damaged
	c.tell("%s: its file is damaged: %v", a.name, a.damaged)
	c.write(a)
}

func (c *chaos) takeOrReturn() {
	a := c.toy()
	if a.damaged || a.flood { // a server that comes back counts its runs anew, and its log goes on in files of the same names
		return
	}
	c.wish(a.name)
	c.tell("%s: its file is there: %v", a.name, a.absent)
	if a.absent {
		c.write(a)
	} else {
		c.take(a)
	}
}

// order gives a command by the program. There may be nobody to take it.
func (c *chaos) order() {
	a := c.toy()
	verb := []string{"stop", "start", "restart", "release"}[c.rand.IntN(4)]
	c.wish(a.name)
	select {
	case c.slots <- struct{}{}:
	default:
		return // enough of them wait
	}
	c.orders.Go(func() {
		defer func() { <-c.slots }()
		_, err := c.cli(5*time.Second, verb, a.name)
		c.wish(a.name)
		c.tell("%s %s: %v", verb, a.name, err)
	})
}

func (c *chaos) killWorkload() {
	a := c.toy()
	scope := spec.Scope{Namespace: spec.DefaultNamespace, Server: a.name, Profile: a.name}
	r, err := state.ReadRecord(c.recordFile(scope))
	if err != nil || r.Run == nil || r.Run.Identity == nil || r.Run.StartedAt.IsZero() || r.Run.MainExit != nil {
		return
	}
	c.note(r)
	now := time.Now()
	if !c.signalMain(r, unix.SIGKILL) {
		return
	}
	c.mu.Lock()
	c.kills[r.Run.ID] = now
	c.tellLocked("%s: run %d, process %d is killed", a.name, r.Run.Number, r.Run.Identity.PID)
	c.mu.Unlock()
}

func (c *chaos) freezeKeeper() {
	if pid := c.killKeeper(syscall.SIGSTOP); pid != 0 {
		c.later(func() { c.tell("keeper %d goes on", pid); _ = killPID(pid, syscall.SIGCONT, false) })
	}
}

func (c *chaos) freezeReconciler() {
	c.killReconciler(syscall.SIGSTOP)
	c.later(func() { c.killReconciler(syscall.SIGCONT) })
}
