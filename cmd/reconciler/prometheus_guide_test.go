//go:build real

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestRealPrometheusGuide lets promtool judge the configuration and the rules of the guide, and a real Prometheus that scrapes
// a real run answer every expression of a rule.
func TestRealPrometheusGuide(t *testing.T) {
	dir := t.TempDir()
	var expressions []string
	for _, b := range blocksOf(t, "docs/guide.md") {
		name, isFile := strings.CutPrefix(b.lines[0], "# ")
		if b.lang != "yaml" || !isFile {
			continue
		}
		text := strings.Join(b.lines, "\n") + "\n"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`expr: '([^']+)'`).FindAllStringSubmatch(text, -1) {
			expressions = append(expressions, m[1])
		}
	}
	if len(expressions) < 3 {
		t.Fatalf("the guide has %d rules", len(expressions))
	}
	if out, err := exec.Command("promtool", "check", "config", filepath.Join(dir, "prometheus.yml")).CombinedOutput(); err != nil {
		t.Fatalf("promtool: %v\n%s", err, out)
	}

	h := newHost(t, buildBinary(t), "")
	h.put(t, "server.yaml", sleeper)
	h.run(t)
	h.await(t, "town", "condition=Ready")
	prom := startPrometheus(t, metricsAddress(t, h))
	prom.await(t, `reconciler_server_state{server="town",state="Running"}`, "1")
	// Nothing is wrong with this run: no rule may fire, and each must be about series that are there.
	for _, e := range expressions {
		prom.await(t, "count("+e+") or vector(0)", "0")
		for _, name := range regexp.MustCompile(`reconciler_\w+(\{[^}]*\})?`).FindAllString(e, -1) {
			prom.await(t, "clamp_max(count("+name+"), 1)", "1")
		}
	}
}
