//go:build chaos

package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// descriptorSlack is how many descriptors a process may have more than at the beginning: connections come and go.
const descriptorSlack = 6

func (c *chaos) recordFile(scope spec.Scope) string {
	return filepath.Join(c.layout.Keeper(), "records", scope.ID()+".json")
}

// calm undoes what the chaos has done to files, holds and processes.
func (c *chaos) calm() {
	c.tell("calm")
	c.thawAll(time.Now().Add(time.Hour))
	c.orders.Wait()
	c.startReconciler()
	for _, a := range c.all {
		changed := a.absent || a.state != "Running"
		if changed || a.damaged {
			a.damaged, a.state = false, "Running"
			if changed {
				c.wish(a.name)
			}
			c.write(a)
		}
	}
	for _, a := range c.toys {
		c.wish(a.name)
		err := until(patience, func() error {
			_, err := c.cli(patience, "release", a.name)
			if err != nil && strings.Contains(err.Error(), "no hold") {
				return nil
			}
			return err
		})
		if err != nil {
			c.fault("cannot release %s: %v", a.name, err)
		}
	}
}

// settle waits until every server is what its file says. Those that end by themselves are in whatever state they are.
func (c *chaos) settle(when string, raging bool) {
	err := until(patience, func() error {
		c.startReconciler()
		servers, err := c.servers()
		if err != nil {
			return err
		}
		var wrong []string
		for _, a := range c.all {
			st, ok := servers[a.name]
			want := a.state
			switch {
			case !ok:
				wrong = append(wrong, a.name+" is not there")
			case st.Hold != nil:
				wrong = append(wrong, a.name+" is held")
			case raging && a.own.ends && st.State != spec.StateBlocked && st.State != spec.StateFailed:
			case string(st.State) != want:
				wrong = append(wrong, fmt.Sprintf("%s is %s and should be %s", a.name, st.State, want))
			}
		}
		if len(wrong) > 0 {
			return fmt.Errorf("%d servers are not as wanted: %q", len(wrong), wrong[:min(len(wrong), 5)])
		}
		return nil
	})
	if err != nil {
		c.fault("it does not converge %s: %v", when, err)
	}
	c.tell("settled %s", when)
}

// descriptors are those of keeper and reconciler at rest, by what they lead to.
func (c *chaos) descriptors() map[string][]string {
	keeper, main := c.keeperPID(), c.main.Process.Pid
	return map[string][]string{"the keeper": links(keeper), "the reconciler": links(main)}
}

func links(pid int) []string {
	var all []string
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if link, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil {
			all = append(all, link)
		}
	}
	slices.Sort(all)
	return all
}

func (c *chaos) judgeDescriptors(before map[string][]string) {
	var now map[string][]string
	err := until(20*time.Second, func() error {
		now = c.descriptors()
		for who, links := range now {
			if len(links) > len(before[who])+descriptorSlack {
				return fmt.Errorf("%s has %d descriptors, at the beginning there were %d: %v", who, len(links), len(before[who]), kinds(links))
			}
		}
		return nil
	})
	if err != nil {
		c.fault("%v", err)
	}
	for who := range now {
		c.t.Logf("%s has %d descriptors at rest, at the beginning %d", who, len(now[who]), len(before[who]))
	}
}

// kinds counts what descriptors lead to.
func kinds(links []string) map[string]int {
	count := map[string]int{}
	for _, l := range links {
		kind, _, _ := strings.Cut(l, ":")
		if strings.HasPrefix(l, "/") {
			kind = filepath.Base(l)
		}
		count[kind]++
	}
	return count
}

// judgeLive looks at rest that what lives is what is on record.
func (c *chaos) judgeLive() {
	live := map[string]int{} // by run id
	for _, r := range c.records() {
		if r.Run != nil && r.Run.Identity != nil && r.Run.MainExit == nil && !slices.ContainsFunc(r.History, func(e state.Exit) bool { return e.RunID == r.Run.ID }) {
			live[r.Run.ID] = r.Run.Identity.PID
		}
	}
	seen := map[string]bool{}
	for _, s := range c.scan() {
		main, ok := live[s.run]
		if !ok {
			c.fault("I6: %v lives, and its run is over", s)
		}
		seen[s.run] = seen[s.run] || main == s.pid
	}
	c.mu.Lock()
	runs := maps.Clone(c.runs)
	c.mu.Unlock()
	for id, pid := range live {
		if !seen[id] {
			c.fault("run %d of %s is on record as living, process %d is not there", runs[id].number, runs[id].server, pid)
		}
	}
}
