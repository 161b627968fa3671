//go:build bench

package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"reconciler.dev/reconciler/cmd/reconciler/internal/api"
	"reconciler.dev/reconciler/cmd/reconciler/internal/client"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// misbehaviour is one thing that is wrong with some servers. Their profile has its name.
type misbehaviour struct {
	name     string
	servers  int
	values   string // of its parameters; %d is a port of its own
	jobs     bool   // a job carries out the command hang of each
	stops    int    // so many of them are stopped
	sends    bool   // lines are sent to each, one after the other
	followed bool   // a client follows the log of each and never reads
	frozen   bool   // each has got SIGSTOP
}

// misbehaviours are, five servers each: consoles that hang, readers that block, programs that never end, processes that stand still.
var misbehaviours = []misbehaviour{
	{name: "mute", servers: 3, values: "port: %d, rcon: bench/rcon", jobs: true},
	{name: "silent", servers: 2, values: "port: %d, rcon: bench/rcon", sends: true},
	{name: "flood", servers: 5, followed: true},
	{name: "program", servers: 3, jobs: true},
	{name: "ladder", servers: 2, stops: 2},
	{name: "frozen", servers: 5, values: "port: %d", stops: 3, frozen: true},
}

func (m misbehaviour) server(i int) string { return fmt.Sprintf("%s-%d", m.name, i) }

// troubled is how many servers misbehave, in all.
var troubled = len(troubleNames())

// troubleNames are the servers that misbehave.
func troubleNames() []string {
	var names []string
	for _, m := range misbehaviours {
		for i := range m.servers {
			names = append(names, m.server(i))
		}
	}
	return names
}

// troubleProfiles are those of the servers that misbehave, with room for the FIFO of the workload. An hour is longer than any measure.
const troubleProfiles = `apiVersion: reconciler.dev/v1alpha1
kind: Profile
metadata: {name: mute}
spec:
  parameters: [{name: port, type: Integer}, {name: rcon, type: Secret}]
  actions:
    start: {workspace: bench, executable: faultd, args: [rcon, -mode, mute, -addr, "127.0.0.1:$(port)", -life, 1h]}
    commands: [{name: hang, console: {line: save, expect: saved}, timeoutSeconds: 3600}]
  console: {input: RCON, endpoint: rcon, password: $(rcon)}
  endpoints: [{name: rcon, port: $(port), address: 127.0.0.1}]
---
apiVersion: reconciler.dev/v1alpha1
kind: Profile
metadata: {name: silent}
spec:
  parameters: [{name: port, type: Integer}, {name: rcon, type: Secret}]
  actions:
    start: {workspace: bench, executable: faultd, args: [rcon, -mode, silent, -addr, "127.0.0.1:$(port)", -life, 1h]}
  console: {input: RCON, endpoint: rcon, password: $(rcon)}
  endpoints: [{name: rcon, port: $(port), address: 127.0.0.1}]
---
apiVersion: reconciler.dev/v1alpha1
kind: Profile
metadata: {name: flood}
spec:
  actions: {start: {workspace: bench, executable: faultd, args: [flood, -mbps, "1", -for, 1h, -life, 1h]}}
---
apiVersion: reconciler.dev/v1alpha1
kind: Profile
metadata: {name: program}
spec:
  actions:
    start: {workspace: bench, executable: workload, args: [%[1]q, $(server.name)]}
    commands: [{name: hang, exec: {workspace: usr, executable: bin/sleep, args: ["3600"]}, timeoutSeconds: 3600}]
---
apiVersion: reconciler.dev/v1alpha1
kind: Profile
metadata: {name: ladder}
spec:
  actions:
    start: {workspace: bench, executable: workload, args: [%[1]q, $(server.name)]}
    stop: {steps: [{exec: {workspace: usr, executable: bin/sleep, args: ["3600"]}, waitSeconds: 3600}]}
---
apiVersion: reconciler.dev/v1alpha1
kind: Profile
metadata: {name: frozen}
spec:
  parameters: [{name: port, type: Integer}]
  actions:
    start: {workspace: bench, executable: faultd, args: [socks, -addr, "127.0.0.1:$(port)", -life, 1h]}
    stop: {steps: [{signal: {name: SIGTERM}, waitSeconds: 3600}]}
  endpoints: [{name: socks, port: $(port), address: 127.0.0.1, appProtocol: SOCKS5}]
  readinessProbe: {proxy: {endpoint: socks}, periodSeconds: 1, timeoutSeconds: 5, failureThreshold: 1}
  livenessProbe: {proxy: {endpoint: socks}, periodSeconds: 1, timeoutSeconds: 5, failureThreshold: 1000}
`

// trouble is what the servers that misbehave are put through.
type trouble struct {
	*stand
	client *client.Client
	ctx    context.Context
	cancel context.CancelFunc
	doing  sync.WaitGroup
	values map[string]string // by server

	followed atomic.Int64 // logs that are open
}

// newTrouble declares the servers, before there is a reconciler.
func newTrouble(s *stand) *trouble {
	s.t.Helper()
	tr := &trouble{stand: s, client: client.New(s.layout().APISocket()), values: map[string]string{}}
	tr.ctx, tr.cancel = context.WithCancel(context.Background())
	s.t.Cleanup(tr.end)
	tr.writeSecret()
	s.write(filepath.Join(s.manifests(), "trouble.yaml"), fmt.Appendf(nil, troubleProfiles, s.fifo))
	for _, m := range misbehaviours {
		for i := range m.servers {
			if m.values != "" {
				port, err := findPort("tcp")
				if err != nil {
					s.t.Fatal(err)
				}
				tr.values[m.server(i)] = fmt.Sprintf(", parameters: {"+m.values+"}", port)
			}
			tr.declare(m, i, spec.WishRunning)
		}
	}
	return tr
}

func (tr *trouble) declare(m misbehaviour, i int, state string) {
	tr.declareServer(m.server(i), m.name, ", state: "+state+tr.values[m.server(i)])
}

func (tr *trouble) writeSecret() {
	dir := filepath.Join(tr.layout().Secrets(), "bench")
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "rcon"), []byte("secret"), 0o600)
	}
	if err != nil {
		tr.t.Fatal(err)
	}
}

// begin makes trouble of everything, once all of it is up.
func (tr *trouble) begin() {
	tr.t.Helper()
	tr.until(tr.up)
	for _, m := range misbehaviours {
		for i := range m.servers {
			name := m.server(i)
			if m.frozen {
				tr.freeze(name)
			}
			if m.jobs {
				tr.replace("hang-"+name+".yaml", fmt.Sprintf(`apiVersion: reconciler.dev/v1alpha1
kind: Job
metadata: {name: hang-%[1]s}
spec: {server: %[1]s, command: hang}
`, name))
			}
			if i < m.stops {
				tr.declare(m, i, spec.WishStopped)
			}
			if m.sends {
				tr.doing.Go(func() { tr.send(name) })
			}
			if m.followed {
				tr.doing.Go(func() { tr.follow(name) })
			}
		}
	}
	tr.until(tr.there)
}

// up says which server is not Ready yet.
func (tr *trouble) up() error {
	servers, err := listed[spec.ServerStatus](tr, api.Servers)
	if err != nil {
		return err
	}
	for _, name := range troubleNames() {
		if !ready(servers[name]) {
			return fmt.Errorf("%s is %q, not Ready", name, servers[name].State)
		}
	}
	return nil
}

// freeze stops a server's process, and waits until it stands still.
func (tr *trouble) freeze(name string) {
	tr.t.Helper()
	scope := spec.Scope{Namespace: spec.DefaultNamespace, Server: name, Profile: "frozen"}
	r, err := state.ReadRecord(filepath.Join(tr.layout().Keeper(), "records", scope.ID()+".json"))
	if err == nil {
		err = kill(r.Run.Identity.PID, syscall.SIGSTOP, false)
	}
	if err != nil {
		tr.t.Fatal(err)
	}
}

// send sends one line after the other. None of them is taken.
func (tr *trouble) send(name string) {
	for tr.ctx.Err() == nil {
		var r api.Receipt
		err := tr.client.Post(tr.ctx, tr.path(name, api.VerbSend), api.Line{Line: "save"}, &r)
		if tr.ctx.Err() == nil && (err != nil || state.DeliveryResult(r.Result) != state.Undeliverable) {
			tr.wrong("a line to %s has %q, %v", name, r.Result, err)
			return
		}
	}
}

// follow opens a log, and reads nothing of it.
func (tr *trouble) follow(name string) {
	body, err := tr.client.Stream(tr.ctx, tr.path(name, "log"), url.Values{api.QueryFollow: {"true"}})
	if err != nil {
		tr.wrong("cannot follow the log of %s: %v", name, err)
		return
	}
	defer body.Close()
	tr.followed.Add(1)
	<-tr.ctx.Done()
}

func (tr *trouble) path(name, verb string) string {
	return api.ObjectPath(api.Servers, spec.Key{Namespace: spec.DefaultNamespace, Name: name}, verb)
}

// wrong puts down that somebody behaves who should not.
func (tr *trouble) wrong(format string, args ...any) {
	tr.t.Errorf(format, args...)
	tr.cancel()
}

// check fails if some of the trouble is over, or never came.
func (tr *trouble) check() {
	tr.t.Helper()
	if err := tr.there(); err != nil {
		tr.t.Fatalf("there is not all of the trouble: %v", err)
	}
}

// there says what is missing of the trouble.
func (tr *trouble) there() error {
	servers, err := listed[spec.ServerStatus](tr, api.Servers)
	if err != nil {
		return err
	}
	jobs, err := listed[spec.JobStatus](tr, api.Jobs)
	if err != nil {
		return err
	}
	readers := int64(0)
	for _, m := range misbehaviours {
		if m.followed {
			readers += int64(m.servers)
		}
		for i := range m.servers {
			name := m.server(i)
			st := servers[name]
			switch {
			case i < m.stops && st.State != spec.StateStopping:
				return fmt.Errorf("%s is %s, not being stopped", name, st.State)
			case m.frozen && i >= m.stops && ready(st):
				return fmt.Errorf("%s stands still and is Ready", name)
			case m.jobs && jobs["hang-"+name].Phase != spec.JobRunning:
				return fmt.Errorf("the job of %s is %q, not running: %s", name, jobs["hang-"+name].Phase, jobs["hang-"+name].Message)
			}
		}
	}
	if n := tr.followed.Load(); n < readers {
		return fmt.Errorf("%d of %d logs are followed", n, readers)
	}
	return tr.ctx.Err()
}

func ready(st spec.ServerStatus) bool {
	return slices.ContainsFunc(st.Conditions, func(c spec.Condition) bool { return c.Type == spec.ConditionReady && c.Status == "True" })
}

// listed is the status of every object of a resource, by name.
func listed[Status any](tr *trouble, resource string) (map[string]Status, error) {
	var list struct {
		Items []struct {
			Metadata struct{ Name string }
			Status   Status
		}
	}
	if err := tr.client.Get(tr.ctx, api.ListPath(resource, ""), nil, &list); err != nil {
		return nil, err
	}
	all := map[string]Status{}
	for _, item := range list.Items {
		all[item.Metadata.Name] = item.Status
	}
	return all, nil
}

// until waits until ask is content. What is asked is another process, which tells nobody.
func (tr *trouble) until(ask func() error) {
	tr.t.Helper()
	err := ask()
	for deadline := time.Now().Add(benchPatience); err != nil && time.Now().Before(deadline); err = ask() {
		time.Sleep(20 * time.Millisecond)
	}
	if err != nil {
		tr.t.Fatal(err)
	}
}

// end ends what the benchmark itself does of the trouble. A second time it does nothing.
func (tr *trouble) end() {
	tr.cancel()
	tr.doing.Wait()
	tr.client.Close()
}
