package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"reconciler.dev/reconciler/cmd/reconciler/internal/api"
	"reconciler.dev/reconciler/cmd/reconciler/internal/client"
	"reconciler.dev/reconciler/spec"
)

// actCommand is start, stop, restart or release: an order to one server or many, and the waiting for its effect.
type actCommand struct {
	e        *env
	verb     string
	place    place
	scope    scopeFlags
	selector string
	all      bool
	reason   string
	hold     time.Duration
	timeout  time.Duration
	force    bool
	job      string // its name; "" = it is none
	jobFlags jobFlags
}

func newStart(e *env) *cobra.Command {
	a := &actCommand{e: e, verb: api.VerbStart}
	cmd := a.command("Let servers run, over a hold or a manifest that says Stopped",
		`Ends a hold, and where the manifest says Stopped sets the hold Running. Waits until the servers are Ready.`)
	a.holdFlag(cmd)
	return cmd
}

func newStop(e *env) *cobra.Command {
	a := &actCommand{e: e, verb: api.VerbStop}
	cmd := a.command("Stop servers gracefully and hold them stopped",
		`Sets the hold Stopped, over what the manifest says, until 'start', 'release' or the time of --for. Each server is
stopped along its profile's ladder. Waits until they are Stopped; a server that is stopped already is a success.`)
	a.holdFlag(cmd)
	a.forceFlag(cmd)
	return cmd
}

func newRestart(e *env) *cobra.Command {
	a := &actCommand{e: e, verb: api.VerbRestart}
	cmd := a.command("Replace the servers' runs by new ones",
		`Stops each server along its profile's ladder and starts it again, once. Waits until they are Ready.`)
	a.forceFlag(cmd)
	return cmd
}

func newRelease(e *env) *cobra.Command {
	a := &actCommand{e: e, verb: api.VerbRelease}
	return a.command("End holds: what the manifests say counts again",
		`Ends what 'stop' or 'start' has set over the manifest. It does not wait; 'reconciler wait' does.`)
}

func (a *actCommand) command(short, long string) *cobra.Command {
	cmd := &cobra.Command{
		Use:     a.verb + " NAME...",
		Short:   short,
		Long:    long,
		Example: fmt.Sprintf("  reconciler %[1]s town\n  reconciler %[1]s -l game=openttd --reason 'host maintenance'", a.verb),
		RunE:    func(cmd *cobra.Command, args []string) error { return a.run(cmd.Context(), args) },
	}
	f := cmd.Flags()
	placeFlags(cmd, &a.place)
	namespaceFlag(cmd, &a.scope)
	f.StringVarP(&a.selector, "selector", "l", "", "the servers with these labels")
	f.BoolVar(&a.all, "all", false, "all servers of the namespace")
	f.StringVar(&a.reason, "reason", "", "why, in your words; kept with the action and shown")
	if a.verb != api.VerbRelease {
		f.StringVar(&a.job, "job", "", "do it as a job of this name: 'get jobs' shows it, 'wait' waits for it, 'cancel' withdraws it")
		a.jobFlags.add(cmd)
		f.DurationVar(&a.timeout, "timeout", 0, "how long to wait for the effect, which goes on regardless; 0 = as long as it takes")
	}
	return cmd
}

func (a *actCommand) holdFlag(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&a.hold, "for", 0, "how long the hold lasts, as in 30m; 0 = until it is released")
}

func (a *actCommand) forceFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&a.force, "force", false, "skip the waits of the stop ladder: kill at once")
}

func (a *actCommand) check(args []string) error {
	ways := 0
	for _, used := range []bool{len(args) > 0, a.selector != "", a.all} {
		if used {
			ways++
		}
	}
	switch {
	case ways == 0:
		return hintf(usagef("%s needs a server: NAME, -l SELECTOR or --all", a.verb), "'reconciler get servers' lists them")
	case ways > 1:
		return usagef("%s takes names, -l or --all, only one of them", a.verb)
	case a.hold < 0 || a.hold%time.Second != 0:
		return usagef("--for %s: a hold lasts whole seconds, 0 or more", a.hold)
	case a.timeout < 0:
		return usagef("--timeout %s: must be 0 or more", a.timeout)
	case a.job != "" && (a.selector != "" || a.all || len(args) > 1):
		return usagef("--job is about one server")
	case a.job != "" && (a.hold > 0 || a.force || a.reason != ""):
		return usagef("a job takes no --for, --force or --reason")
	case a.job == "" && a.jobFlags.given():
		return usagef("--profile and --deadline are of a job: give it a name with --job")
	case len(a.reason) > api.MaxReason:
		return usagef("--reason has %d bytes, %d is the most", len(a.reason), api.MaxReason)
	}
	return nil
}

func (a *actCommand) run(ctx context.Context, args []string) error {
	if err := a.check(args); err != nil {
		return err
	}
	if a.timeout > 0 { // the time runs from here: a reconciler that does not take the order is waited for no longer
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, a.timeout)
		defer cancel()
	}
	c, err := a.e.dial(a.place)
	if err != nil {
		return err
	}
	defer c.Close()
	keys, err := a.targets(ctx, c, args)
	if err != nil {
		return a.explain(err)
	}
	if a.job != "" {
		s := spec.JobSpec{Server: keys[0].Name, Type: jobTypes[a.verb]}
		return a.explain(a.jobFlags.run(ctx, a.e, c, spec.Key{Namespace: keys[0].Namespace, Name: a.job}, s, a.timeout))
	}
	order := api.Order{Reason: a.reason, ForSeconds: int64(a.hold / time.Second), Force: a.force}
	goals := make([]*goal, 0, len(keys))
	for _, k := range keys {
		var out api.Outcome
		if err := c.Post(ctx, api.ObjectPath(api.Servers, k, a.verb), order, &out); err != nil {
			return a.explain(err)
		}
		goals = append(goals, newGoal(a.verb, k, out, a.e.now()))
	}
	if a.verb == api.VerbRelease {
		return a.released(goals)
	}
	return a.await(ctx, c, goals)
}

// explain says of an order that was not answered before the time was over that nobody knows what became of it.
func (a *actCommand) explain(err error) error {
	if a.timeout == 0 || !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return hintf(fmt.Errorf("timed out: %w", client.ErrUnresponsive), "whether the %s was taken is not known: 'reconciler get servers' shows it once it answers", a.verb)
}

func (a *actCommand) targets(ctx context.Context, c *client.Client, args []string) ([]spec.Key, error) {
	var keys []spec.Key
	for _, arg := range args {
		k, err := parseServer(arg, a.scope.namespace)
		if err != nil {
			return nil, err
		}
		keys = append(keys, k)
	}
	if len(args) > 0 {
		return keys, nil
	}
	q := url.Values{api.QueryView: {api.ViewSummary}}
	if a.selector != "" {
		q.Set(api.QuerySelector, a.selector)
	}
	var list api.ServerList
	if err := c.Get(ctx, api.ListPath(api.Servers, a.scope.namespace), q, &list); err != nil {
		return nil, err
	}
	for _, s := range list.Items {
		keys = append(keys, s.Metadata.Key())
	}
	if len(keys) == 0 && a.selector != "" {
		return nil, fmt.Errorf("no server in namespace %s has the labels %q", a.scope.namespace, a.selector)
	}
	return sorted(keys), nil
}

func (a *actCommand) released(goals []*goal) error {
	for _, g := range goals {
		word := "released"
		if g.outcome.Unchanged {
			word = "had no hold"
		}
		fmt.Fprintf(a.e.stdout, "%s %s\n", serverRef(g.key), word)
	}
	return nil
}

// await prints each server as it gets where it was sent, and fails if one does not.
func (a *actCommand) await(ctx context.Context, c *client.Client, goals []*goal) error {
	wait := &waiter{e: a.e, client: c, namespace: a.scope.namespace, timeout: a.timeout}
	for _, g := range goals {
		wait.add(g.key, func(s *api.Server, _ json.RawMessage) (verdict, error) { return g.judge(s) }, func() { fmt.Fprintf(a.e.stdout, "%s %s\n", serverRef(g.key), g.word()) })
	}
	err := wait.run(ctx)
	if timeout, ok := err.(*timeoutError); ok {
		timeout.what = a.verb
		return hintf(timeout, "the %s goes on; 'reconciler describe server %s' says what it waits for", a.verb, timeout.keys[0].Name)
	}
	return err
}
