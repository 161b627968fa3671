package cli

import (
	"fmt"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"reconciler.dev/reconciler/state"
)

// The environment names that say for every command what --state-dir and --runtime-dir say for one.
const (
	envStateDir   = "RECONCILER_STATE_DIR"
	envRuntimeDir = "RECONCILER_RUNTIME_DIR"
)

// place is what was said about where the reconciler lives.
type place struct {
	state   string
	runtime string
}

// placeFlags adds the two flags to cmd.
func placeFlags(cmd *cobra.Command, p *place) {
	cmd.Flags().StringVar(&p.state, "state-dir", "", "directory of state, locks and logs (default $"+envStateDir+", /var/lib/reconciler for root, $XDG_STATE_HOME/reconciler or ~/.local/state/reconciler)")
	cmd.Flags().StringVar(&p.runtime, "runtime-dir", "", "directory of sockets (default $"+envRuntimeDir+", below a --state-dir that is named, /run/reconciler for root, $XDG_RUNTIME_DIR/reconciler, or below the state directory)")
}

// command is a command line of this program that asks the same reconciler, to be shown to the person who typed this one.
func (p place) command(e *env, words string) string {
	line := e.self + " " + words
	if p.state != "" {
		line += " --state-dir " + quoted(p.state)
	}
	if p.runtime != "" {
		line += " --runtime-dir " + quoted(p.runtime)
	}
	return line
}

// quoted is a word as a shell reads it as itself.
func quoted(word string) string {
	plain := func(r rune) bool {
		return r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r)) || strings.ContainsRune("/._-+=:,@%", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// layout is the place with everything filled in that no flag said: the environment first, then the defaults. A state
// directory that is named has its sockets below it, so that naming it is enough.
func (p place) layout(e *env) (state.Layout, error) {
	said := place{or(p.state, e.getenv(envStateDir)), or(p.runtime, e.getenv(envRuntimeDir))}
	l, err := state.DefaultLayout(e.uid, e.getenv)
	if err != nil && said.state == "" {
		return state.Layout{}, usagef("%s", err)
	}
	if said.state != "" {
		usual := l.State
		if l.State, err = filepath.Abs(said.state); err != nil {
			return state.Layout{}, fmt.Errorf("cannot resolve %s: %w", said.state, err)
		}
		if l.State != usual {
			l.Runtime = l.RuntimeBelowState()
		}
	}
	if said.runtime != "" {
		if l.Runtime, err = filepath.Abs(said.runtime); err != nil {
			return state.Layout{}, fmt.Errorf("cannot resolve %s: %w", said.runtime, err)
		}
	}
	if err := l.Validate(); err != nil {
		return state.Layout{}, usagef("%s", err)
	}
	return l, nil
}
