package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"reconciler.dev/reconciler/cmd/reconciler/internal/api"
	"reconciler.dev/reconciler/spec"
)

func newWait(e *env) *cobra.Command {
	var p place
	var scope scopeFlags
	var cond string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "wait server/NAME|job/NAME --for=CONDITION",
		Short: "Wait until a server or job is as it should be",
		Long: `Waits for one of:
  condition=TYPE[=STATUS]   a condition, True if no status is said
  delete                    the server is in no manifest and has no process any more
  jsonpath=TEMPLATE=VALUE   what the template prints of the object; without =VALUE, that it prints anything

A server that no manifest declares yet is waited for too, and so is a reconciler that does not run yet. Waiting for Ready ends at once, with the
reason, when the server's process ends before it was ready.
A job has the condition Succeeded; waiting for it ends at once when the job has ended in another way, with exit code 3 when nobody knows what became of it.`,
		Example: `  reconciler wait server/town --for=condition=Ready --timeout 2m
  reconciler wait job/town-save-1 --for=condition=Succeeded
  reconciler wait server/town --for=jsonpath='{.status.state}'=Stopped`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runWait(cmd.Context(), e, p, scope, args, cond, timeout)
		},
	}
	placeFlags(cmd, &p)
	namespaceFlag(cmd, &scope)
	cmd.Flags().StringVar(&cond, "for", "", "what to wait for")
	cmd.Flags().DurationVar(&timeout, "timeout", 30*time.Second, "how long to wait; 0 looks once, less than 0 waits a week")
	return cmd
}

func runWait(ctx context.Context, e *env, p place, scope scopeFlags, args []string, cond string, timeout time.Duration) error {
	if len(args) == 0 {
		return usagef("wait needs a server or a job: server/NAME or job/NAME")
	}
	if cond == "" {
		return usagef("wait needs --for: condition=Ready, delete or jsonpath=TEMPLATE=VALUE")
	}
	if strings.HasPrefix(strings.ToLower(args[0]), "job/") || strings.HasPrefix(strings.ToLower(args[0]), "jobs/") {
		return waitJobs(ctx, e, p, scope, args, cond, timeout)
	}
	judgeOf, err := parseCondition(cond)
	if err != nil {
		return err
	}
	if timeout < 0 {
		timeout = 7 * 24 * time.Hour
	}
	c, err := e.dial(p)
	if err != nil {
		return err
	}
	defer c.Close()
	w := &waiter{e: e, client: c, namespace: scope.namespace, timeout: timeout, once: timeout == 0, awaits: true, whole: strings.HasPrefix(cond, "jsonpath")}
	for _, arg := range args {
		k, err := parseServer(arg, scope.namespace)
		if err != nil {
			return err
		}
		w.add(k, judgeOf(k, e.now()), func() { fmt.Fprintf(e.stdout, "%s condition met\n", serverRef(k)) })
	}
	return w.run(ctx)
}

// parseCondition reads --for. What it returns makes the judge of one server, since a moment.
func parseCondition(text string) (func(spec.Key, time.Time) judge, error) {
	kind, rest, _ := strings.Cut(text, "=")
	switch kind {
	case "delete":
		if rest != "" {
			return nil, usagef("--for=delete takes no value")
		}
		return waitDelete, nil
	case "condition":
		name, status, found := strings.Cut(rest, "=")
		if !found {
			status = "True"
		}
		name, err := conditionName(name)
		if err != nil {
			return nil, err
		}
		return func(k spec.Key, since time.Time) judge { return waitCondition(k, since, name, status) }, nil
	case "jsonpath":
		return parsePathCondition(rest)
	}
	return nil, usagef("cannot wait for %q: --for takes condition=TYPE[=STATUS], delete or jsonpath=TEMPLATE=VALUE", text)
}

func conditionName(name string) (string, error) {
	for _, t := range spec.ConditionTypes {
		if strings.EqualFold(t, name) {
			return t, nil
		}
	}
	return "", usagef("unknown condition %q; the conditions are %s", name, strings.Join(spec.ConditionTypes, ", "))
}

func waitDelete(spec.Key, time.Time) judge {
	return func(s *api.Server, _ json.RawMessage) (verdict, error) {
		if s == nil {
			return reached, nil
		}
		return notYet, nil
	}
}

func waitCondition(k spec.Key, since time.Time, name, status string) judge {
	return onceThere(k, func(s *api.Server, _ json.RawMessage) (verdict, error) {
		if strings.EqualFold(conditionStatus(s.Status, name), status) {
			return reached, nil
		}
		if name != spec.ConditionReady || !strings.EqualFold(status, "True") {
			return notYet, nil
		}
		if err := endedSince(k, s.Status, since); err != nil {
			return missed, err
		}
		return notYet, nil
	})
}

// onceThere judges a server from the moment that it is there: a manifest that was just dropped is on its way. One that
// goes while it is waited for is a miss.
func onceThere(k spec.Key, of judge) judge {
	there := false
	return func(s *api.Server, raw json.RawMessage) (verdict, error) {
		if s != nil {
			there = true
			return of(s, raw)
		}
		if there {
			return missed, notFoundHere(k)
		}
		return notYet, nil
	}
}

func parsePathCondition(rest string) (func(spec.Key, time.Time) judge, error) {
	of, err := parsePath(rest)
	if err != nil {
		return nil, err
	}
	return func(k spec.Key, _ time.Time) judge {
		return onceThere(k, func(_ *api.Server, raw json.RawMessage) (verdict, error) { return of(raw) })
	}, nil
}

// parsePath reads TEMPLATE or TEMPLATE=VALUE, and judges any object by it.
func parsePath(rest string) (func(json.RawMessage) (verdict, error), error) {
	template, value, hasValue := rest, "", false
	// The value follows the last brace, so that a filter's own == is left alone; without braces it follows the first =.
	if end := strings.LastIndex(rest, "}"); end >= 0 {
		template = rest[:end+1]
		value, hasValue = strings.CutPrefix(rest[end+1:], "=")
		if !hasValue && rest[end+1:] != "" {
			return nil, usagef("cannot wait for jsonpath=%q: the value follows the template and a =", rest)
		}
	} else {
		template, value, hasValue = strings.Cut(rest, "=")
	}
	path, err := parseJSONPath(template)
	if err != nil {
		return nil, err
	}
	return func(raw json.RawMessage) (verdict, error) {
		got, err := evalPath(path, raw)
		if err != nil {
			return missed, err
		}
		if hasValue && got == value || !hasValue && got != "" {
			return reached, nil
		}
		return notYet, nil
	}, nil
}

// notFoundHere is what the reconciler says of a server that it does not know.
func notFoundHere(k spec.Key) error { return api.NotFound(api.Servers, k.Name) }
