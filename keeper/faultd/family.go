package faultd

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// daemonMiddle is the process between daemonise and its daemon: a Go program cannot fork, so each of the two forks is an
// execution of this program.
const daemonMiddle = "daemon-middle"

func daemoniseFlags(fs *flag.FlagSet) func(*process) int {
	stay := fs.Bool("stay", false, "stay until SIGTERM instead of exiting at once")
	code := fs.Int("code", 0, "exit `code`")
	clearEnv := fs.Bool("clearenv", false, "leave the daemon no environment to be found by")
	ignored := fs.String("ignore", "", "`list` of signals that the daemon ignores")
	return func(p *process) int {
		stop := caught(syscall.SIGTERM)
		cmd, err := p.child(daemonMiddle, "-ignore", *ignored)
		if err != nil {
			return fail(err)
		}
		cmd.SysProcAttr.Setsid = true
		if *clearEnv {
			cmd.Env = []string{}
		}
		if err := cmd.Run(); err != nil {
			return fail(err)
		}
		say("daemon launched")
		if *stay {
			<-stop
		}
		return *code
	}
}

// daemonMiddleFlags is the session leader, whose death makes the daemon an orphan that leads no session.
func daemonMiddleFlags(fs *flag.FlagSet) func(*process) int {
	ignored := fs.String("ignore", "", "`list` of signals that the daemon ignores")
	return func(p *process) int {
		cmd, err := p.child("hold", "-ignore", *ignored)
		if err != nil {
			return fail(err)
		}
		if err := cmd.Start(); err != nil {
			return fail(err)
		}
		return 0
	}
}

func spawnFlags(fs *flag.FlagSet) func(*process) int {
	n := fs.Int("n", 3, "number of children")
	ignored := fs.String("ignore", deaf, "`list` of signals that the children ignore")
	group := fs.String("group", "same", "the children's process group: same, own, or session for a session of their own")
	zombies := fs.Bool("zombies", false, "children that exit at once and are never waited for")
	after := fs.Duration("exit-after", 0, "exit after this long; 0 is on SIGTERM")
	return func(p *process) int {
		stop := caught(syscall.SIGTERM, syscall.SIGINT)
		args := []string{"hold", "-ignore", *ignored}
		if *zombies {
			args = []string{"exit"}
		}
		for range *n {
			if err := p.abandon(*group, args...); err != nil {
				return fail(err)
			}
		}
		say("spawned %d", *n)
		if *after > 0 {
			pause(*after, stop)
		} else {
			<-stop
		}
		say("parent leaves")
		return 0
	}
}

// abandon starts a child that nobody will wait for.
func (p *process) abandon(group string, args ...string) error {
	cmd, err := p.child(args...)
	if err != nil {
		return err
	}
	switch group {
	case "same":
	case "own":
		cmd.SysProcAttr.Setpgid = true
	case "session":
		cmd.SysProcAttr.Setsid = true
	default:
		return fmt.Errorf("-group %q is none of same, own, session", group)
	}
	return cmd.Start()
}

// maxBomb bounds what a typing error can do.
const maxBomb = 4096

// forkbombFlags spends a budget: each process takes one of it and halves the rest between two children.
func forkbombFlags(fs *flag.FlagSet) func(*process) int {
	k := fs.Int("k", 64, fmt.Sprintf("processes in all, 1 to %d", maxBomb))
	var ignored signalList
	fs.Var(&ignored, "ignore", "`list` of signals that each of them ignores")
	return func(p *process) int {
		if *k < 1 || *k > maxBomb {
			return fail(fmt.Errorf("-k %d is not 1 to %d", *k, maxBomb))
		}
		ignored.ignore()
		rest := *k - 1
		for _, share := range []int{rest / 2, rest - rest/2} {
			if share == 0 {
				continue
			}
			err := p.abandon("same", "forkbomb", "-k", strconv.Itoa(share), "-ignore", ignored.String())
			if err != nil {
				fmt.Fprintln(os.Stderr, "faultd:", err) // a limit held: go on with fewer
			}
		}
		say("bomb pid=%d rest=%d", os.Getpid(), rest)
		return forever()
	}
}
