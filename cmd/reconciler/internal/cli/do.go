package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"reconciler.dev/reconciler/cmd/reconciler/internal/api"
	"reconciler.dev/reconciler/cmd/reconciler/internal/client"
	"reconciler.dev/reconciler/spec"
)

func newDo(e *env) *cobra.Command {
	var p place
	var scope scopeFlags
	var flags jobFlags
	var name string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "do NAME COMMAND [KEY=VALUE]...",
		Short: "Carry out a command that a server's profile declares",
		Long: `Asks for a job that carries out one declared command, once, and waits for its end. What the command has written is printed,
the last 4 KiB of it. A command that there is not, a parameter that does not fit, or a server that is not as the command requires is
refused, and nothing is done.

It exits with 0 when the command succeeded, 1 when it did not, and 3 when nobody knows; it is not done again then.`,
		Example: "  reconciler do town save\n  reconciler do shop migrate to=7 --job migrate-7 --deadline 30m",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 {
				return hintf(usagef("%s needs the name of a server and of a command", cmd.CommandPath()), "%s", cmd.UseLine())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			k, err := parseServer(args[0], scope.namespace)
			if err != nil {
				return err
			}
			given, err := parseValues(args[2:])
			if err != nil {
				return err
			}
			switch {
			case timeout < 0:
				return usagef("--timeout %s: must be 0 or more", timeout)
			case !spec.IsLabel(args[1]):
				return usagef("%q is no command's name: 1 to 63 of a-z, 0-9 and '-', beginning and ending with a letter or digit", args[1])
			}
			if name == "" {
				name = jobName(k.Name, args[1])
			}
			c, err := e.dial(p)
			if err != nil {
				return err
			}
			defer c.Close()
			values, err := typed(cmd.Context(), c, k, args[1], given)
			if err != nil {
				return err
			}
			s := spec.JobSpec{Server: k.Name, Command: args[1], Parameters: values}
			return flags.run(cmd.Context(), e, c, spec.Key{Namespace: k.Namespace, Name: name}, s, timeout)
		},
	}
	placeFlags(cmd, &p)
	namespaceFlag(cmd, &scope)
	flags.add(cmd)
	cmd.Flags().StringVar(&name, "job", "", "the job's name; without it one is made up")
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "how long to wait for the end; the job goes on regardless; 0 = as long as it takes")
	return cmd
}

// parseValues reads KEY=VALUE arguments.
func parseValues(args []string) (map[string]string, error) {
	values := map[string]string{}
	for _, arg := range args {
		key, value, found := strings.Cut(arg, "=")
		if !found || key == "" {
			return nil, usagef("%q is no parameter: give KEY=VALUE", arg)
		}
		if _, twice := values[key]; twice {
			return nil, usagef("parameter %s is given twice", key)
		}
		values[key] = value
	}
	return values, nil
}

// typed gives each value the type that the server's profile declares for it. What there is not is left to be refused.
func typed(ctx context.Context, c *client.Client, k spec.Key, command string, given map[string]string) (map[string]spec.IntOrString, error) {
	if len(given) == 0 {
		return nil, nil
	}
	var s api.Server
	if err := c.Get(ctx, api.ObjectPath(api.Servers, k), nil, &s); err != nil {
		return nil, err
	}
	var p struct {
		Spec spec.ProfileSpec `json:"spec"`
	}
	var status *api.Status
	err := c.Get(ctx, api.ObjectPath(api.Profiles, spec.Key{Namespace: k.Namespace, Name: s.Spec.Profile}), nil, &p)
	if err != nil && !errors.As(err, &status) {
		return nil, err
	}
	declared := spec.LaunchCommand{}
	for _, c := range p.Spec.Actions.Commands {
		if c.Name == command {
			declared.Parameters = c.Parameters
		}
	}
	return declared.TextParameters(given), nil
}

// jobName makes up a name: the server's, the command's, and what tells it from others.
func jobName(server, command string) string {
	const most, random = 63, 5
	name := server + "-" + command
	name = strings.TrimRight(name[:min(len(name), most-random-1)], "-")
	return name + "-" + strings.ToLower(rand.Text()[:random])
}

func newCancel(e *env) *cobra.Command {
	var p place
	var scope scopeFlags
	cmd := &cobra.Command{
		Use:   "cancel NAME...",
		Short: "Withdraw jobs",
		Long: `What has not begun of a job does not begin. A command that is under way goes on until it ends or its own time is over; the
commands that follow it in any case are still done. A hold that a Start or Stop has set stays. A job that has ended stays as it is.`,
		Example: "  reconciler cancel job/shop-migrate-7",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return hintf(usagef("%s needs the name of a job", cmd.CommandPath()), "'reconciler get jobs' lists them")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := e.dial(p)
			if err != nil {
				return err
			}
			defer c.Close()
			for _, arg := range args {
				k, err := parseJob(arg, scope.namespace)
				if err != nil {
					return err
				}
				var j api.Job
				if err := c.Post(cmd.Context(), api.ObjectPath(api.Jobs, k, api.VerbCancel), nil, &j); err != nil {
					return err
				}
				word := "withdrawn"
				if j.Status.Phase.Over() && j.Status.Phase != spec.JobCancelled {
					word = "had ended (" + phaseText(j.Status) + ")"
				}
				fmt.Fprintf(e.stdout, "%s %s\n", ref(api.Jobs, k), word)
			}
			return nil
		},
	}
	placeFlags(cmd, &p)
	namespaceFlag(cmd, &scope)
	return cmd
}
