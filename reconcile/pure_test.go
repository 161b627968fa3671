package reconcile

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"testing"
)

// What decides knows neither a clock nor the host: it is a function of what it is given.
func TestDecidingIsPure(t *testing.T) {
	files := []string{"plan.go", "wish.go", "backoff.go", "ladder.go", "rollout.go", "ready.go", "listening.go", "status.go", "conditions.go", "attempt.go", "memory.go", "tell.go", "jobplan.go", "jobcommand.go", "jobmemory.go"}
	allowed := []string{
		"cmp", "errors", "fmt", "hash/fnv", "slices", "strconv", "strings", "time",
		"reconciler.dev/reconciler/observe", "reconciler.dev/reconciler/observe/probe", "reconciler.dev/reconciler/spec", "reconciler.dev/reconciler/state",
	}
	clock := []string{"Now", "Since", "Until", "After", "AfterFunc", "Sleep", "Tick", "NewTimer", "NewTicker"}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range file.Imports {
			if path, _ := strconv.Unquote(i.Path.Value); !slices.Contains(allowed, path) {
				t.Errorf("%s imports %s", name, path)
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains(clock, s.Sel.Name) {
					t.Errorf("%s calls time.%s", name, s.Sel.Name)
				}
			}
			return true
		})
	}
}
