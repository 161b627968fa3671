package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const guaranteesPage = "docs/guarantees.md"

// promise is a row of a table of the page about guarantees.
type promise struct {
	line  int
	id    string
	proof string
	weak  string
}

var (
	promiseID = regexp.MustCompile(`^(I|EC-|BP-|EN-|DC-|S|D)\d+$`)
	quoted    = regexp.MustCompile("`([^`]*)`")
	proofForm = regexp.MustCompile(`^(?:(([a-z0-9]+/)*[a-z0-9]+)\.((?:Test|Benchmark|Fuzz)\w+)|([a-z-]+\.txtar))$`)
)

// notYet begins, in the cell of a proof, what nothing shows.
const notYet = "Not yet:"

// promises reads the rows of the page: number, promise, how it is kept, its proof, where it is weaker.
func promises(t *testing.T, lines []string) []promise {
	t.Helper()
	var rows []promise
	for i, line := range lines {
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if !strings.HasPrefix(line, "| ") || !promiseID.MatchString(cells[0]) {
			continue
		}
		if len(cells) != 5 || slices.Contains(cells, "") {
			t.Errorf("%s:%d: %s has %d cells, want number, promise, how, proof, weaker", guaranteesPage, i+1, cells[0], len(cells))
			continue
		}
		rows = append(rows, promise{line: i + 1, id: cells[0], proof: cells[3], weak: cells[4]})
	}
	return rows
}

// Every test that the page names as a proof is there, every promise of the design and the requirements has its row, and
// what has no proof is said once more at the end of the page.
func TestGuarantees(t *testing.T) {
	page := read(t, guaranteesPage)
	lines := strings.Split(page, "\n")
	rows := promises(t, lines)
	hosts := hostsOf(page)
	if len(hosts) < 6 {
		t.Fatalf("%s describes the hosts %q", guaranteesPage, hosts)
	}
	proofs := proofsOfTheTree(t)

	var have, open []string
	for _, row := range rows {
		have = append(have, row.id)
		names := quoted.FindAllStringSubmatch(row.proof, -1)
		waits := strings.Contains(row.proof, notYet)
		if waits {
			open = append(open, row.id)
		}
		if len(names) == 0 && !waits {
			t.Errorf("%s:%d: %s names no proof, and does not say %q", guaranteesPage, row.line, row.id, notYet)
		}
		for _, name := range names {
			switch {
			case !proofForm.MatchString(name[1]):
				t.Errorf("%s:%d: %s: %q is neither folder.Test nor a script", guaranteesPage, row.line, row.id, name[1])
			case !proofs[name[1]]:
				t.Errorf("%s:%d: %s: there is no %s", guaranteesPage, row.line, row.id, name[1])
			}
		}
		for host := range strings.SplitSeq(row.weak, ", ") {
			if host != "nowhere" && !slices.Contains(hosts, host) {
				t.Errorf("%s:%d: %s is weaker on %q, a host that the page does not describe", guaranteesPage, row.line, row.id, host)
			}
		}
	}
	wantSame(t, "rows", have, append(promised(t), faultNumbers()...))
	wantSame(t, "promises without a whole proof", openOnes(t, page), open)
	for _, m := range regexp.MustCompile("`make ([a-z]+)`").FindAllStringSubmatch(page, -1) {
		if !strings.Contains(read(t, "Makefile"), "\n"+m[1]+":") {
			t.Errorf("%s: the Makefile has no %s", guaranteesPage, m[1])
		}
	}
}

// promised is every promise that must have a row: the invariants of the design, the rows of the requirements.
func promised(t *testing.T) []string {
	t.Helper()
	_, never, ok := strings.Cut(read(t, "docs/design.md"), "What must never happen")
	if !ok {
		t.Fatal("docs/design.md does not say what must never happen")
	}
	never, _, _ = strings.Cut(never, "\n## ")
	var ids []string
	for _, m := range regexp.MustCompile(`(?:^|[.\n] ?)(I\d+) [a-z"]`).FindAllStringSubmatch(strings.ReplaceAll(never, `"Stopped"`, "stopped"), -1) {
		ids = append(ids, m[1])
	}
	if len(ids) < 12 {
		t.Fatalf("docs/design.md has the invariants %q", ids)
	}
	for _, m := range regexp.MustCompile(`(?m)^\| ((?:EC|BP|EN|DC)-\d+) \|`).FindAllStringSubmatch(read(t, "docs/requirements.md"), -1) {
		ids = append(ids, m[1])
	}
	if len(ids) < 12+50 {
		t.Fatalf("docs/requirements.md has the rows %q", ids[12:])
	}
	return ids
}

// faultNumbers are the faults of supervisors (S) and of directories of manifests (D) that the page answers for.
func faultNumbers() []string {
	var ids []string
	for prefix, n := range map[string]int{"S": 25, "D": 21} {
		for i := range n {
			ids = append(ids, prefix+strconv.Itoa(i+1))
		}
	}
	return ids
}

// hostsOf is the names of the table of hosts: bold in the first cell.
func hostsOf(page string) []string {
	var hosts []string
	for _, m := range regexp.MustCompile(`(?m)^\| \*\*([^*]+)\*\* \|`).FindAllStringSubmatch(page, -1) {
		hosts = append(hosts, m[1])
	}
	return hosts
}

// openOnes is what the last section lists: numbers in bold at the head of an item.
func openOnes(t *testing.T, page string) []string {
	t.Helper()
	_, section, ok := strings.Cut(page, "\n## What has no whole proof yet\n")
	if !ok {
		t.Fatalf("%s has no section about what has no proof yet", guaranteesPage)
	}
	var ids []string
	for _, m := range regexp.MustCompile(`(?m)^- \*\*([^*]+)\*\*: `).FindAllStringSubmatch(section, -1) {
		ids = append(ids, strings.Split(m[1], ", ")...)
	}
	return ids
}

// proofsOfTheTree is every test, benchmark and fuzzer as folder.Name, whatever its build tags, and every script.
func proofsOfTheTree(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		switch hidden := strings.HasPrefix(d.Name(), "."); {
		case d.IsDir() && rel != "." && (hidden || rel == "bin" || rel == "demo"):
			return filepath.SkipDir
		case d.IsDir():
		case filepath.Dir(rel) == "cmd/reconciler/testdata/script" && filepath.Ext(rel) == ".txtar":
			found[d.Name()] = true
		case strings.HasSuffix(rel, "_test.go"):
			return addTests(found, path, filepath.ToSlash(filepath.Dir(rel)))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func addTests(found map[string]bool, path, folder string) error {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, decl := range file.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok || fn.Recv != nil || len(fn.Type.Params.List) != 1 {
			continue
		}
		for prefix, param := range map[string]string{"Test": "T", "Benchmark": "B", "Fuzz": "F"} {
			if strings.HasPrefix(fn.Name.Name, prefix) && takes(fn, param) {
				found[folder+"."+fn.Name.Name] = true
			}
		}
	}
	return nil
}

// takes reports whether the one parameter of fn is a *testing.name.
func takes(fn *ast.FuncDecl, name string) bool {
	star, ok := fn.Type.Params.List[0].Type.(*ast.StarExpr)
	if !ok {
		return false
	}
	sel, ok := star.X.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	pkg, ok := sel.X.(*ast.Ident)
	return ok && pkg.Name == "testing" && sel.Sel.Name == name
}

func read(t *testing.T, page string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// wantSame reports what is missing, too much, or there twice.
func wantSame(t *testing.T, what string, have, want []string) {
	t.Helper()
	count := map[string]int{}
	for _, id := range have {
		count[id]++
	}
	for _, id := range want {
		if count[id] != 1 {
			t.Errorf("%s: %s: %s is there %d times, want once", guaranteesPage, what, id, count[id])
		}
		delete(count, id)
	}
	for id := range count {
		t.Errorf("%s: %s: %s is there, and should not be", guaranteesPage, what, id)
	}
}
