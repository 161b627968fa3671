//go:build chaos || crash

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// ending is how a workload may end without anybody's doing.
type ending struct {
	code   int // with signal "" and ends
	signal string
	ends   bool
}

// actor is a server of a trial: its workload, and what its file says at the moment.
type actor struct {
	name   string
	exec   string // relative to the workspace
	within string // workspace
	args   []string
	stop   string   // the ladder, as YAML
	probe  string   // the readinessProbe, as YAML
	own    ending   // how it ends by itself
	onStop []string // how it ends when its ladder asks: "0", "SIGTERM"; SIGKILL always may be
	steady bool     // nobody does anything to it: its process stays
	flood  bool     // its output is numbered
	trail  bool     // its processes leave their numbers

	// What is wanted of it now, written by one goroutine alone.
	turn    int
	state   string // Running or Stopped
	comment int
	file    string // relative to the manifests
	absent  bool
	damaged bool
}

const ladder = "[{signal: {name: SIGTERM}, waitSeconds: 3}]"

// faulty is an actor that runs faultd.
func (tr *trial) faulty(name string, own ending, onStop []string, args ...string) *actor {
	args = append(args, "-life", "24h", "-pids", tr.trailOf(name))
	return &actor{name: name, within: "trial", exec: "faultd", args: args, stop: ladder, own: own, onStop: onStop, trail: true, state: "Running", file: name + ".yaml"}
}

// plain is an actor that runs a program of the host.
func (tr *trial) plain(name, program string, onStop []string, args ...string) *actor {
	return &actor{name: name, within: "usr", exec: strings.TrimPrefix(program, "/usr/"), args: args, stop: ladder, onStop: onStop, state: "Running", file: name + ".yaml"}
}

func (tr *trial) trailOf(name string) string { return filepath.Join(tr.dir, "trail", name) }

// manifest is the actor's file.
func (tr *trial) manifest(a *actor) string {
	args, err := json.Marshal(a.args)
	if err != nil {
		panic(err) // strings always can be
	}
	probe := ""
	if a.probe != "" {
		probe = "  readinessProbe: " + a.probe + "\n"
	}
	text := fmt.Sprintf(`apiVersion: reconciler.dev/v1alpha1
kind: Profile
metadata: {name: %[1]s}
spec:
  parameters: [{name: turn, type: Integer, default: 0}]
  restart: {initialSeconds: 1, maxSeconds: 4}
  actions:
    start:
      workspace: %[2]s
      executable: %[3]s
      args: %[4]s
    stop: {steps: %[5]s}
  env:
  - {name: TRIAL, value: %[6]q}
  - {name: TURN, value: "$(turn)"}
%[10]s---
# comment %[7]d
apiVersion: reconciler.dev/v1alpha1
kind: Server
metadata: {name: %[1]s}
spec: {profile: %[1]s, state: %[8]s, parameters: {turn: %[9]d}}
`, a.name, a.within, a.exec, args, a.stop, tr.marker+"/"+a.name, a.comment, a.state, a.turn, probe)
	if a.damaged {
		text = strings.Replace(text, "metadata: {", "metadata: {{", 2)
	}
	return text
}

// write puts an actor's file in place as git does: written beside, renamed.
func (tr *trial) write(a *actor) {
	path := filepath.Join(tr.manifests(), a.file)
	tmp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".tmp")
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(tmp, []byte(tr.manifest(a)), 0o644)
	}
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		tr.t.Error(err)
	}
	a.absent = false
}

// take takes an actor's file away.
func (tr *trial) take(a *actor) {
	if err := os.Remove(filepath.Join(tr.manifests(), a.file)); err != nil {
		tr.t.Error(err)
	}
	a.absent = true
}

// move gives an actor's file another name.
func (tr *trial) move(a *actor, to string) {
	from := filepath.Join(tr.manifests(), a.file)
	path := filepath.Join(tr.manifests(), to)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		tr.t.Error(err)
	}
	if err := os.Rename(from, path); err != nil {
		tr.t.Error(err)
	}
	a.file = to
}

func (tr *trial) add(actors ...*actor) {
	for _, a := range actors {
		tr.actors[a.name] = a
		tr.write(a)
	}
}
