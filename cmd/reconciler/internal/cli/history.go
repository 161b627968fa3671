package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"reconciler.dev/reconciler/cmd/reconciler/internal/api"
)

func newHistory(e *env) *cobra.Command {
	var p place
	var scope scopeFlags
	var form string
	cmd := &cobra.Command{
		Use:     "history NAME",
		Short:   "List a server's runs and how each ended, and what was written to its console, oldest first",
		Example: "  reconciler history town",
		Args:    exactly(1, "the name of a server"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runHistory(cmd.Context(), e, p, scope, args[0], form)
		},
	}
	placeFlags(cmd, &p)
	namespaceFlag(cmd, &scope)
	cmd.Flags().StringVarP(&form, "output", "o", "", "form of the output: "+outputForms)
	return cmd
}

func runHistory(ctx context.Context, e *env, p place, scope scopeFlags, name, form string) error {
	out, err := parseOutput(form)
	if err != nil {
		return err
	}
	k, err := parseServer(name, scope.namespace)
	if err != nil {
		return err
	}
	c, err := e.dial(p)
	if err != nil {
		return err
	}
	defer c.Close()
	var raw json.RawMessage
	if err := c.Get(ctx, api.ObjectPath(api.Servers, k, "history"), nil, &raw); err != nil {
		return err
	}
	if !out.isTable() {
		return out.print(e.stdout, raw)
	}
	var h api.History
	if err := json.Unmarshal(raw, &h); err != nil {
		return fmt.Errorf("cannot read the answer: %w", err)
	}
	if len(h.Items) == 0 && h.Current == nil && len(h.Console) == 0 {
		fmt.Fprintf(e.stderr, "%s has not run yet.\n", serverRef(k))
		return nil
	}
	t := historyTable(h, out.form == "wide", e.now())
	if err := t.print(e.stdout, true); err != nil || len(h.Console) == 0 {
		return err
	}
	fmt.Fprintln(e.stdout)
	return consoleTable(h.Console, e.now()).print(e.stdout, true)
}

// consoleTable has a row for each line that was written to a console, and for what was typed and never became one.
func consoleTable(entries []api.ConsoleEntry, now time.Time) *table {
	t := &table{header: []string{"WRITTEN", "RUN", "BY", "RAIL", "COMMAND", "RESULT", "TEXT"}}
	for _, d := range entries {
		row := func(at time.Time, text string) {
			t.add(age(now, &at)+" ago", strconv.FormatInt(d.Run, 10), or(d.By, none), railText(&d), or(d.Command, none), deliveryText(&d), text)
		}
		if len(d.Lines) == 0 {
			row(d.At, none)
		}
		for i := range d.Lines {
			row(d.Lines[i].At, lineText(&d.Lines[i]))
		}
	}
	return t
}

func railText(d *api.ConsoleEntry) string {
	if d.Keys {
		return d.Rail + " (keys)"
	}
	return d.Rail
}

func deliveryText(d *api.ConsoleEntry) string {
	switch {
	case d.Result == "" && d.Keys:
		return "goes on"
	case d.Result == "":
		return "on its way"
	case d.Reason != "":
		return d.Result + " (" + d.Reason + ")"
	}
	return d.Result
}

// lineText is a line as far as it is told.
func lineText(l *api.ConsoleLine) string {
	var parts []string
	if l.Earlier > 0 {
		parts = append(parts, fmt.Sprintf("(%d before are not kept)", l.Earlier))
	}
	if l.Text != "" {
		parts = append(parts, l.Text)
	}
	if l.Withheld > 0 {
		parts = append(parts, fmt.Sprintf("(%d bytes not shown)", l.Withheld))
	}
	return strings.Join(parts, " ")
}

func historyTable(h api.History, wide bool, now time.Time) *table {
	t := &table{header: []string{"RUN", "PROFILE", "STARTED", "RAN", "CLASS", "REASON", "END", "STEP", "WHY"}}
	if wide {
		t.header = append(t.header, "CAUSE", "BY", "GENERATION")
	}
	for _, x := range h.Items {
		started, ran := none, none
		if x.StartedAt != nil {
			started = age(now, x.StartedAt) + " ago"
			ran = age(x.FinishedAt, x.StartedAt)
		}
		row := []string{strconv.FormatInt(x.Number, 10), x.Profile, started, ran, string(x.Class), string(x.Reason),
			endText(&x.ExitStatus), stepText(&x.ExitStatus), or(x.Why, none)}
		if wide {
			row = append(row, or(x.Cause, none), or(x.By, none), strconv.FormatInt(x.Generation, 10))
		}
		t.add(row...)
	}
	if r := h.Current; r != nil {
		started, ran := none, none
		if r.StartedAt != nil {
			started = age(now, r.StartedAt) + " ago"
			ran = age(now, r.StartedAt)
		}
		row := []string{strconv.FormatInt(r.Number, 10), r.Profile, started, ran, none, string(r.State), none, none, none}
		if wide {
			row = append(row, or(r.Cause, none), or(r.By, none), none)
		}
		t.add(row...)
	}
	return t
}
