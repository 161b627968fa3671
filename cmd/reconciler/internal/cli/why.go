package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"reconciler.dev/reconciler/cmd/reconciler/internal/api"
	"reconciler.dev/reconciler/spec"
)

func newWhy(e *env) *cobra.Command {
	var p place
	var scope scopeFlags
	cmd := &cobra.Command{
		Use:     "why NAME",
		Short:   "Say in a few lines why a server is as it is",
		Example: "  reconciler why town",
		Args:    exactly(1, "the name of a server"),
		RunE: func(cmd *cobra.Command, args []string) error {
			k, err := parseServer(args[0], scope.namespace)
			if err != nil {
				return err
			}
			return runWhy(cmd.Context(), e, p, k)
		},
	}
	placeFlags(cmd, &p)
	namespaceFlag(cmd, &scope)
	return cmd
}

func runWhy(ctx context.Context, e *env, p place, k spec.Key) error {
	c, err := e.dial(p)
	if err != nil {
		return err
	}
	defer c.Close()
	var s api.Server
	if err := c.Get(ctx, api.ObjectPath(api.Servers, k), nil, &s); err != nil {
		return err
	}
	return writeWhy(e.stdout, k, s, e.now())
}

func writeWhy(w io.Writer, k spec.Key, s api.Server, now time.Time) error {
	st := s.Status
	var b strings.Builder
	fmt.Fprintf(&b, "%s is %s.\n", serverRef(k), stateText(st, now))
	switch h := st.Hold; {
	case h != nil:
		fmt.Fprintf(&b, "It is held %s.\n", holdSentence(h, now))
	case s.Metadata.DeletionTimestamp != nil:
		b.WriteString("It is in no manifest any more.\n")
	case s.Spec.State != "":
		fmt.Fprintf(&b, "Its manifest says %s.\n", s.Spec.State)
	}
	if x := st.LastExit; x != nil {
		fmt.Fprintf(&b, "Its last run ended %s ago: %s, %s", age(now, &x.FinishedAt), strings.ToLower(string(x.Class)), x.Reason)
		if end := endText(x); end != none {
			fmt.Fprintf(&b, ", %s", end)
		}
		if x.Class == spec.Unexpected && (st.State == spec.StateBackOff || st.State == spec.StateFailed) { // else the log is another run's
			fmt.Fprintf(&b, "; 'reconciler logs %s' shows what it has written", argOf(k))
		}
		b.WriteString(".\n")
	}
	for _, c := range st.Conditions {
		if !telling(c) {
			continue
		}
		fmt.Fprintf(&b, "%s is %s (%s)", c.Type, c.Status, c.Reason)
		if c.Message != "" {
			fmt.Fprintf(&b, ": %s", c.Message)
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// argOf is how a command is told of a server.
func argOf(k spec.Key) string {
	if k.Namespace == spec.DefaultNamespace {
		return k.Name
	}
	return k.Name + " -n " + k.Namespace
}

// telling reports whether a condition is not as it is when all is well.
func telling(c spec.Condition) bool {
	switch c.Type {
	case spec.ConditionCrashLoop, spec.ConditionRestartPending, spec.ConditionReconciling, spec.ConditionStalled:
		return c.Status != "False"
	case spec.ConditionEndpointsReachable:
		return c.Status == "False" || slices.Contains([]string{"AddressTooWide", "OpenProxy", "PortShared"}, c.Reason)
	}
	return c.Status != "True"
}
