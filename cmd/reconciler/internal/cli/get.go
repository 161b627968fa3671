package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"reconciler.dev/reconciler/cmd/reconciler/internal/api"
	"reconciler.dev/reconciler/cmd/reconciler/internal/client"
)

type getCommand struct {
	e        *env
	place    place
	scope    scopeFlags
	out      string
	selector string
	watch    bool
	headless bool
}

func newGet(e *env) *cobra.Command {
	g := &getCommand{e: e}
	cmd := &cobra.Command{
		Use:   "get servers|profiles|jobs|holds|sources [NAME]",
		Short: "List what is there, and in which state",
		Long: `Lists servers, profiles, jobs (actions that are asked for once), holds (what people asked for over a manifest) or
sources (the directories, their files and their faults). What a manifest said is under spec in -o yaml and -o json, with the defaults that were filled in.`,
		Example: `  reconciler get servers -o wide
  reconciler get server/town -o yaml
  reconciler get servers -l game=openttd -w
  reconciler get servers town -o jsonpath='{.status.state}'`,
		ValidArgs: []string{"servers", "profiles", "jobs", "holds", "sources"},
		RunE:      func(cmd *cobra.Command, args []string) error { return g.run(cmd.Context(), args) },
	}
	placeFlags(cmd, &g.place)
	namespaceFlag(cmd, &g.scope)
	allNamespacesFlag(cmd, &g.scope)
	cmd.Flags().StringVarP(&g.out, "output", "o", "", "form of the output: "+outputForms)
	cmd.Flags().StringVarP(&g.selector, "selector", "l", "", "labels to select by, as in game=openttd,tier!=test")
	cmd.Flags().BoolVarP(&g.watch, "watch", "w", false, "go on and show every change")
	cmd.Flags().BoolVar(&g.headless, "no-headers", false, "leave the headers out")
	return cmd
}

// target is what was asked for: a resource, and names of it or all.
func (g *getCommand) target(args []string) (resource string, names []string, err error) {
	if len(args) == 0 {
		return "", nil, hintf(usagef("get needs a resource: %s", resourceNames), "'reconciler get servers' lists what runs")
	}
	if kind, name, found := strings.Cut(args[0], "/"); found {
		if len(args) > 1 {
			return "", nil, usagef("get takes one TYPE/NAME, or one type and names after it")
		}
		resource, err = parseResource(kind)
		return resource, []string{name}, err
	}
	resource, err = parseResource(args[0])
	return resource, args[1:], err
}

func (g *getCommand) run(ctx context.Context, args []string) error {
	resource, names, err := g.target(args)
	if err != nil {
		return err
	}
	out, err := parseOutput(g.out)
	if err != nil {
		return err
	}
	switch {
	case len(names) > 0 && (g.selector != "" || g.scope.all):
		return usagef("a name cannot be given together with -l or -A")
	case len(names) > 1 && g.watch:
		return usagef("-w watches one name, or all of a type")
	}
	c, err := g.e.dial(g.place)
	if err != nil {
		return err
	}
	defer c.Close()
	if g.watch {
		return g.follow(ctx, c, resource, names, out)
	}
	if len(names) > 0 {
		return g.some(ctx, c, resource, names, out)
	}
	return g.list(ctx, c, resource, out)
}

func (g *getCommand) query(out output) url.Values {
	q := url.Values{}
	if out.isTable() || out.form == "name" {
		q.Set(api.QueryView, api.ViewSummary)
	}
	if g.selector != "" {
		q.Set(api.QuerySelector, g.selector)
	}
	return q
}

// some prints the named objects: one as itself, several as a List.
func (g *getCommand) some(ctx context.Context, c *client.Client, resource string, names []string, out output) error {
	var items []json.RawMessage
	for _, name := range names {
		k, err := key(g.scope.namespace, name)
		if err != nil && resource != api.Sources {
			return err
		}
		k.Name = name
		var obj json.RawMessage
		if err := c.Get(ctx, api.ObjectPath(resource, k), g.query(out), &obj); err != nil {
			return err
		}
		items = append(items, obj)
	}
	if out.isTable() {
		return g.printTable(resource, items, out)
	}
	if len(items) == 1 {
		return out.print(g.e.stdout, items[0])
	}
	list, err := listOf(items)
	if err != nil {
		return err
	}
	return out.print(g.e.stdout, list)
}

func (g *getCommand) list(ctx context.Context, c *client.Client, resource string, out output) error {
	var warnings []string
	c.Warn = func(text string) { warnings = append(warnings, text) }
	var raw json.RawMessage
	if err := c.Get(ctx, api.ListPath(resource, g.scope.list()), g.query(out), &raw); err != nil {
		return err
	}
	if !out.isTable() {
		return out.print(g.e.stdout, raw)
	}
	defer func() { // below the table, and not of it
		for _, text := range warnings {
			fmt.Fprintf(g.e.stderr, "Warning: %s\n", text)
		}
	}()
	var list api.List
	if err := json.Unmarshal(raw, &list); err != nil {
		return fmt.Errorf("cannot read the answer: %w", err)
	}
	if len(list.Items) == 0 {
		g.empty(resource)
		return nil
	}
	return g.printTable(resource, list.Items, out)
}

// empty says that there is nothing, and what to do about it.
func (g *getCommand) empty(resource string) {
	where := ""
	if !g.scope.all && resource != api.Sources {
		where = " in " + g.scope.namespace + " namespace"
	}
	fmt.Fprintf(g.e.stderr, "No %s found%s.\n", resource, where)
	switch {
	case g.selector != "":
		fmt.Fprintf(g.e.stderr, "hint: nothing has the labels %q; leave -l out to see all\n", g.selector)
	case resource == api.Jobs:
		fmt.Fprintln(g.e.stderr, "hint: 'reconciler do NAME COMMAND' asks for one, as a manifest of kind Job does")
	case resource == api.Servers || resource == api.Profiles:
		fmt.Fprintln(g.e.stderr, "hint: put a manifest into the watched directory; 'reconciler example' prints one to start from, 'reconciler get sources' shows what was read")
	}
}

func (g *getCommand) printTable(resource string, items []json.RawMessage, out output) error {
	t, err := tableFor(resource, items, tableOptions{wide: out.form == "wide", namespaces: g.scope.all, now: g.e.now()})
	if err != nil {
		return err
	}
	if err := t.print(g.e.stdout, !g.headless); err != nil {
		return err
	}
	if resource == api.Sources {
		return printSourceFiles(g.e.stdout, items, g.headless)
	}
	return nil
}

// follow prints what is there and then every change.
func (g *getCommand) follow(ctx context.Context, c *client.Client, resource string, names []string, out output) error {
	path := api.ListPath(resource, g.scope.list())
	if len(names) == 1 {
		k, err := key(g.scope.namespace, names[0])
		if err != nil && resource != api.Sources {
			return err
		}
		k.Name = names[0]
		path = api.ObjectPath(resource, k)
	}
	p := &watchPrinter{g: g, resource: resource, out: out}
	err := c.Watch(ctx, path, g.query(out), func(ev api.WatchEvent) error { return p.event(ev) })
	if err == io.EOF {
		return errWatchEnded
	}
	return err
}

// watchPrinter prints events under one header, with columns that only ever grow.
type watchPrinter struct {
	g        *getCommand
	resource string
	out      output
	widths   []int
	printed  int
}

func (p *watchPrinter) event(ev api.WatchEvent) error {
	switch {
	case ev.Type == api.Bookmark:
		return nil
	case !p.out.isTable():
		return p.out.printNext(p.g.e.stdout, ev.Object, &p.printed)
	}
	opts := tableOptions{wide: p.out.form == "wide", namespaces: p.g.scope.all, now: p.g.e.now(), keepAll: true}
	t, err := tableFor(p.resource, []json.RawMessage{ev.Object}, opts)
	if err != nil {
		return err
	}
	if ev.Type == api.Deleted {
		t.mark("STATE", "Removed")
	}
	header := p.widths == nil && !p.g.headless
	t.widths = p.widths
	if err := t.print(p.g.e.stdout, header); err != nil {
		return err
	}
	p.widths = t.widths
	return nil
}
