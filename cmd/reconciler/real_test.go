//go:build real

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"reconciler.dev/reconciler/manifests/examples"
	"reconciler.dev/reconciler/observe/proc/proctest"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// withoutVariable names, separated by commas, the servers that a run of this suite leaves out. One that is neither
// installed nor left out by name fails.
const withoutVariable = "RECONCILER_TEST_WITHOUT"

// realServer is an example with what its server needs around it.
type realServer struct {
	example string
	program string // what the package installs
	user    string // who runs reconciler: "" = whoever runs the test
	network string // of the port that the test picks
	files   func(port int) map[string]string
	// settle is how long after Ready it still takes no signal, for those whose sign is early.
	settle time.Duration
	// exit is how it ends at its stop: "0", "1", "SIGTERM".
	exit string
	// counts says that it tells how many play: nobody does.
	counts bool
	// step is the step of the ladder that ends it, 0 = the first. Those before it come to what they ask for.
	step int
	// line is sent to its console before the stop, and said is what it prints of it; "" = none. On a rail that carries answers
	// the reply shows it.
	line, said string
	replies    bool
	secret     string // the reference of its console's password
}

var realServers = []realServer{
	{example: "echo", program: "/usr/bin/perl", network: "tcp", exit: "0"},
	{example: "openttd", counts: true, program: "/usr/games/openttd", network: "tcp", exit: "0", step: 2, line: "echo reconciler-was-here", said: "reconciler-was-here", files: openttdFiles},
	{example: "minetest", program: "/usr/lib/minetest/minetestserver", network: "udp", exit: "0", files: minetestFiles},
	{example: "freeciv", program: "/usr/games/freeciv-server", user: "nobody", network: "tcp", exit: "0"},
	{example: "bzflag", program: "/usr/games/bzfs", network: "tcp", exit: "0"},
	{example: "nginx", program: "/usr/sbin/nginx", network: "tcp", exit: "0", files: nginxFiles},
	{example: "nginx", program: "/usr/sbin/nginx", user: "nobody", network: "tcp", exit: "0", files: nginxFiles},
	// Its master executes itself again after it has said that it is loaded, and loses signals meanwhile.
	{example: "haproxy", program: "/usr/sbin/haproxy", network: "tcp", exit: "0", files: haproxyFiles, settle: time.Second},
	{example: "microsocks", program: "/usr/bin/microsocks", network: "tcp", exit: "SIGTERM"},
	// It is graceful through its FIFO alone.
	{example: "wesnothd", program: "/usr/games/wesnothd-1.16", network: "tcp", exit: "0", step: 2, line: "status", said: "STATUS REPORT", files: wesnothdFiles},
	{example: "redis", program: "/usr/bin/redis-server", network: "tcp", exit: "0"},
	{example: "teeworlds", program: "/usr/games/teeworlds-server", network: "udp", exit: "0", step: 2, line: "echo reconciler-was-here", said: "[Console]: reconciler-was-here", replies: true, secret: "deathmatch/econ"},
	{example: "teeworlds", program: "/usr/games/teeworlds-server", user: "nobody", network: "udp", exit: "0", step: 2, line: "echo reconciler-was-here", said: "[Console]: reconciler-was-here", replies: true, secret: "deathmatch/econ"},
	{example: "openarena", counts: true, program: "/usr/lib/openarena-server/baseoa/pak0.pk3", network: "udp", exit: "0", step: 2, line: "status", said: "map: oa_dm1", replies: true, secret: "arena/rcon"},
	{example: "caddy", program: "/usr/bin/caddy", network: "tcp", exit: "0", files: caddyFiles},
}

func openttdFiles(int) map[string]string {
	return map[string]string{"openttd.cfg": "[network]\nserver_name = test\nserver_game_type = local\n[game_creation]\nmap_x = 7\nmap_y = 7\n"}
}

func wesnothdFiles(int) map[string]string {
	return map[string]string{"wesnothd.cfg": "fifo_path=\"input\"\n"}
}

func minetestFiles(int) map[string]string {
	return map[string]string{
		"minetest.conf": "bind_address = 127.0.0.1\nserver_announce = false\nmg_name = singlenode\n",
		"world/.keep":   "",
	}
}

func nginxFiles(port int) map[string]string {
	return map[string]string{"nginx.conf": fmt.Sprintf(`daemon off; pid nginx.pid; error_log stderr notice; worker_processes 2;
events { worker_connections 64; }
http { access_log /dev/stdout; client_body_temp_path b; proxy_temp_path p; fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;
  server { listen 127.0.0.1:%d; location / { return 200 ok; } } }
`, port)}
}

func caddyFiles(int) map[string]string {
	return map[string]string{"Caddyfile": `{
	admin 127.0.0.1:{$ADMIN_PORT}
	auto_https off
}
http://127.0.0.1:{$PORT} {
	bind 127.0.0.1
	respond ok
}
`}
}

func haproxyFiles(port int) map[string]string {
	return map[string]string{"haproxy.cfg": fmt.Sprintf(`global
  log stdout format raw local0
defaults
  mode tcp
  timeout connect 1s
  timeout client 10s
  timeout server 10s
listen front
  bind 127.0.0.1:%d
  server back 127.0.0.1:9
`, port)}
}

// TestReal starts each example's server for real: ready by its own sign, crashed, restarted, stopped gracefully.
func TestReal(t *testing.T) {
	without := strings.Split(os.Getenv(withoutVariable), ",")
	binary := buildBinary(t)
	for _, server := range realServers {
		name := server.example
		if server.user != "" {
			name += "-as-" + server.user
		}
		t.Run(name, func(t *testing.T) {
			if slices.Contains(without, server.example) {
				t.Logf("left out by %s", withoutVariable)
				return
			}
			if _, err := os.Stat(server.program); err != nil {
				t.Fatalf("%s is not installed: install it, or leave it out by name with %s=%s", server.program, withoutVariable, server.example)
			}
			liveOneServer(t, binary, server)
		})
	}
}

// long is how long a command of the program waits, on a busy host too.
const long = "5m"

// startServer runs a reconciler over an example, as edit makes it, and waits until its server is Ready.
func startServer(t *testing.T, binary string, server realServer, edit func(string) string) (h *host, name string) {
	t.Helper()
	h = newHost(t, binary, server.user)
	port := freePort(t, server.network)
	text, ok := examples.Get(server.example)
	if !ok {
		t.Fatalf("no example %q", server.example)
	}
	name = serverName(t, text)
	if server.files != nil {
		h.putFiles(t, filepath.Join(h.state, "data", name), server.files(port))
	}
	if server.secret != "" {
		h.putSecret(t, server.secret, "kanarienvogel-4711")
	}
	h.put(t, "server.yaml", edit(withPort(string(text), port)))
	h.run(t)
	h.cli(t, "wait", "server/"+name, "--for=condition=Ready", "--timeout", long)
	return h, name
}

func liveOneServer(t *testing.T, binary string, server realServer) {
	h, name := startServer(t, binary, server, func(text string) string { return text })
	first := h.record(t, name, server.example)
	if server.counts {
		h.cli(t, "wait", "server/"+name, "--for=jsonpath={.status.players.count}=0", "--timeout", long)
	}

	// A crash: unexpected, with its signal, and back at once.
	if err := syscall.Kill(first.Run.Identity.PID, syscall.SIGKILL); err != nil {
		t.Fatalf("cannot kill the server: %v", err)
	}
	h.cli(t, "wait", "server/"+name, "--for=jsonpath={.status.run.number}=2", "--timeout", long)
	h.cli(t, "wait", "server/"+name, "--for=condition=Ready", "--timeout", long)
	exit := h.lastExit(t, name)
	if exit.Class != spec.Unexpected || exit.Signal != "SIGKILL" {
		t.Errorf("after kill -9 the exit is %s, signal %q: want Unexpected, SIGKILL", exit.Class, exit.Signal)
	}

	// A stop: graceful, by its first step.
	time.Sleep(server.settle)
	if server.line != "" {
		receipt := h.cli(t, "send", name, server.line)
		if server.replies && !strings.Contains(receipt, server.said) {
			t.Errorf("to %q it answers\n%s", server.line, receipt)
		}
		if !server.replies {
			h.awaitLog(t, name, server.said)
		}
	}
	h.cli(t, "stop", name, "--timeout", long)
	exit = h.lastExit(t, name)
	got := exit.Signal
	if exit.ExitCode != nil {
		got = strconv.Itoa(*exit.ExitCode)
	}
	if exit.Class != spec.Expected || exit.Reason != spec.ReasonStopRequested || got != server.exit {
		t.Errorf("after stop the exit is %s, %s, %q: want Expected, StopRequested, %q", exit.Class, exit.Reason, got, server.exit)
	}
	want := max(1, server.step)
	if exit.StopStep == nil || *exit.StopStep != want || exit.Killed {
		t.Errorf("the ladder ended at step %v, killed %v: want step %d and no kill", exit.StopStep, exit.Killed, want)
	}
	for _, e := range h.awaitSteps(t, name, server.example) {
		if e.Result != state.Sent && e.Result != state.Done {
			t.Errorf("step %d came to %s %s", e.Index+1, e.Result, e.Reason)
		}
	}
	t.Logf("%s", h.cli(t, "history", name))
}

// host is one reconciler over a folder of its own.
type host struct {
	binary, manifests, state, runtime string
	user                              *syscall.Credential
	env                               []string
	wrap                              []string // a program that run is started through
	reconciler                        *exec.Cmd
}

func newHost(t *testing.T, binary, user string) *host {
	t.Helper()
	dir := proctest.Place(t)
	h := &host{binary: binary, manifests: dir + "/manifests", state: dir + "/state", runtime: dir + "/run"}
	if user != "" {
		if os.Getuid() != 0 {
			t.Fatalf("only root can run reconciler as %s: leave the server out by name with %s", user, withoutVariable)
		}
		h.user = &syscall.Credential{Uid: 65534, Gid: 65534}
	}
	for _, d := range []string{h.manifests, h.state, h.runtime} {
		h.mkdir(t, d)
	}
	h.env = []string{"HOME=" + dir, "PATH=/usr/bin:/bin", "RECONCILER_STATE_DIR=" + h.state, "RECONCILER_RUNTIME_DIR=" + h.runtime}
	return h
}

func (h *host) mkdir(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	h.own(t, dir)
}

func (h *host) own(t *testing.T, path string) {
	t.Helper()
	if h.user == nil {
		return
	}
	if err := os.Chown(path, int(h.user.Uid), int(h.user.Gid)); err != nil {
		t.Fatal(err)
	}
}

func (h *host) putFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	h.mkdir(t, filepath.Dir(dir))
	h.mkdir(t, dir)
	for name, text := range files {
		path := filepath.Join(dir, name)
		h.mkdir(t, filepath.Dir(path))
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		h.own(t, path)
	}
}

// putSecret lays a secret down as the keeper wants it.
func (h *host) putSecret(t *testing.T, ref, content string) {
	t.Helper()
	top := filepath.Join(h.state, "secrets")
	path := filepath.Join(top, ref)
	for _, dir := range []string{top, filepath.Dir(path)} {
		h.mkdir(t, dir)
		if err := os.Chmod(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(path, []byte(content+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.own(t, path)
}

// put drops a manifest as git would: written beside, renamed into place.
func (h *host) put(t *testing.T, name, text string) {
	t.Helper()
	tmp := filepath.Join(h.manifests, "."+name)
	if err := os.WriteFile(tmp, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(tmp, filepath.Join(h.manifests, name)); err != nil {
		t.Fatal(err)
	}
}

// run starts reconciler and ends it, with everything it started, when the test is over.
func (h *host) run(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		h.end(t)
		if t.Failed() {
			text, err := os.ReadFile(h.log())
			t.Logf("run said (%v):\n%s", err, text)
		}
	})
	h.start(t)
}

// end ends reconciler with everything it started, unless that is done.
func (h *host) end(t *testing.T) {
	t.Helper()
	if h.reconciler == nil {
		return
	}
	if out, err := h.command("shutdown").CombinedOutput(); err != nil {
		t.Errorf("shutdown: %v\n%s", err, out)
		if err := h.reconciler.Process.Kill(); err != nil {
			t.Logf("run had ended: %v", err)
		}
	}
	if err := h.reconciler.Wait(); err != nil {
		t.Logf("run ended with %v", err)
	}
	h.reconciler = nil
}

func (h *host) log() string { return filepath.Join(filepath.Dir(h.state), "run.log") }

// start starts reconciler and waits until it answers. Nobody ends it.
func (h *host) start(t *testing.T) {
	t.Helper()
	log, err := os.OpenFile(h.log(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := h.command("run", "--manifests", h.manifests, "--listen", "127.0.0.1:0")
	if len(h.wrap) > 0 {
		cmd.Path, cmd.Args = h.wrap[0], append(slices.Clone(h.wrap), cmd.Args...)
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	h.reconciler = cmd
	deadline := time.Now().Add(patience)
	for {
		// It answers, and has read the manifest that was put there before.
		out, err := h.command("get", "servers", "-o", "name").Output()
		if err == nil && len(out) > 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("reconciler does not answer: %v", err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (h *host) command(args ...string) *exec.Cmd {
	cmd := exec.Command(h.binary, args...)
	cmd.Env = h.env
	if h.user != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: h.user}
	}
	return cmd
}

func (h *host) cli(t *testing.T, args ...string) string {
	t.Helper()
	out, err := h.command(args...).CombinedOutput()
	if err != nil {
		describe, _ := h.command("describe", "server", strings.TrimPrefix(args[1], "server/")).CombinedOutput()
		logs, _ := h.command("logs", strings.TrimPrefix(args[1], "server/")).CombinedOutput()
		t.Fatalf("reconciler %s: %v\n%s\n%s\n%s", strings.Join(args, " "), err, out, describe, logs)
	}
	return string(out)
}

// awaitLog waits until the server has printed text.
func (h *host) awaitLog(t *testing.T, name, text string) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !strings.Contains(h.cli(t, "logs", name), text) {
		if time.Now().After(deadline) {
			t.Fatalf("%s does not print %q:\n%s", name, text, h.cli(t, "logs", name))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// awaitSteps waits until it is known what became of every step: a datagram that nobody answers is waited for beyond the run's end.
func (h *host) awaitSteps(t *testing.T, server, profile string) []state.StepEntry {
	t.Helper()
	deadline := time.Now().Add(60 * time.Second)
	for {
		steps := h.record(t, server, profile).Run.Stop.Steps
		if !slices.ContainsFunc(steps, func(e state.StepEntry) bool { return e.Result == "" }) || time.Now().After(deadline) {
			return steps
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (h *host) lastExit(t *testing.T, name string) spec.ExitStatus {
	t.Helper()
	var server struct{ Status spec.ServerStatus }
	if err := json.Unmarshal([]byte(h.cli(t, "get", "servers", name, "-o", "json")), &server); err != nil {
		t.Fatal(err)
	}
	if server.Status.LastExit == nil {
		t.Fatalf("server %s has no last exit", name)
	}
	return *server.Status.LastExit
}

// record is the private record of a scope: the only place where a PID stands.
func (h *host) record(t *testing.T, server, profile string) *state.Record {
	t.Helper()
	scope := spec.Scope{Namespace: spec.DefaultNamespace, Server: server, Profile: profile}
	r, err := state.ReadRecord(filepath.Join(h.state, "keeper", "records", scope.ID()+".json"))
	if err != nil {
		t.Fatal(err)
	}
	if r.Run == nil || r.Run.Identity == nil {
		t.Fatalf("the record of %s has no identity", scope)
	}
	return r
}

func buildBinary(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(proctest.Place(t), "reconciler")
	build := exec.Command("go", "build", "-o", binary, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("cannot build: %v\n%s", err, out)
	}
	if err := os.Chmod(binary, 0o755); err != nil { // whatever the umask is
		t.Fatal(err)
	}
	return binary
}

// serverName is the name of the one Server in an example.
func serverName(t *testing.T, text []byte) string {
	t.Helper()
	for _, doc := range strings.Split(string(text), "\n---\n") {
		if strings.Contains(doc, "kind: Server") {
			_, rest, _ := strings.Cut(doc, "metadata: {name: ")
			name, _, _ := strings.Cut(rest, "}")
			return name
		}
	}
	t.Fatal("the example has no Server")
	return ""
}

// withPort gives the example's Server a port of the test's.
func withPort(text string, port int) string {
	i := strings.LastIndex(text, "spec: {profile: ")
	head, tail := text[:i], text[i:]
	if strings.Contains(tail, "parameters: {") {
		return head + strings.Replace(tail, "parameters: {", fmt.Sprintf("parameters: {port: %d, ", port), 1)
	}
	return head + strings.Replace(tail, "}", fmt.Sprintf(", parameters: {port: %d}}", port), 1)
}
