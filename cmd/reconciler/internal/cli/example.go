package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"reconciler.dev/reconciler/manifests/examples"
)

func newExample(e *env) *cobra.Command {
	return &cobra.Command{
		Use:   "example [NAME]",
		Short: "Print a complete manifest to start from",
		Long: fmt.Sprintf("Prints one of the manifests that come with this program, %q if none is named.\n\nThere are: %s.",
			examples.Default, strings.Join(examples.Names(), ", ")),
		Example:   "  reconciler example > manifests/echo.yaml\n  reconciler example openttd",
		Args:      atMost(1),
		ValidArgs: examples.Names(),
		RunE: func(_ *cobra.Command, args []string) error {
			name := examples.Default
			if len(args) == 1 {
				name = args[0]
			}
			text, ok := examples.Get(name)
			if !ok {
				return fmt.Errorf("there is no example %q; there are %s", name, strings.Join(examples.Names(), ", "))
			}
			_, err := e.stdout.Write(text)
			return err
		},
	}
}
