//go:build real

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// realServer is an example with what its server needs around it.
type realServer struct {
	example string
	program string // what the package installs
	user    string // who runs reconciler: "" = whoever runs the test
	network string // of the port that the test picks
	second  string // the parameter of another port of its, "" = it has none
	files   func(port int) map[string]string
	// settled is nil once it takes signals, for those whose sign is early.
	settled func(pid int) error
	// exit is how it ends at its stop: "0", "1", "SIGTERM".
	exit string
	// counts says that it tells how many play: nobody does.
	counts bool
	killed bool // it is the kill at the ladder's end that ends it
	// step is the step of the ladder that ends it, 0 = the first. Those before it come to what they ask for.
	step int
	// line is sent to its console before the stop, and said is what it prints of it; "" = none. On a rail that carries answers
	// the reply shows it.
	line, said string
	replies    bool
	// game begins one, by lines to its console and what it prints of each; save is the file, below its directory, in which its stop keeps it.
	game   [][2]string
	save   string
	secret string // the reference of its console's password
	// parameters are further ones of the test's, "" = none.
	parameters string
	// manifest is that of a server of the test's own, whose profile is called as example says; "" = the example's.
	manifest string
}

var realServers = []realServer{
	{example: "echo", program: "/usr/bin/perl", network: "tcp", exit: "0"},
	{example: "openttd", counts: true, program: "/usr/games/openttd", network: "tcp", exit: "0", step: 2, line: "echo reconciler-was-here", said: "reconciler-was-here", files: openttdFiles},
	{example: "minetest", program: "/usr/lib/minetest/minetestserver", network: "udp", exit: "0", files: minetestFiles},
	// With `set aifill` to fewer than are there it aborts at its end, after it has saved: free(): invalid pointer (3.0.6).
	{example: "freeciv", program: "/usr/games/freeciv-server", user: "nobody", network: "tcp", exit: "0", save: "saves/freeciv-T*-interrupted.sav.xz", game: [][2]string{
		{"set minplayers 0", "'minplayers' has been set to 0"}, {"start", "Game saved as saves/freeciv-T0001"},
	}},
	{example: "bzflag", program: "/usr/games/bzfs", network: "tcp", exit: "0"},
	{example: "nginx", program: "/usr/sbin/nginx", network: "tcp", exit: "0"},
	{example: "nginx", program: "/usr/sbin/nginx", user: "nobody", network: "tcp", exit: "0"},
	// Its master executes itself again after it has said that it is loaded, and loses signals meanwhile.
	{example: "haproxy", program: "/usr/sbin/haproxy", network: "tcp", exit: "0", files: haproxyFiles, settled: reexecuted},
	{example: "microsocks", program: "/usr/bin/microsocks", network: "tcp", exit: "SIGTERM"},
	// It is graceful through its FIFO alone.
	{example: "wesnothd", program: "/usr/games/wesnothd-1.16", network: "tcp", exit: "0", step: 2, line: "status", said: "STATUS REPORT", files: wesnothdFiles},
	{example: "redis", program: "/usr/bin/redis-server", network: "tcp", exit: "0"},
	{example: "teeworlds", program: "/usr/games/teeworlds-server", network: "udp", exit: "0", step: 2, line: "echo reconciler-was-here", said: "[Console]: reconciler-was-here", replies: true, secret: "deathmatch/econ"},
	{example: "teeworlds", program: "/usr/games/teeworlds-server", user: "nobody", network: "udp", exit: "0", step: 2, line: "echo reconciler-was-here", said: "[Console]: reconciler-was-here", replies: true, secret: "deathmatch/econ"},
	{example: "openarena", counts: true, program: "/usr/lib/openarena-server/baseoa/pak0.pk3", network: "udp", exit: "0", step: 2, line: "status", said: "map: oa_dm1", replies: true, secret: "arena/rcon"},
	{example: "flying-squid", counts: true, program: filepath.Join(flyingSquidModules, "flying-squid"), network: "tcp", exit: "0", line: "say reconciler-was-here", said: "[Server] reconciler-was-here", files: flyingSquidFiles, parameters: "modules: " + flyingSquidModules},
	{example: "caddy", program: "/usr/bin/caddy", network: "tcp", second: "adminPort", exit: "0", files: caddyFiles},
}

// flyingSquidModules is where `make flying-squid` puts it.
var flyingSquidModules = filepath.Join(cacheHome(), "reconciler-tests/flying-squid/node_modules")

func cacheHome() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "/nowhere" // then nothing is installed there
	}
	return dir
}

func flyingSquidFiles(int) map[string]string {
	return map[string]string{"server.js": `const defaults = require('flying-squid/config/default-settings.json')
require('flying-squid').createMCServer({...defaults, host: '127.0.0.1', port: +process.argv[2], 'online-mode': false, logging: false, version: '1.16.5', debug: console.log})
`}
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

// reexecuted is nil once HAProxy's master has executed itself again, as its environment tells, and blocks no signal any more.
func reexecuted(pid int) error {
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return err
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return err
	}
	if !strings.Contains(string(env), "HAPROXY_MWORKER_REEXEC=") || !strings.Contains(string(status), "\nSigBlk:\t0000000000000000\n") {
		return fmt.Errorf("the master is not there yet:\n%s", status)
	}
	return nil
}
