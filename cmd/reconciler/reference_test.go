package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

var updateReference = flag.Bool("update-reference", false, "write the generated parts of docs/reference.md anew; look at the difference before it is committed")

const reference = "docs/reference.md"

// The commands and metrics of the reference are those of the program.
func TestReferenceIsGenerated(t *testing.T) {
	path := filepath.Join(root, reference)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := string(data)
	for name, text := range map[string]string{"commands": commandsReference(t), "metrics": metricsReference(t)} {
		begin, end := "<!-- generated: "+name+" -->\n", "<!-- end: "+name+" -->"
		head, rest, ok := strings.Cut(want, begin)
		_, tail, ok2 := strings.Cut(rest, end)
		if !ok || !ok2 {
			t.Fatalf("%s has no place for %s", reference, name)
		}
		want = head + begin + text + end + tail
	}
	if want == string(data) {
		return
	}
	if !*updateReference {
		t.Fatalf("%s is not what the program says; go test ./cmd/reconciler -run %s -update-reference writes it", reference, t.Name())
	}
	if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

func help(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("reconciler", append(args, "--help")...).Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// commandsReference is the help of every command, without the flags that all have.
func commandsReference(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	group := ""
	for _, line := range strings.Split(help(t), "\n") {
		switch {
		case regexp.MustCompile(`^(Run|See|Act|Look after):$`).MatchString(line):
			group = strings.TrimSuffix(line, ":")
		case !strings.HasPrefix(line, "  "):
			group = ""
		case group != "":
			name := strings.Fields(line)[0]
			if name == "help" || name == "completion" {
				continue
			}
			fmt.Fprintf(&b, "### %s\n\n```text\n%s```\n\n", name, withoutCommonFlags(help(t, name)))
		}
	}
	if strings.Count(b.String(), "### ") < 15 {
		t.Fatalf("commands:\n%s", b.String())
	}
	return b.String()
}

func withoutCommonFlags(text string) string {
	common := regexp.MustCompile(`^ +(-h, --help|--state-dir|--runtime-dir) `)
	lines := slices.DeleteFunc(strings.Split(text, "\n"), common.MatchString)
	return strings.TrimSuffix(strings.TrimRight(strings.Join(lines, "\n"), "\n"), "\n\nFlags:") + "\n"
}

// metricsReference is a table of what /metrics serves, from its pinned page.
func metricsReference(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, "metrics", "testdata", "metrics.golden"))
	if err != nil {
		t.Fatal(err)
	}
	type metric struct{ help, kind, labels string }
	all := map[string]*metric{}
	for _, line := range strings.Split(string(data), "\n") {
		name, text, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(line, "# HELP "), "# TYPE "), " ")
		switch {
		case strings.HasPrefix(line, "# HELP "):
			all[name] = &metric{help: text}
		case strings.HasPrefix(line, "# TYPE "):
			all[name].kind = text
		default:
			labeled := regexp.MustCompile(`^(\w+)\{(.*)\} `).FindStringSubmatch(line)
			if labeled == nil {
				continue
			}
			m := all[labeled[1]]
			if m == nil {
				m = all[regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(labeled[1], "")]
			}
			var names []string
			for _, l := range regexp.MustCompile(`(\w+)="`).FindAllStringSubmatch(labeled[2], -1) {
				if l[1] != "le" {
					names = append(names, l[1])
				}
			}
			m.labels = strings.Join(names, ", ")
		}
	}
	var b strings.Builder
	b.WriteString("| metric | type | labels | |\n|---|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", name, all[name].kind, all[name].labels, all[name].help)
	}
	if len(all) < 20 {
		t.Fatalf("metrics:\n%s", b.String())
	}
	return b.String()
}

// The files of the reference are those of a running reconciler, with the modes that it says, and there are no others.
func TestReferenceFiles(t *testing.T) {
	w := newWalk(t)
	w.follow("files", []string{"reconciler", "run", "--manifests", "demo/manifests", "--listen", ""}, []string{"…", "…msg=Ready server=echo…"})
	data, err := os.ReadFile(filepath.Join(root, reference))
	if err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(w.dir, "home-state")
	place := strings.NewReplacer("STATE", state, "RUNTIME", filepath.Join(state, "runtime"))
	known := map[string]bool{filepath.Join(state, "runtime"): true}
	for _, row := range regexp.MustCompile("(?m)^\\| `((?:STATE|RUNTIME)[^`]*)` \\| (\\d{4}) \\|").FindAllStringSubmatch(string(data), -1) {
		path := place.Replace(row[1])
		known[path] = true
		info, err := os.Lstat(path)
		if err != nil {
			t.Error(err)
			continue
		}
		if mode := fmt.Sprintf("%04o", info.Mode().Perm()); mode != row[2] {
			t.Errorf("%s has mode %s, %s says %s", row[1], mode, reference, row[2])
		}
	}
	for _, dir := range []string{"", "keeper", "reconciler", "runtime"} {
		entries, err := os.ReadDir(filepath.Join(state, dir))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if path := filepath.Join(state, dir, e.Name()); !known[path] {
				t.Errorf("%s is not in %s", path, reference)
			}
		}
	}
}

// Every word of a closed list that the program may say stands in the reference, in the section about it, and no other.
func TestReferenceHasEveryWord(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(root, reference))
	if err != nil {
		t.Fatal(err)
	}
	texts := func(list any) []string {
		return strings.Fields(strings.Trim(fmt.Sprint(list), "[]"))
	}
	for _, tt := range []struct {
		section string
		want    []string
	}{
		{"States", texts(spec.ServerStates)},
		{"Condition types", spec.ConditionTypes},
		{"Exit reasons", texts(spec.ExitReasons)},
		{"Condition reasons", append(append(saidIn(t, "verdict", "readiness", "publicError"), constantsOf(t, "dependency", "reason")...), string(state.RecordUnreadable), string(state.RecordNewer))},
		{"Causes", constantsOf(t, "Why", "Cause")},
		{"Deliveries", texts([]state.DeliveryResult{state.Sent, state.Done, state.Failed, state.Undeliverable, state.Indeterminate})},
		{"Delivery reasons", append(reasonsOf(t, "keeper/console"), "Busy")},
		{"Events", slices.Concat(saidIn(t, "normal", "warning"), constantsOf(t, "Action"), []string{"Job"})},
		{"Job phases", texts(spec.JobPhases)},
		{"Job reasons", constantsOf(t, "JobReason")},
		{"Job checks", constantsOf(t, "CheckJob")},
	} {
		_, text, ok := strings.Cut(string(data), "## "+tt.section+"\n")
		if !ok {
			t.Errorf("there is no section %q", tt.section)
			continue
		}
		text, _, _ = strings.Cut(text, "\n## ")
		var got []string
		for _, m := range regexp.MustCompile("(?m)^\\| `(\\w+)`").FindAllStringSubmatch(text, -1) {
			got = append(got, m[1])
		}
		slices.Sort(got)
		want := slices.Compact(slices.Sorted(slices.Values(tt.want)))
		if !slices.Equal(got, want) {
			t.Errorf("%s:\nhas   %q\nneeds %q", tt.section, got, want)
		}
	}
}

// saidIn is every reason that package reconcile says in a literal: the second value of a literal of a type of one of the
// names, the first argument of a call of a function of it, and the first value that such a function returns.
func saidIn(t *testing.T, names ...string) []string {
	t.Helper()
	var words []string
	add := func(e ast.Expr) {
		if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			word, err := strconv.Unquote(lit.Value)
			if err != nil {
				t.Fatal(err)
			}
			words = append(words, word)
		}
	}
	for _, f := range parse(t, "reconcile") {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CompositeLit:
				if id, ok := n.Type.(*ast.Ident); ok && slices.Contains(names, id.Name) && len(n.Elts) > 1 {
					add(n.Elts[1])
				}
			case *ast.FuncDecl:
				if slices.Contains(names, n.Name.Name) {
					ast.Inspect(n.Body, func(n ast.Node) bool {
						if r, ok := n.(*ast.ReturnStmt); ok {
							add(r.Results[0])
						}
						return true
					})
				}
			case *ast.CallExpr:
				if id, ok := n.Fun.(*ast.Ident); ok && slices.Contains(names, id.Name) {
					add(n.Args[0])
				}
			}
			return true
		})
	}
	if len(words) < 5 {
		t.Fatalf("%q say only %q", names, words)
	}
	return words
}

// constantsOf is every string constant of package reconcile whose name begins with one of the prefixes.
func constantsOf(t *testing.T, prefixes ...string) []string {
	t.Helper()
	var words []string
	for _, f := range parse(t, "reconcile") {
		ast.Inspect(f, func(n ast.Node) bool {
			v, ok := n.(*ast.ValueSpec)
			if !ok || len(v.Values) != 1 {
				return true
			}
			lit, ok := v.Values[0].(*ast.BasicLit)
			begins := func(prefix string) bool { return strings.HasPrefix(v.Names[0].Name, prefix) }
			if !ok || lit.Kind != token.STRING || !slices.ContainsFunc(prefixes, begins) {
				return true
			}
			word, err := strconv.Unquote(lit.Value)
			if err != nil {
				t.Fatal(err)
			}
			words = append(words, word)
			return true
		})
	}
	if len(words) < 3 {
		t.Fatalf("constants of %q: %q", prefixes, words)
	}
	return words
}

// reasonsOf is every constant of a package that is of a type Reason.
func reasonsOf(t *testing.T, pkg string) []string {
	t.Helper()
	var words []string
	for _, f := range parse(t, pkg) {
		ast.Inspect(f, func(n ast.Node) bool {
			v, ok := n.(*ast.ValueSpec)
			if !ok || len(v.Values) != 1 {
				return true
			}
			if id, ok := v.Type.(*ast.Ident); !ok || id.Name != "Reason" {
				return true
			}
			if lit, ok := v.Values[0].(*ast.BasicLit); ok {
				words = append(words, strings.Trim(lit.Value, `"`))
			}
			return true
		})
	}
	if len(words) < 3 {
		t.Fatalf("reasons of %s: %q", pkg, words)
	}
	return words
}

func parse(t *testing.T, pkg string) []*ast.File {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, pkg, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, p := range paths {
		if strings.HasSuffix(p, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), p, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	return files
}
