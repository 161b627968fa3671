package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"reconciler.dev/reconciler/cmd/reconciler/internal/api"
)

func newRetire(e *env) *cobra.Command {
	var p place
	var scope scopeFlags
	cmd := &cobra.Command{
		Use:   "retire NAME",
		Short: "Set aside the records of a server that is gone, or that cannot be used",
		Long: `Takes the records of a removed server out of the archive, and those of a Blocked one, whose record cannot be read,
out of the way. Nothing is signalled. It is refused as long as something of the server may run.`,
		Args: exactly(1, "the name of a server"),
		RunE: func(cmd *cobra.Command, args []string) error {
			k, err := parseServer(args[0], scope.namespace)
			if err != nil {
				return err
			}
			c, err := e.dial(p)
			if err != nil {
				return err
			}
			defer c.Close()
			if err := c.Post(cmd.Context(), api.ObjectPath(api.Servers, k, api.VerbRetire), nil, nil); err != nil {
				return err
			}
			fmt.Fprintf(e.stdout, "%s retired\n", serverRef(k))
			return nil
		},
	}
	placeFlags(cmd, &p)
	namespaceFlag(cmd, &scope)
	return cmd
}
