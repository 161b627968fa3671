// Package anchored makes a process that is started as the keeper its anchor first, which starts the keeper proper below it
// (keeper/anchor).
//
// It does so while the program is being initialised, before main. Go initialises packages in the order of their import paths
// as far as their own imports allow, so that this one, which imports next to nothing, comes before all that is large: at that point a process
// has done a quarter of the program's start and has a third of its memory, and an anchor needs no more. (keeper/anchor's tests see to it
// that its imports stay small.)
package anchored

import (
	"os"

	"reconciler.dev/reconciler/keeper/anchor"
)

func init() {
	if len(os.Args) > 1 && os.Args[1] == "keeper" {
		anchor.Enter()
	}
}
