// Command reconciler keeps real processes as manifests declare them. See the package documentation of internal/cli for
// the rules of its output, and docs/ for what it does.
package main

import (
	"os"

	_ "reconciler.dev/reconciler/cmd/reconciler/internal/anchored" // a keeper is below an anchor
	"reconciler.dev/reconciler/cmd/reconciler/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:])) }
