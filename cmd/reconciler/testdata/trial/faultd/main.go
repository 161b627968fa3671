// Command faultd is the awkward workloads by themselves: a hundred of them cost less memory and start sooner than as many copies of
// the test binary.
package main

import (
	"os"

	"reconciler.dev/reconciler/keeper/faultd"
)

func main() { os.Exit(faultd.Main(os.Args[1:])) }
