package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"reconciler.dev/reconciler/manifests/examples"
	"reconciler.dev/reconciler/spec"
)

// root is the top of the project.
const root = "../.."

// block is a fenced block of a page: its language and what else stands behind the fence, and its lines.
type block struct {
	line  int
	lang  string
	args  string
	lines []string
}

func blocksOf(t *testing.T, page string) []block {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	var blocks []block
	var open *block
	for i, line := range strings.Split(string(data), "\n") {
		info, fence := strings.CutPrefix(line, "```")
		switch {
		case fence && open == nil:
			lang, args, _ := strings.Cut(info, " ")
			open = &block{line: i + 1, lang: lang, args: args}
		case fence:
			blocks = append(blocks, *open)
			open = nil
		case open != nil:
			open.lines = append(open.lines, line)
		}
	}
	if open != nil {
		t.Fatalf("%s:%d: the block has no end", page, open.line)
	}
	return blocks
}

func pages(t *testing.T) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil || len(list) < 5 {
		t.Fatalf("pages: %q, %v", list, err)
	}
	names := []string{"README.md"}
	for _, p := range list {
		names = append(names, "docs/"+filepath.Base(p))
	}
	return names
}

// Every manifest that a page shows is one that can be used. A block that is something else says what in its first line.
func TestManifestsOfPages(t *testing.T) {
	seen := 0
	for _, page := range pages(t) {
		for _, b := range blocksOf(t, page) {
			text := strings.Join(b.lines, "\n") + "\n"
			switch {
			case b.lang != "yaml":
				if strings.Contains(text, "apiVersion: reconciler.dev") && b.lang != "yaml-broken" {
					t.Errorf("%s:%d: a manifest in a block of %q: it must be yaml", page, b.line, b.lang)
				}
			case strings.Contains(text, "\nkind: Host\n"):
				seen++
				if _, faults := spec.DecodeHost(page, []byte(text)); len(faults) > 0 {
					t.Errorf("%s:%d: %v", page, b.line, faults)
				}
			case strings.HasPrefix(text, "# prometheus.yml\n"), strings.HasPrefix(text, "# reconciler.rules.yml\n"): // TestRealPrometheusGuide
			default:
				seen++
				validate(t, page, b, text)
			}
		}
	}
	if seen < 4 {
		t.Errorf("only %d manifests were seen", seen)
	}
}

// validate holds a block to what 'reconciler validate' says. A Server whose Profile is elsewhere has the echo example's.
func validate(t *testing.T, page string, b block, text string) {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("page.yaml", text)
	if strings.Contains(text, "profile: echo") && !strings.Contains(text, "metadata: {name: echo}\nspec:\n") {
		echo, _ := examples.Get("echo")
		profile, _, _ := strings.Cut(string(echo), "\n---\n")
		write("echo.yaml", profile)
	}
	if out, err := exec.Command("reconciler", "validate", dir).CombinedOutput(); err != nil {
		t.Errorf("%s:%d: %v\n%s", page, b.line, err, out)
	}
}

// Every module that the product is made of has its reason in the design.
func TestEveryDependencyHasAReason(t *testing.T) {
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	design, err := os.ReadFile(filepath.Join(root, "docs", "design.md"))
	if err != nil {
		t.Fatal(err)
	}
	direct := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\t(\S+) v\S+$`).FindAllStringSubmatch(string(mod), -1) {
		direct[m[1]] = true
		if !strings.Contains(string(design), "\n| `"+m[1]+"` | ") {
			t.Errorf("docs/design.md gives no reason for %s", m[1])
		}
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `(\\S+\\.\\w+/\\S+)` \\| ").FindAllStringSubmatch(string(design), -1) {
		if !direct[m[1]] {
			t.Errorf("docs/design.md has a reason for %s, which go.mod does not need", m[1])
		}
	}
	if len(direct) < 5 {
		t.Fatalf("go.mod needs %v", direct)
	}
}

// The surface of the design is there, but for what it calls later, and nothing else is.
func TestSurface(t *testing.T) {
	there := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^  ([a-z]+) {2,}\S`).FindAllStringSubmatch(help(t), -1) {
		there[m[1]] = true
	}
	delete(there, "help")
	named := map[string]bool{}
	for _, b := range blocksOf(t, "docs/design.md") {
		if !strings.HasPrefix(b.lines[0], "reconciler ") {
			continue
		}
		for _, line := range b.lines {
			later := strings.Contains(line, "(later)")
			for _, m := range regexp.MustCompile(`reconciler ([a-z|-]+)`).FindAllStringSubmatch(line, -1) {
				for _, name := range strings.Split(m[1], "|") {
					named[name] = true
					if there[name] == later {
						t.Errorf("%s: there is %v, later %v", name, there[name], later)
					}
				}
			}
		}
	}
	for name := range there {
		if !named[name] {
			t.Errorf("docs/design.md does not name the command %s", name)
		}
	}
	if len(named) < 20 {
		t.Fatalf("named: %v", named)
	}
}
