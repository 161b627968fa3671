package faultd

import (
	"context"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"reconciler.dev/reconciler/observe/probe"
	"reconciler.dev/reconciler/spec"
)

// deafWord is no number.
const deafWord = "deaf"

// endpoint is what a workload says it listens on.
func endpoint(t *testing.T, said, protocol string) spec.LaunchEndpoint {
	t.Helper()
	at, err := netip.ParseAddrPort(address(said))
	if err != nil {
		t.Fatal(err)
	}
	return spec.LaunchEndpoint{Name: "game", Port: int(at.Port()), Address: at.Addr().String(), Protocol: protocol, AppProtocol: spec.AppSOCKS5}
}

func TestGame(t *testing.T) {
	for _, c := range []struct{ protocol, query, network string }{{"minecraft", "Minecraft", spec.ProtocolTCP}, {"a2s", "A2S", spec.ProtocolUDP}} {
		t.Run(c.protocol, func(t *testing.T) {
			state := filepath.Join(t.TempDir(), "players")
			w := start(t, "game", "-protocol", c.protocol, "-state", state)
			e := endpoint(t, w.expect("game listening "), c.network)
			players := &spec.LaunchPlayers{Query: &spec.Query{Protocol: c.query}}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if n, err := (probe.Checker{}).Count(ctx, e, players); n != 0 || err != nil {
				t.Errorf("%d players, %v", n, err)
			}
			if err := os.WriteFile(state, []byte("7\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			if n, err := (probe.Checker{}).Count(ctx, e, players); n != 7 || err != nil {
				t.Errorf("%d players, %v", n, err)
			}
			if err := os.WriteFile(state, []byte(deafWord), 0o644); err != nil {
				t.Fatal(err)
			}
			short, cancelShort := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancelShort()
			if n, err := (probe.Checker{}).Count(short, e, players); err == nil {
				t.Errorf("%d players of a deaf server", n)
			}
		})
	}
}

func TestSOCKS(t *testing.T) {
	far, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := far.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 1024))
			_, _ = c.Write([]byte("HTTP/1.1 204 No Content\r\n\r\n"))
			c.Close()
		}
	}()
	defer func() {
		far.Close()
		<-done
	}()
	state := filepath.Join(t.TempDir(), "state")
	w := start(t, "socks", "-state", state)
	e := endpoint(t, w.expect("socks listening "), spec.ProtocolTCP)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	through := &spec.LaunchProbe{Proxy: &spec.ProxyProbe{URL: "http://" + far.Addr().String() + "/"}}
	if err := (probe.Checker{}).Check(ctx, e, through); err != nil {
		t.Error(err)
	}
	if err := (probe.Checker{}).Check(ctx, e, &spec.LaunchProbe{Proxy: &spec.ProxyProbe{URL: "http://[::1]:1/"}}); err == nil {
		t.Error("there is a way to port 1")
	}
	if err := os.WriteFile(state, []byte(deafWord), 0o644); err != nil {
		t.Fatal(err)
	}
	short, cancelShort := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancelShort()
	if err := (probe.Checker{}).Check(short, e, through); err == nil {
		t.Error("a deaf proxy answers")
	}
}
