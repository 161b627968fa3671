package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// Main runs the command line args (without the program's name) and returns the exit code.
func Main(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return execute(ctx, hostEnv(), args)
}

// execute is Main with the world given.
func execute(ctx context.Context, e *env, args []string) int {
	root := newRootFor(e, args)
	if len(args) > 0 && habits[args[0]] != "" { // with flags of its own, which cobra would stumble over first
		return report(e.stderr, unknownCommand(root, args))
	}
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if errors.Is(err, syscall.EPIPE) {
		return 0 // the reader of our output has had enough
	}
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(ctx))) {
		return 130 // as a shell says of a command that SIGINT ended
	}
	return report(e.stderr, err)
}

// The groups in which help lists the commands.
const (
	groupRun  = "run"
	groupSee  = "see"
	groupAct  = "act"
	groupHost = "host"

	groupInside = "inside"
)

// newRootFor is the program with what its arguments need: a keeper lives for long beside everything else on its host, and is not
// to hold all the other commands, their flags and their texts in memory.
func newRootFor(e *env, args []string) *cobra.Command {
	if len(args) == 0 || args[0] != keeperName {
		return newRoot(e)
	}
	root := newEmptyRoot(e)
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(newKeeper(e))
	return root
}

// newEmptyRoot is the program without commands.
func newEmptyRoot(e *env) *cobra.Command {
	root := &cobra.Command{
		Use:   "reconciler",
		Short: "Keep real processes as manifests declare them",
		Long: `reconciler runs game servers, proxies and other long-running programs as YAML manifests in a directory declare
them: it starts what is there, restarts what ends, stops what is removed, and leaves all of it alone when it ends itself.`,
		Example: `  # see one run: write a manifest, start the reconciler on the directory, look
  reconciler example echo > manifests/echo.yaml
  reconciler run --manifests manifests
  reconciler get servers`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          unknownCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetIn(e.stdin)
	root.SetOut(e.stdout)
	root.SetErr(e.stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return hintf(usagef("%s", err), "see '%s --help'", cmd.CommandPath())
	})
	root.SuggestionsMinimumDistance = 2
	return root
}

func newRoot(e *env) *cobra.Command {
	root := newEmptyRoot(e)
	root.AddGroup(
		&cobra.Group{ID: groupRun, Title: "Run:"},
		&cobra.Group{ID: groupSee, Title: "See:"},
		&cobra.Group{ID: groupAct, Title: "Act:"},
		&cobra.Group{ID: groupInside, Title: "From inside a run:"},
		&cobra.Group{ID: groupHost, Title: "Look after:"},
	)
	add := func(group string, cmds ...*cobra.Command) {
		for _, c := range cmds {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add(groupRun, newRun(e), newShutdown(e), newKeeper(e), newExample(e), newValidate(e))
	add(groupSee, newGet(e), newDescribe(e), newWhy(e), newLogs(e), newHistory(e), newEvents(e), newWait(e))
	add(groupAct, newStart(e), newStop(e), newRestart(e), newRelease(e), newSend(e), newAttach(e), newDo(e), newCancel(e))
	add(groupInside, newSelf(e), newNotify(e), newInbox(e))
	add(groupHost, newPrune(e), newRetire(e), newDoctor(e), newVersion(e))
	root.SetHelpCommandGroupID(groupHost)
	root.SetCompletionCommandGroupID(groupHost)
	return root
}

// habits says what stands here for a command that somebody's fingers know from kubectl or a service manager.
var habits = map[string]string{
	"apply":    "put the file into the manifests directory: the reconciler watches it",
	"create":   "put the file into the manifests directory: the reconciler watches it; 'reconciler example' prints one to start from",
	"delete":   "remove the object from its file, or the file from the manifests directory; 'reconciler get servers -o wide' shows which file",
	"edit":     "edit the file in the manifests directory; 'reconciler get servers -o wide' shows which file",
	"patch":    "edit the file in the manifests directory; 'reconciler get servers -o wide' shows which file",
	"replace":  "edit the file in the manifests directory; 'reconciler get servers -o wide' shows which file",
	"label":    "labels are metadata in the object's file",
	"annotate": "annotations are metadata in the object's file",
	"scale":    "a Server is one process; for another copy add a Server of the same profile",
	"rollout":  "a change of a profile rolls by itself; 'reconciler restart NAME' restarts one, 'reconciler get servers -w' watches",
	"status":   "'reconciler get servers' lists, 'reconciler describe server NAME' tells all",
	"ps":       "'reconciler get servers' lists what runs",
	"kill":     "'reconciler stop NAME' stops gracefully; with --force the waits are skipped",
	"exec":     "'reconciler logs NAME -f' follows the output; nothing can be run beside a server in this version",
	"config":   "there is none: manifests are read from the directories given to 'reconciler run', the host's limits from --host-config",
	"enable":   "set 'state: Running' in the Server's manifest, or 'reconciler start NAME'",
	"disable":  "set 'state: Stopped' in the Server's manifest, or 'reconciler stop NAME'",
}

// unknownCommand refuses what is no command, with the nearest one or what a habit means here.
func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	err := usagef("unknown command %q for %q", args[0], cmd.CommandPath())
	if hint, ok := habits[args[0]]; ok {
		return hintf(err, "%s", hint)
	}
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		return hintf(err, "did you mean '%s %s'?", cmd.CommandPath(), strings.Join(near, "' or '"+cmd.CommandPath()+" "))
	}
	return hintf(err, "see '%s --help'", cmd.CommandPath())
}

// exactly refuses any other number of arguments; what names them for the message.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == n {
			return nil
		}
		if n == 0 {
			return usagef("%s takes no arguments, got %q", cmd.CommandPath(), args[0])
		}
		return hintf(usagef("%s needs %s", cmd.CommandPath(), what), "%s", cmd.UseLine())
	}
}

// atMost refuses more than n arguments.
func atMost(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) <= n {
			return nil
		}
		return usagef("%s takes at most %d arguments, got %d", cmd.CommandPath(), n, len(args))
	}
}
