package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"reconciler.dev/reconciler/manifests/examples"
)

// notShipped are directories whose code is in no program but a test's.
var notShipped = map[string]bool{"testdata": true, "demo": true, "faultd": true, "keepertest": true, "proctest": true, "apitest": true, "sim": true, "crdtest": true}

// eachShipped calls see with every node of every file that the product is built of.
func eachShipped(t *testing.T, see func(at string, n ast.Node)) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		rel, relErr := filepath.Rel(root, path)
		switch {
		case err != nil || relErr != nil:
			return err
		case d.IsDir() && rel != "." && (strings.HasPrefix(d.Name(), ".") || notShipped[d.Name()]):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(rel) != ".go" || strings.HasSuffix(rel, "_test.go"):
			return nil
		}
		files++
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if n != nil {
				see(rel+":"+strconv.Itoa(set.Position(n.Pos()).Line), n)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 100 {
		t.Fatalf("only %d files were seen", files)
	}
}

// EN-15: nothing is decided by the name of a kind of server, or by what class it is of.
func TestNoServerIsSpecial(t *testing.T) {
	special := map[string]bool{"game": true, "proxy": true}
	for _, name := range examples.Names() {
		special[name] = true
	}
	delete(special, "echo") // a word of its own
	if len(special) < 8 {
		t.Fatalf("only %d names", len(special))
	}
	eachShipped(t, func(at string, n ast.Node) {
		var compared []ast.Expr
		switch n := n.(type) {
		case *ast.BinaryExpr:
			if n.Op == token.EQL || n.Op == token.NEQ {
				compared = []ast.Expr{n.X, n.Y}
			}
		case *ast.CaseClause:
			compared = n.List
		case *ast.KeyValueExpr:
			compared = []ast.Expr{n.Key}
		case *ast.IndexExpr:
			compared = []ast.Expr{n.Index}
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.SelectorExpr); ok && isName(f.X, "strings") {
				compared = n.Args
			}
		}
		for _, e := range compared {
			if text, ok := textOf(e); ok && special[text] {
				t.Errorf("%s: something is decided by the name %q", at, text)
			}
		}
	})
}

// EN-14: a command has one name, and none is hidden from the help that [TestSurface] reads.
func TestEveryCommandHasOneName(t *testing.T) {
	second := map[string]bool{"Aliases": true, "Hidden": true, "SuggestFor": true}
	eachShipped(t, func(at string, n ast.Node) {
		if !strings.HasPrefix(at, "cmd/") {
			return
		}
		switch n := n.(type) {
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok && second[key.Name] {
				t.Errorf("%s: a command has %s", at, key.Name)
			}
		case *ast.SelectorExpr:
			if second[n.Sel.Name] {
				t.Errorf("%s: a command has %s", at, n.Sel.Name)
			}
		}
	})
}

// DC-4: the top of the project is what the design card says.
func TestTopOfTheProject(t *testing.T) {
	for _, name := range []string{
		"go.mod", "go.sum", "cmd/reconciler/main.go", "spec/doc.go", "reconcile/doc.go", "observe/facts.go", "state/doc.go", "manifests/examples/echo.yaml",
		"metrics/doc.go", "README.md", "keeper/doc.go", "docs/design.md",
	} {
		if _, err := os.Stat(filepath.Join(root, name)); err != nil {
			t.Error(err)
		}
	}
}

func isName(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}

// textOf is the text of a string in the source.
func textOf(e ast.Expr) (string, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(lit.Value)
	return text, err == nil
}
