//go:build real

package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
)

// reloadingServer is a real server that reads its configuration anew, and refuses a broken one when it is asked.
type reloadingServer struct {
	program  string
	seamless bool // no request fails over a reload
	manifest string
}

// The page that is served is a parameter: PORT and PAGE are put in.
var reloadingServers = map[string]reloadingServer{
	"nginx": {program: "/usr/sbin/nginx", seamless: true, manifest: `
  parameters: [{name: port, type: Integer}, {name: page}]
  actions:
    start: {executable: sbin/nginx, args: [-p, ., -c, conf/nginx.conf, -e, stderr]}
    check: {exec: {args: [-t, -p, ., -c, conf/nginx.conf, -e, stderr]}, timeoutSeconds: 300}
    reload: {signal: {name: SIGHUP}, timeoutSeconds: 3600}
    stop: {steps: [{signal: {name: SIGQUIT}, waitSeconds: 3600}]}
  files:
  - path: conf/nginx.conf
    content: |
      daemon off; pid nginx.pid; error_log stderr notice; worker_processes 2;
      events { worker_connections 64; }
      http { access_log off; client_body_temp_path b; proxy_temp_path p; fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;
        server { listen 127.0.0.1:$(port); location / { return 200 "$(page)"; } } }
`},
	"haproxy": {program: "/usr/sbin/haproxy", manifest: `
  parameters: [{name: port, type: Integer}, {name: page}]
  actions:
    start: {executable: sbin/haproxy, args: [-W, -db, -f, haproxy.cfg]}
    check: {exec: {args: [-c, -f, haproxy.cfg]}, timeoutSeconds: 300}
    reload: {signal: {name: SIGUSR2}, timeoutSeconds: 3600}
    stop: {steps: [{signal: {name: SIGTERM}, waitSeconds: 3600}]}
  files:
  - path: haproxy.cfg
    content: |
      defaults
        mode http
        timeout connect 10s
        timeout client 10s
        timeout server 10s
      frontend edge
        bind 127.0.0.1:$(port)
        http-request return status 200 content-type text/plain string "$(page)"
`},
}

// text is the manifest with a page.
func (s reloadingServer) text(port int, page string) string {
	return fmt.Sprintf(`apiVersion: reconciler.dev/v1alpha1
kind: Profile
metadata: {name: edge}
spec:%s  endpoints: [{name: http, port: $(port), address: 127.0.0.1, appProtocol: HTTP}]
  readinessProbe: {http: {endpoint: http}, periodSeconds: 1, timeoutSeconds: 60}
---
apiVersion: reconciler.dev/v1alpha1
kind: Server
metadata: {name: edge}
spec: {profile: edge, parameters: {port: %d, page: '%s'}}
`, s.manifest, port, page)
}

// reloadTimes is how often each of them is reloaded while it is asked all the time.
const reloadTimes = 20

// Real servers read a new configuration while they serve: the run goes on, no request fails where the server promises that, and a
// broken configuration does not reach it.
func TestRealReload(t *testing.T) {
	binary := buildBinary(t)
	for name, server := range reloadingServers {
		t.Run(name, func(t *testing.T) {
			if !(realServer{example: name, program: server.program}).isThere(t) {
				return
			}
			t.Parallel()
			h := newHost(t, binary, "")
			port := freePort(t, "tcp")
			h.put(t, "edge.yaml", server.text(port, "page 0"))
			h.run(t)
			h.await(t, "edge", "condition=Ready")
			pid := h.record(t, "edge", "edge").Run.Identity.PID
			asking := askAlways(fmt.Sprintf("http://127.0.0.1:%d/", port))
			for i := 1; i <= reloadTimes; i++ {
				h.put(t, "edge.yaml", server.text(port, fmt.Sprint("page ", i)))
				h.await(t, "edge", fmt.Sprint("jsonpath={.status.observedGeneration}=", i+1))
				h.await(t, "edge", "condition=Reconciling=False")
				asking.awaitPage(t, fmt.Sprint("page ", i))
			}
			h.put(t, "edge.yaml", server.text(port, `broken " page`))
			h.await(t, "edge", "condition=Stalled")
			if why := h.cli(t, "get", "server", "edge", "-o", `jsonpath={.status.conditions[?(@.type=="Stalled")]}`); !strings.Contains(why, "ConfigInvalid") {
				t.Errorf("it is stalled: %s", why)
			}
			asking.awaitPage(t, fmt.Sprint("page ", reloadTimes))
			good, failed := asking.end()
			t.Logf("%d requests were answered, %d failed", good, len(failed))
			if server.seamless && len(failed) > 0 {
				t.Errorf("%d requests failed, the first with %v", len(failed), failed[0])
			}
			if run := h.record(t, "edge", "edge").Run; run.Identity.PID != pid || run.Number != 1 {
				t.Errorf("it is run %d now", run.Number)
			}
			if entries, err := os.ReadDir(h.state + "/data/edge"); err != nil || strings.Contains(fmt.Sprint(entries), ".reconciler-") {
				t.Errorf("something of ours was left in its directory: %v (%v)", entries, err)
			}
		})
	}
}

// asking is somebody who asks all the time, each time over a connection of its own.
type asking struct {
	cancel context.CancelFunc
	done   chan struct{}

	mu     sync.Mutex
	page   string // the last
	good   int
	failed []error
}

func askAlways(url string) *asking {
	ctx, cancel := context.WithCancel(context.Background())
	a := &asking{cancel: cancel, done: make(chan struct{})}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	go func() {
		defer close(a.done)
		for ctx.Err() == nil {
			page, err := askOnce(ctx, client, url)
			if ctx.Err() != nil {
				return
			}
			a.mu.Lock()
			if err != nil {
				a.failed = append(a.failed, err)
			} else {
				a.page, a.good = page, a.good+1
			}
			a.mu.Unlock()
		}
	}()
	return a
}

func askOnce(ctx context.Context, client *http.Client, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	answer, err := client.Do(request)
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(answer.Body)
	if closeErr := answer.Body.Close(); err == nil {
		err = closeErr
	}
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("answered with %s", answer.Status)
	}
	return string(body), err
}

// awaitPage waits until a page is what is answered.
func (a *asking) awaitPage(t *testing.T, page string) {
	t.Helper()
	eventually(t, func() error {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.page != page {
			return fmt.Errorf("%q is answered, not %q", a.page, page)
		}
		return nil
	})
}

// end stops asking.
func (a *asking) end() (good int, failed []error) {
	a.cancel()
	<-a.done
	return a.good, a.failed
}
