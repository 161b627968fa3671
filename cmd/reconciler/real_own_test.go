//go:build real

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// ownLadders are those of servers of the test's own: consoles that no package of Debian has, and behaviour that is worse than a game's.
var ownLadders = []interrupted{
	remoteServer("rcon", "RCON"),
	remoteServer("webrcon", "WebRCON"),
	{
		realServer: ownServer("ignore-term", "ignore-term, -catch", "catching", "", terminated, "SIGKILL"),
		once:       []string{"got terminated, staying"},
	},
	{
		realServer: ownServer("spawn", "spawn", "spawned", "", terminated+ofTheTree, "0").endedBy(2),
		middle:     1,
		once:       []string{"parent leaves"},
	},
	{
		realServer: ownServer("daemonise", `daemonise, -stay, -ignore, "TERM,INT,HUP,QUIT"`, "daemon launched", "", terminated+ofTheTree, "0").endedBy(2),
		middle:     1,
	},
	{
		realServer: ownServer("freeze", "freeze", "freezing", "", terminated, "SIGKILL"),
		once:       []string{"freezing"},
	},
	{
		realServer: ownServer("console", `console, -prompt, "> ", -delay, 2s, -code, "7"`, "console ready", "  console: {input: Stdin}\n", toldToStop, "7"),
		once:       []string{"stopping"},
	},
}

const (
	toldToStop = "      - {console: {line: stop}, waitSeconds: 3600}\n"
	terminated = "      - {signal: {name: SIGTERM}, waitSeconds: 10}\n"
	ofTheTree  = "      - {signal: {name: SIGTERM, to: Tree}, waitSeconds: 10}\n"
)

// ownServer runs faultd. A ladder of signals alone is one that its like survives: it ends in the kill.
func ownServer(profile, args, ready, more, steps, exit string) realServer {
	return realServer{
		example: profile, network: "tcp", exit: exit, killed: steps != toldToStop,
		manifest: fmt.Sprintf(`apiVersion: reconciler.dev/v1alpha1
kind: Profile
metadata: {name: %[1]s}
spec:
  parameters:
  - {name: port, type: Integer}
  - {name: password, type: Secret}
  actions:
    start: {workspace: own, executable: faultd, args: [%[2]s, -life, 10m]}
    stop:
      steps:
%[5]s  readinessProbe: {log: {contains: [%[3]s]}}
  env:
  - {name: PORT, value: $(port)}
  - {name: PASSWORD, value: $(password)}
%[4]s---
apiVersion: reconciler.dev/v1alpha1
kind: Server
metadata: {name: own}
spec: {profile: %[1]s, parameters: {password: own/password}}
`, profile, args, ready, more, steps),
		secret: "own/password",
	}
}

// endedBy is the server with another last step than the first.
func (s realServer) endedBy(step int) realServer {
	s.step = step
	return s
}

// remoteServer has a console over the network, and says what it was told.
func remoteServer(profile, input string) interrupted {
	more := fmt.Sprintf(`  console: {input: %s, endpoint: console, password: $(password)}
  endpoints: [{name: console, port: $(port), address: 127.0.0.1}]
`, input)
	return interrupted{
		realServer: ownServer(profile, profile+`, -addr, "127.0.0.1:$(port)", -password-env, PASSWORD, -code, "7"`, "listening", more, toldToStop, "7"),
		first:      fmt.Sprintf(middle, "save"),
		once:       []string{profile + ` was told "save"`, profile + ` was told "stop"`},
	}
}

// buildFaultd builds it beside the program.
func buildFaultd(t *testing.T, binary string) {
	t.Helper()
	build := exec.Command("go", "build", "-o", filepath.Join(filepath.Dir(binary), "faultd"), "./testdata/trial/faultd")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("cannot build faultd: %v\n%s", err, out)
	}
}
