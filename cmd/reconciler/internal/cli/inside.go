package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"reconciler.dev/reconciler/keeper"
	"reconciler.dev/reconciler/state"
)

// envNotifySocket is where a run finds its keeper: every run is given it, and it lies in the runtime directory.
const envNotifySocket = "NOTIFY_SOCKET"

// insideLayout is the place of the keeper whose run this process is in. That the environment names it proves nothing: the keeper
// asks the kernel.
func insideLayout(e *env, p place) (state.Layout, error) {
	if socket := e.getenv(envNotifySocket); p.state == "" && p.runtime == "" && filepath.IsAbs(socket) {
		p.runtime = filepath.Dir(socket)
		p.state = p.runtime // nothing is read there
	}
	return p.layout(e)
}

// insideError is what a person reads who asked from outside of a run.
func insideError(err error) error {
	if check, refused := keeper.IsRefused(err); refused && check == keeper.CheckInside {
		refusal := new(keeper.Refused)
		errors.As(err, &refusal)
		return hintf(errors.New(refusal.Detail), "this command is for the processes of a server: its main process, what that starts, and its commands")
	}
	return err
}

func newSelf(e *env) *cobra.Command {
	var p place
	var form string
	cmd := &cobra.Command{
		Use:   "self",
		Short: "From inside a run: print which server it is of",
		Long: `Prints which server, profile and run the calling process belongs to. The keeper asks the kernel (peer credentials, pidfd,
cgroup): no environment, directory or name makes a process part of a run.`,
		Args: exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error { return runSelf(cmd.Context(), e, p, form) },
	}
	placeFlags(cmd, &p)
	cmd.Flags().StringVarP(&form, "output", "o", "", "json or yaml")
	return cmd
}

// selfOf is what -o json and yaml print.
type selfOf struct {
	Namespace  string `json:"namespace"`
	Server     string `json:"server"`
	Profile    string `json:"profile"`
	UID        string `json:"uid"`
	Run        int64  `json:"run"`
	Generation int64  `json:"generation"`
}

func runSelf(ctx context.Context, e *env, p place, form string) error {
	out, err := parseOutput(form)
	if err != nil {
		return err
	}
	l, err := insideLayout(e, p)
	if err != nil {
		return err
	}
	in, err := keeper.Self(ctx, l, Version())
	if err != nil {
		return insideError(err)
	}
	if out.isTable() {
		_, err := fmt.Fprintf(e.stdout, "%s run %d of profile %s\n", serverRef(in.Scope.ServerKey()), in.Run, in.Scope.Profile)
		return err
	}
	raw, err := jsonOf(selfOf{in.Scope.Namespace, in.Scope.Server, in.Scope.Profile, in.UID, in.Run, in.Generation})
	if err != nil {
		return err
	}
	return out.print(e.stdout, raw)
}

func newNotify(e *env) *cobra.Command {
	var p place
	var ready bool
	cmd := &cobra.Command{
		Use:   "notify --ready | NAME=VALUE...",
		Short: "From inside a run: say that it is ready",
		Long: `Tells the keeper what the run says of itself, in the words of sd_notify(3): READY=1 makes a server Ready whose profile has
'readinessProbe: {notify: {}}', WATCHDOG=1 is a sign of life for 'livenessProbe: {notify: {}}'. It returns when the keeper has
heard it. A program that knows sd_notify needs no such command: every run is given a NOTIFY_SOCKET.`,
		Example: "  reconciler notify --ready",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 && !ready {
				return usagef("%s needs --ready or an assignment, READY=1 for example", cmd.CommandPath())
			}
			for _, a := range args {
				if name, _, ok := strings.Cut(a, "="); !ok || name == "" || strings.Contains(a, "\n") {
					return usagef("%q is no assignment of one line, NAME=VALUE", a)
				}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if ready {
				args = append(args, "READY=1")
			}
			l, err := insideLayout(e, p)
			if err != nil {
				return err
			}
			return insideError(keeper.Notify(cmd.Context(), l, Version(), keeper.Notice{Text: strings.Join(args, "\n")}))
		},
	}
	placeFlags(cmd, &p)
	cmd.Flags().BoolVar(&ready, "ready", false, "READY=1")
	return cmd
}

// inboxEvery is how often a watched mailbox is looked into.
const inboxEvery = time.Second

func newInbox(e *env) *cobra.Command {
	var p place
	var watch bool
	cmd := &cobra.Command{
		Use:   "inbox",
		Short: "From inside a run: take what was sent to the server",
		Long: `Prints the lines that were sent to the server and not fetched yet, oldest first, where its profile has 'console: {input:
Mailbox}'. A line is taken out of the mailbox before it is printed: it is given once.`,
		Example: "  reconciler inbox --watch",
		Args:    exactly(0, ""),
		RunE:    func(cmd *cobra.Command, _ []string) error { return runInbox(cmd.Context(), e, p, watch) },
	}
	placeFlags(cmd, &p)
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "go on with lines as they come")
	return cmd
}

func runInbox(ctx context.Context, e *env, p place, watch bool) error {
	l, err := insideLayout(e, p)
	if err != nil {
		return err
	}
	for {
		m, err := keeper.Inbox(ctx, l, Version())
		if _, refused := keeper.IsRefused(err); err != nil && (refused || !watch) {
			return insideError(err)
		} // else the keeper is being replaced
		for _, line := range m.Lines {
			if _, err := fmt.Fprintln(e.stdout, line); err != nil {
				return err
			}
		}
		if len(m.Lines) > 0 {
			continue // there may be more than fits into one answer
		}
		if !watch {
			return nil
		}
		select {
		case <-time.After(inboxEvery):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
