package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// cage is an installation of which every byte that leaves keeper or reconciler is kept, to look for canaries in it.
type cage struct {
	t      *testing.T
	dir    string
	layout state.Layout
	bin    string
	vars   []string
	keeper traced
	run    traced
	said   []utterance // what commands and pages have said
}

// traced is a process of ours that is followed call by call.
type traced struct {
	name    string
	cmd     *exec.Cmd
	tracer  *tracer
	out     lockedBuffer // what it said on its outputs
	traffic lockedBuffer // what it wrote and sent: to files, sockets and its outputs
}

type utterance struct{ what, text string }

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func newCage(t *testing.T) *cage {
	dir, err := os.MkdirTemp("", "canaries-") // t.TempDir is too long a path for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	faultd, err := exec.LookPath("faultd")
	if err != nil {
		t.Fatal(err)
	}
	c := &cage{t: t, dir: dir, bin: filepath.Dir(faultd), layout: state.Layout{State: dir + "/s", Runtime: dir + "/r"}}
	c.vars = []string{
		"HOME=" + dir, "TMPDIR=" + dir, "PATH=" + os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0",
		"RECONCILER_STATE_DIR=" + c.layout.State, "RECONCILER_RUNTIME_DIR=" + c.layout.Runtime,
	}
	for _, d := range []string{"/m", "/s", "/s/secrets"} {
		if err := os.Mkdir(dir+d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	c.must(os.Chmod(c.layout.State, 0o711))
	return c
}

func (c *cage) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *cage) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(c.bin, "reconciler"), args...)
	cmd.Dir, cmd.Env = c.dir, c.vars
	return cmd
}

// follow starts one of our long-lived commands and keeps what leaves it.
func (c *cage) follow(p *traced, args ...string) {
	c.t.Helper()
	p.name = "the " + args[0]
	p.cmd = c.command(context.Background(), args...)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	started := func() {}
	if p == &c.keeper {
		started = belowUs(c.t, p.cmd)
	}
	var err error
	p.tracer, err = startTraced(p.cmd, func(call *call) {
		if !call.after {
			_, _ = p.traffic.Write(sent(call)) // a buffer takes everything
		}
	})
	started()
	c.must(err)
	c.t.Cleanup(func() { c.end(p) })
}

// end lets a followed process end.
func (c *cage) end(p *traced) {
	_ = p.cmd.Process.Signal(os.Interrupt)
	<-p.tracer.ended
	if p.tracer.err != nil {
		c.t.Errorf("cannot follow %s: %v", p.name, p.tracer.err)
	}
}

// await asks until something is so, about which nobody tells us.
func (c *cage) await(what string, is func() bool) {
	c.t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			c.t.Fatalf("it never came to pass that %s; the keeper said:\n%s\nthe reconciler said:\n%s", what, &c.keeper.out, &c.run.out)
		}
	}
}

// secret lays a secret down.
func (c *cage) secret(ref, content string, mode os.FileMode) {
	c.t.Helper()
	path := filepath.Join(c.layout.Secrets(), ref)
	c.must(errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path+".next", []byte(content), 0o600),
		os.Chmod(path+".next", mode), os.Rename(path+".next", path)))
}

// say runs a command that ends, and keeps what it says.
func (c *cage) say(args ...string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience) // the last is said when the test is over
	defer cancel()
	out, err := c.command(ctx, args...).CombinedOutput()
	what := "reconciler " + strings.Join(args, " ")
	c.said = append(c.said, utterance{what, string(out)})
	if err != nil && args[0] != "doctor" {
		c.t.Fatalf("%s: %v\n%s\nthe keeper said:\n%s\nthe reconciler said:\n%s", what, err, out, &c.keeper.out, &c.run.out)
	}
}

// look runs every command that shows something, and fetches every page.
func (c *cage) look() {
	c.t.Helper()
	for _, line := range looks {
		c.say(strings.Fields(line)...)
	}
	for _, line := range []string{"get server town -o yaml", "get profile game -o json", "logs town", "why open", "why lines", "describe server open", "history lines",
		"get job show-1 -o yaml", "describe job tell-1", "get server arena -o yaml", "describe server arena", "history arena", "logs arena"} {
		c.say(strings.Fields(line)...)
	}
	m := address.FindStringSubmatch(c.run.out.String())
	if m == nil {
		c.t.Fatalf("the pages have no address:\n%s", &c.run.out)
	}
	for _, page := range []string{"/", "/metrics", "/healthz", "/readyz", "/nothing"} {
		text, err := fetch("http://" + m[1] + page)
		c.must(err)
		c.said = append(c.said, utterance{page, text})
	}
}

// pid is the main process of a server's run.
func (c *cage) pid(server string) int {
	c.t.Helper()
	scope := spec.Scope{Namespace: spec.DefaultNamespace, Server: server, Profile: "game"}
	r, err := state.ReadRecord(filepath.Join(c.layout.Keeper(), "records", scope.ID()+".json"))
	c.must(err)
	if r.Run == nil || r.Run.Identity == nil {
		c.t.Fatalf("%s has no process", server)
	}
	return r.Run.Identity.PID
}

const cagedManifests = `apiVersion: reconciler.dev/v1alpha1
kind: Profile
metadata: {name: game}
spec:
  parameters:
  - {name: password, type: Secret}
  - {name: token, type: Secret, inArgs: true}
  actions:
    start: {workspace: bin, executable: faultd, args: [run, -life, 10m, -note, "--token=$(token)"]}
    stop: {steps: [{signal: {name: SIGTERM}, waitSeconds: 60}]}
    commands:
    - {name: show, exec: {workspace: usr, executable: bin/env}}
    - {name: tell, exec: {workspace: usr, executable: bin/echo, args: ["the token is $(token)!"]}}
  env:
  - {name: PASSWORD, value: $(password)}
  - {name: DATABASE, value: "db://game:$(password)@localhost"}
  - {name: CONTROL, value: %[1]s}
  readinessProbe: {log: {contains: [ready]}}
---
apiVersion: reconciler.dev/v1alpha1
kind: Profile
metadata: {name: arena}
spec:
  parameters: [{name: rcon, type: Secret}]
  actions:
    start: {workspace: bin, executable: faultd, args: [rcon, -life, 10m, -addr, "127.0.0.1:%[2]d", -password-env, RCON]}
    stop: {steps: [{console: {line: stop}, waitSeconds: 60}]}
  env: [{name: RCON, value: $(rcon)}]
  endpoints: [{name: rcon, port: %[2]d, address: 127.0.0.1}]
  console: {input: RCON, endpoint: rcon, password: $(rcon)}
  readinessProbe: {log: {contains: [listening]}}
---
apiVersion: reconciler.dev/v1alpha1
kind: Server
metadata: {name: arena}
spec: {profile: arena, parameters: {rcon: arena/rcon}}
---
apiVersion: reconciler.dev/v1alpha1
kind: Server
metadata: {name: town}
spec: {profile: game, parameters: {password: town/password, token: shared/token}}
---
apiVersion: reconciler.dev/v1alpha1
kind: Server
metadata: {name: open}
spec: {profile: game, parameters: {password: town/open, token: shared/token}}
---
apiVersion: reconciler.dev/v1alpha1
kind: Server
metadata: {name: lines}
spec: {profile: game, parameters: {password: town/password, token: town/lines}}
`

// canary is a secret, or what is none.
type canary struct {
	name, text string
	spoken     bool // the keeper sends it to a server, over that server's console
}

func newCanary(name string) canary {
	return canary{name: name, text: "canary-" + name + "-" + strings.ToLower(rand.Text())}
}

// EC-6: a secret's value is where it shall be, in the workload's environment and, as that is allowed, in its arguments, and
// nowhere else: in no file of ours, on no socket, on no terminal, on no page, and in no process that need not have it. A value that is
// no secret shows that it would be found.
func TestCanaries(t *testing.T) {
	t.Parallel()
	c := newCage(t)
	control, password, token, next, open, rcon := newCanary("control"), newCanary("password"), newCanary("token"), newCanary("next"), newCanary("open"), newCanary("rcon")
	rcon.spoken = true
	c.secret("town/password", password.text+"\n", 0o600)
	c.secret("shared/token", token.text, 0o400)
	c.secret("arena/rcon", rcon.text, 0o400)
	c.secret("town/open", open.text, 0o644)                      // refused: everybody may read it
	c.secret("town/lines", open.text+"\n"+open.text+"\n", 0o600) // refused: no argument
	c.must(os.WriteFile(c.dir+"/m/game.yaml", fmt.Appendf(nil, cagedManifests, control.text, freePort(t, "tcp")), 0o600))

	c.follow(&c.keeper, "keeper")
	c.await("the keeper listens", func() bool { _, err := os.Stat(c.layout.KeeperSocket()); return err == nil })
	c.follow(&c.run, "run", "--manifests", "m", "--workspace", "bin="+c.bin, "--listen", "127.0.0.1:0")
	c.await("the reconciler serves", func() bool { return address.MatchString(c.run.out.String()) })
	t.Cleanup(func() { c.say("shutdown") })

	c.ready("town")
	first := c.pid("town")
	c.gives(first, password.text, token.text)
	for _, refused := range []string{"open", "lines"} {
		c.say("wait", "server/"+refused, "--for=condition=Stalled", "--timeout", "60s")
	}
	c.say("do", "town", "show", "--job", "show-1")
	c.say("do", "town", "tell", "--job", "tell-1")
	c.ready("arena")
	c.say("send", "arena", "status")
	c.look()

	c.must(kill(first, syscall.SIGKILL, true))
	c.say("wait", "server/town", "--for=jsonpath={.status.run.number}=2", "--timeout", "60s")
	c.ready("town")
	c.say("restart", "town", "--timeout", "60s")
	c.gives(c.pid("town"), password.text, token.text)
	// A changed secret is seen within half a minute.
	c.secret("town/password", next.text+"\n", 0o600)
	c.say("wait", "server/town", "--for=jsonpath={.status.run.number}=4", "--timeout", "120s")
	c.ready("town")
	c.gives(c.pid("town"), next.text, token.text)
	c.look()
	c.says("reconciler history town", "SecretChanged")
	c.says("reconciler why open", "spec.env[0].value: secret town/open: the file has mode 0644: give it mode 0600 or 0400")
	c.says("reconciler why lines", "spec.actions.start.args[4]: with secret town/lines in its place it must be one line")
	c.says("reconciler do town show --job show-1", "PASSWORD=[secret]")
	c.says("reconciler do town show --job show-1", "DATABASE=db://game:[secret]@localhost")
	c.says("reconciler do town tell --job tell-1", "the token is [secret]!")
	c.says("reconciler get job show-1 -o yaml", "PASSWORD=[secret]")
	c.says("reconciler send arena status", "handed over (RCON)")
	c.says("reconciler history arena", "RCON   <none>    Sent     status")
	c.search(control, password, token, next, open, rcon)
}

func (c *cage) ready(server string) {
	c.t.Helper()
	c.say("wait", "server/"+server, "--for=condition=Ready", "--timeout", "60s")
}

// says checks what a command has said.
func (c *cage) says(what, text string) {
	c.t.Helper()
	for _, s := range c.said {
		if s.what == what && strings.Contains(s.text, text) {
			return
		}
	}
	c.t.Errorf("%s does not say %q", what, text)
}
