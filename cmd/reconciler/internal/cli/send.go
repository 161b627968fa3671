package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"reconciler.dev/reconciler/cmd/reconciler/internal/api"
	"reconciler.dev/reconciler/cmd/reconciler/internal/client"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// exitUnknown is the exit code of a send of which nobody knows whether the line was handed over.
const exitUnknown = 3

func newSend(e *env) *cobra.Command {
	var p place
	var scope scopeFlags
	cmd := &cobra.Command{
		Use:   "send NAME LINE",
		Short: "Hand a line to a server's console",
		Long: `Hands one line to the console that the server's profile declares, once. The receipt says what was handed over, not
what the server made of it: 'reconciler logs NAME' shows what it prints. A server that does not run, or is being stopped, gets
nothing: a line starts nothing, and is never kept for later.

It exits with 0 when the line was handed over, 1 when it was not, and 3 when nobody knows; it is not sent again then.`,
		Example: "  reconciler send town 'say the server restarts at noon'",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 2 {
				return hintf(usagef("%s takes one line", cmd.CommandPath()), "quote it: reconciler send %s '%s'", args[0], strings.Join(args[1:], " "))
			}
			return exactly(2, "the name of a server and a line")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			k, err := parseServer(args[0], scope.namespace)
			if err != nil {
				return err
			}
			if detail := spec.CheckLine(args[1]); detail != "" {
				return usagef("the line %s", detail)
			}
			return send(cmd.Context(), e, p, k, args[1])
		},
	}
	placeFlags(cmd, &p)
	namespaceFlag(cmd, &scope)
	return cmd
}

func send(ctx context.Context, e *env, p place, k spec.Key, line string) error {
	c, err := e.dial(p)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := present(ctx, c, e.note); err != nil {
		return err
	}
	r, err := handOver(ctx, c, k, api.Line{Line: line})
	if err != nil {
		return err
	}
	return printReceipt(e.stdout, k, r)
}

// handOver asks for a line to be handed over. Whoever does not hear the answer does not know.
func handOver(ctx context.Context, c *client.Client, k spec.Key, line api.Line) (r api.Receipt, err error) {
	err = c.Post(ctx, api.ObjectPath(api.Servers, k, api.VerbSend), line, &r)
	if errors.Is(err, client.ErrEnded) {
		return r, unknownLine(k)
	}
	return r, err
}

// printReceipt says what became of a line. What is no success is an error.
func printReceipt(w io.Writer, k spec.Key, r api.Receipt) error {
	if r.Reply != "" {
		fmt.Fprintln(w, strings.TrimRight(r.Reply, "\n"))
	}
	if err := failedReceipt(k, r); err != nil {
		return err
	}
	what := "handed over"
	if state.DeliveryResult(r.Result) == state.Done {
		what = "answered"
	}
	_, err := fmt.Fprintf(w, "%s %s (%s)\n", serverRef(k), what, r.Rail)
	return err
}

// failedReceipt is the error of a receipt, nil when the line was handed over and nothing failed.
func failedReceipt(k spec.Key, r api.Receipt) error {
	switch state.DeliveryResult(r.Result) {
	case state.Sent, state.Done:
		return nil
	case state.Undeliverable:
		return fmt.Errorf("%s: the line was not handed over: %s", serverRef(k), reasonText(r))
	case state.Failed:
		return fmt.Errorf("%s: the line was handed over and failed: %s", serverRef(k), reasonText(r))
	}
	return unknownLine(k)
}

func unknownLine(k spec.Key) error {
	return &exitError{exitUnknown, hintf(fmt.Errorf("%s: nobody knows whether the line was handed over; it is not sent again", serverRef(k)),
		"'reconciler describe server %s' and 'reconciler logs %s' may tell", k.Name, k.Name)}
}

func reasonText(r api.Receipt) string {
	if r.Message == "" {
		return or(r.Reason, "no reason is known")
	}
	return r.Message + " (" + r.Reason + ")"
}
