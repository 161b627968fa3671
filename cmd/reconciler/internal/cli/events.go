package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"reconciler.dev/reconciler/cmd/reconciler/internal/api"
)

func newEvents(e *env) *cobra.Command {
	var p place
	var scope scopeFlags
	var watch bool
	var out string
	cmd := &cobra.Command{
		Use:     "events [NAME]",
		Short:   "List what happened, newest last",
		Example: "  reconciler events\n  reconciler events town -w",
		Args:    atMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runEvents(cmd.Context(), e, p, scope, args, watch, out)
		},
	}
	placeFlags(cmd, &p)
	namespaceFlag(cmd, &scope)
	allNamespacesFlag(cmd, &scope)
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "go on and show every event")
	cmd.Flags().StringVarP(&out, "output", "o", "", "form of the output: "+outputForms)
	return cmd
}

func runEvents(ctx context.Context, e *env, p place, scope scopeFlags, args []string, watch bool, form string) error {
	out, err := parseOutput(form)
	if err != nil {
		return err
	}
	q := url.Values{}
	if len(args) == 1 {
		k, err := parseServer(args[0], scope.namespace)
		if err != nil {
			return err
		}
		if scope.all {
			return usagef("a name cannot be given together with -A")
		}
		q.Set(api.QueryName, k.Name)
	}
	c, err := e.dial(p)
	if err != nil {
		return err
	}
	defer c.Close()
	path := api.ListPath(api.Events, scope.list())
	if watch {
		pr := eventPrinter{e: e, out: out, all: scope.all}
		err := c.Watch(ctx, path, q, pr.event)
		if err == io.EOF {
			return errWatchEnded
		}
		return err
	}
	var raw json.RawMessage
	if err := c.Get(ctx, path, q, &raw); err != nil {
		return err
	}
	if !out.isTable() {
		return out.print(e.stdout, raw)
	}
	var list api.EventList
	if err := json.Unmarshal(raw, &list); err != nil {
		return fmt.Errorf("cannot read the answer: %w", err)
	}
	if len(list.Items) == 0 {
		fmt.Fprintln(e.stderr, "No events found.")
		return nil
	}
	t := eventTable(list.Items, scope.all, e.now())
	return t.print(e.stdout, true)
}

var errWatchEnded = fmt.Errorf("the reconciler has ended the watch; what it runs goes on without it")

func eventTable(events []api.Event, namespaces bool, now time.Time) *table {
	t := &table{header: []string{"NAMESPACE", "LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"}}
	for _, ev := range events {
		object := "server/" + ev.InvolvedObject.Name
		t.add(ev.Metadata.Key().Namespace, eventAge(ev, now), ev.Type, ev.Reason, object, ev.Message)
	}
	if !namespaces {
		t.drop("NAMESPACE")
	}
	return t
}

// eventAge is when it was seen last, and how often: "5s (x3 over 2m)".
func eventAge(ev api.Event, now time.Time) string {
	last := age(now, &ev.LastTimestamp)
	if ev.Count < 2 {
		return last
	}
	return last + " (x" + strconv.Itoa(ev.Count) + " over " + age(now, &ev.FirstTimestamp) + ")"
}

type eventPrinter struct {
	e       *env
	out     output
	all     bool
	widths  []int
	printed int
}

func (p *eventPrinter) event(w api.WatchEvent) error {
	switch {
	case w.Type == api.Deleted || w.Type == api.Bookmark:
		return nil
	case !p.out.isTable():
		return p.out.printNext(p.e.stdout, w.Object, &p.printed)
	}
	var ev api.Event
	if err := json.Unmarshal(w.Object, &ev); err != nil {
		return fmt.Errorf("cannot read the answer: %w", err)
	}
	t := eventTable([]api.Event{ev}, p.all, p.e.now())
	header := p.widths == nil
	t.widths = p.widths
	err := t.print(p.e.stdout, header)
	p.widths = t.widths
	return err
}
