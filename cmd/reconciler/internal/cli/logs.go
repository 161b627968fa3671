package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"reconciler.dev/reconciler/cmd/reconciler/internal/api"
)

type logsCommand struct {
	e          *env
	place      place
	scope      scopeFlags
	follow     bool
	previous   bool
	tail       int
	since      time.Duration
	timestamps bool
	stream     string
}

func newLogs(e *env) *cobra.Command {
	l := &logsCommand{e: e}
	cmd := &cobra.Command{
		Use:   "logs NAME",
		Short: "Print what a server has written",
		Long: `Prints what the last run of a server has written to stdout and stderr. With -f it goes on, into later runs too, until
it is interrupted.`,
		Example: "  reconciler logs town -f --tail 20\n  reconciler logs town --previous --since 1h --stream stderr",
		Args:    exactly(1, "the name of a server"),
		RunE:    func(cmd *cobra.Command, args []string) error { return l.run(cmd.Context(), args[0]) },
	}
	placeFlags(cmd, &l.place)
	namespaceFlag(cmd, &l.scope)
	f := cmd.Flags()
	f.BoolVarP(&l.follow, "follow", "f", false, "go on with lines as they are written")
	f.BoolVarP(&l.previous, "previous", "p", false, "the run before the last one")
	f.IntVar(&l.tail, "tail", -1, "only the last N lines; -1 = all")
	f.DurationVar(&l.since, "since", 0, "only lines younger than this, as in 10m; 0 = all")
	f.BoolVar(&l.timestamps, "timestamps", false, "the time of each line in front of it")
	f.StringVar(&l.stream, "stream", "", "stdout or stderr alone")
	return cmd
}

func (l *logsCommand) query() (url.Values, error) {
	q := url.Values{}
	switch {
	case l.tail < -1:
		return nil, usagef("--tail %d: must be 0 or more, or -1 for all lines", l.tail)
	case l.since < 0:
		return nil, usagef("--since %s: must be 0 or more", l.since)
	case l.stream != "" && l.stream != "stdout" && l.stream != "stderr":
		return nil, usagef("--stream %q: must be stdout or stderr", l.stream)
	case l.follow && l.previous:
		return nil, usagef("-f follows the last run; --previous is over: leave one of them out")
	}
	for name, on := range map[string]bool{api.QueryFollow: l.follow, api.QueryPrevious: l.previous, api.QueryTimestamps: l.timestamps} {
		if on {
			q.Set(name, "true")
		}
	}
	if l.tail >= 0 {
		q.Set(api.QueryTail, strconv.Itoa(l.tail))
	}
	if l.since > 0 {
		q.Set(api.QuerySince, strconv.FormatFloat(l.since.Seconds(), 'f', -1, 64))
	}
	if l.stream != "" {
		q.Set(api.QueryStream, l.stream)
	}
	return q, nil
}

func (l *logsCommand) run(ctx context.Context, name string) error {
	k, err := parseServer(name, l.scope.namespace)
	if err != nil {
		return err
	}
	q, err := l.query()
	if err != nil {
		return err
	}
	c, err := l.e.dial(l.place)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := present(ctx, c, l.e.note); err != nil {
		return err
	}
	body, err := c.Stream(ctx, api.ObjectPath(api.Servers, k, "log"), q)
	if err != nil {
		return err
	}
	defer body.Close()
	_, err = io.Copy(l.e.stdout, body)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, io.ErrUnexpectedEOF):
		return hintf(errors.New("the log was cut off: the reconciler has ended; what runs goes on"), "ask again; --since leaves out what you have seen")
	case err != nil:
		return fmt.Errorf("cannot read the log: %w", err)
	}
	return nil
}
