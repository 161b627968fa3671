//go:build real

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const sleeper = `apiVersion: reconciler.dev/v1alpha1
kind: Profile
metadata: {name: sleeper}
spec:
  actions:
    start: {workspace: usr, executable: bin/sleep, args: ["600"]}
---
apiVersion: reconciler.dev/v1alpha1
kind: Server
metadata: {name: town}
spec: {profile: sleeper}
`

// TestRealPrometheus lets a real Prometheus scrape a real run and answer what became of it (DC-6), and promtool judge the
// page.
func TestRealPrometheus(t *testing.T) {
	for _, program := range []string{"prometheus", "promtool"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("%v: install Debian's package prometheus", err)
		}
	}
	h := newHost(t, buildBinary(t), "")
	h.put(t, "server.yaml", sleeper)
	h.run(t)
	h.await(t, "town", "condition=Ready")
	target := metricsAddress(t, h)
	checkWithPromtool(t, "http://"+target+"/metrics")

	prom := startPrometheus(t, target)
	scope := `{namespace="default",server="town",profile="sleeper"`
	prom.await(t, `reconciler_server_state`+scope+`,state="Running"}`, "1")
	prom.await(t, `reconciler_server_condition`+scope+`,condition="Ready",status="True"}`, "1")
	prom.await(t, `reconciler_starts_total`+scope+`}`, "1")
	prom.await(t, `count(reconciler_resident_memory_bytes`+scope+`} > 0)`, "1")

	if err := syscall.Kill(h.record(t, "town", "sleeper").Run.Identity.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	prom.await(t, `reconciler_exits_total`+scope+`,class="Unexpected",reason="Signaled"}`, "1")
	prom.await(t, `reconciler_starts_total`+scope+`}`, "2")
	h.cli(t, "stop", "town", "--timeout", long)
	prom.await(t, `reconciler_server_state`+scope+`,state="Stopped"}`, "1")
	prom.await(t, `reconciler_exits_total`+scope+`,class="Expected",reason="StopRequested"}`, "1")
}

// metricsAddress is where the reconciler said that it serves metrics.
func metricsAddress(t *testing.T, h *host) string {
	t.Helper()
	var found []string
	eventually(t, func() error {
		said, err := os.ReadFile(h.log())
		if err != nil {
			return err
		}
		if found = address.FindStringSubmatch(string(said)); found == nil {
			return fmt.Errorf("the reconciler has not said where metrics are:\n%s", said)
		}
		return nil
	})
	return found[1]
}

func checkWithPromtool(t *testing.T, page string) {
	t.Helper()
	resp, err := http.Get(page)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	check := exec.Command("promtool", "check", "metrics")
	check.Stdin = resp.Body
	if out, err := check.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
}

// prometheus is a running one.
type prometheus struct{ address string }

func startPrometheus(t *testing.T, target string) prometheus {
	t.Helper()
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	text := fmt.Sprintf("global: {scrape_interval: 200ms}\nscrape_configs:\n- {job_name: reconciler, static_configs: [{targets: [%q]}]}\n", target)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	p := prometheus{fmt.Sprintf("127.0.0.1:%d", freePort(t, "tcp"))}
	var said strings.Builder
	cmd := exec.Command("prometheus", "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+p.address)
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cmd.Process.Kill(); err != nil {
			t.Logf("prometheus had ended: %v", err)
		}
		_ = cmd.Wait() // it was killed
		if t.Failed() {
			t.Logf("prometheus said:\n%s", said.String())
		}
	})
	return p
}

// await asks until the one value of a query is as wanted: Prometheus learns it at a scrape of its own.
func (p prometheus) await(t *testing.T, query, want string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	got := ""
	for {
		var err error
		if got, err = p.ask(ctx, query); err == nil && got == want {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s is %q (%v), want %q", query, got, err, want)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (p prometheus) ask(ctx context.Context, query string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.address+"/api/v1/query?query="+url.QueryEscape(query), nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var answer struct {
		Data struct {
			Result []struct{ Value [2]any }
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return "", err
	}
	if len(answer.Data.Result) != 1 {
		return "", fmt.Errorf("%d series", len(answer.Data.Result))
	}
	value, _ := answer.Data.Result[0].Value[1].(string)
	return value, nil
}
