package keeper_test

import (
	"fmt"
	"net"
	"reflect"
	"testing"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
)

// listening is what the keeper tells of a run's endpoints; nothing when it has no such run.
func (r *rig) listening(l spec.Launch, run *observe.RunFacts) []observe.Listening {
	r.t.Helper()
	name := observe.RunName{Scope: l.Scope, ID: run.ID}
	found, err := r.client.Listening(r.t.Context(), []observe.RunName{name, {Scope: scopeOf("nobody"), ID: "x"}})
	if err != nil {
		r.t.Fatal(err)
	}
	switch {
	case len(found) == 0:
		return nil
	case len(found) > 1 || found[0].RunName != name:
		r.t.Fatalf("it tells of %+v", found)
	}
	return found[0].Endpoints
}

// listener is a launch of a workload that listens on an address and declares the endpoints.
func (r *rig) listener(name, address string, endpoints ...spec.LaunchEndpoint) spec.Launch {
	l := r.launch(name, "late-port", "-after", "0", "-addr", address)
	l.Readiness.Log = []string{"listening tcp"}
	l.Endpoints = endpoints
	return l
}

func tcpEndpoint(name string, port int, address string) spec.LaunchEndpoint {
	return spec.LaunchEndpoint{Name: name, Port: port, Protocol: spec.ProtocolTCP, Address: address}
}

// EC-11: an endpoint is a run's when its own processes listen on it, and a stranger's listener is not ours.
func TestListening(t *testing.T) {
	t.Run("with cgroups, where there are some", func(t *testing.T) { listening(t, newRig(t)) })
	t.Run("without cgroups", func(t *testing.T) {
		r := newRigWithoutKeeper(t)
		r.startKeeper("-no-cgroups")
		r.connect()
		listening(t, r)
	})
}

func listening(t *testing.T, r *rig) {
	want := func(what string, got []observe.Listening, want ...observe.Listening) {
		t.Helper()
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: it tells %+v, want %+v", what, got, want)
		}
	}
	port, closed := freePort(t), freePort(t)
	own := r.listener("own", fmt.Sprintf("127.0.0.1:%d", port), tcpEndpoint("game", port, "127.0.0.1"), tcpEndpoint("query", closed, ""),
		spec.LaunchEndpoint{Name: "lan", Port: port, Protocol: spec.ProtocolUDP})
	run := r.ready(own).Run
	for range 2 { // the second time it is known whose the socket is
		want("its own", r.listening(own, run), observe.Listening{Endpoint: "game", By: observe.ListenerOwn},
			observe.Listening{Endpoint: "query", By: observe.ListenerNobody}, observe.Listening{Endpoint: "lan", By: observe.ListenerNobody})
	}

	late := r.listener("late", "127.0.0.1:0", tcpEndpoint("game", port, "127.0.0.1"), tcpEndpoint("query", closed, ""))
	lateRun := r.ready(late).Run
	stranger, err := net.Listen("tcp", fmt.Sprintf("0.0.0.0:%d", closed))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		want("others'", r.listening(late, lateRun), observe.Listening{Endpoint: "game", By: observe.ListenerStranger, Holder: &own.Scope},
			observe.Listening{Endpoint: "query", By: observe.ListenerStranger})
	}
	stranger.Close()
	want("nobody's any more", r.listening(late, lateRun)[1:], observe.Listening{Endpoint: "query", By: observe.ListenerNobody})

	wide := r.listener("wide", fmt.Sprintf("0.0.0.0:%d", closed), tcpEndpoint("game", closed, "127.0.0.1"))
	want("on every address", r.listening(wide, r.ready(wide).Run), observe.Listening{Endpoint: "game", By: observe.ListenerOwn, Wide: true, Public: true})

	signalTo(t, r.pid(own.Scope), unix.SIGKILL)
	r.awaitOver(own.Scope)
	if got := r.listening(own, run); got != nil {
		t.Errorf("of a run that is over it tells %+v", got)
	}
	want("free again", r.listening(late, lateRun)[:1], observe.Listening{Endpoint: "game", By: observe.ListenerNobody})
}

// The sockets of a server in a network of its own are looked for there, and one of the same port in ours is no matter.
func TestListeningInAnotherNetwork(t *testing.T) {
	if err := networkOfOnesOwn(); err != nil {
		t.Skipf("this test may not make a network namespace: %v", err)
	}
	r := newRig(t)
	l := r.remote("town", "telnet", "-alone")
	foreign, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", l.Endpoints[0].Port))
	if err != nil {
		t.Fatal(err)
	}
	defer foreign.Close()
	got := r.listening(l, r.ready(l).Run)
	if len(got) != 1 || got[0] != (observe.Listening{Endpoint: "door", By: observe.ListenerOwn}) {
		t.Errorf("it tells %+v", got)
	}
}

// What a look at runs that were seen to listen before costs, for each.
func BenchmarkListening(b *testing.B) {
	const runs = 50
	r := newRig(b)
	var names []observe.RunName
	for i := range runs {
		port := freePort(b)
		l := r.listener(fmt.Sprintf("town-%d", i), fmt.Sprintf("127.0.0.1:%d", port), tcpEndpoint("game", port, "127.0.0.1"))
		names = append(names, observe.RunName{Scope: l.Scope, ID: r.ready(l).Run.ID})
	}
	b.ResetTimer()
	for range b.N {
		found, err := r.client.Listening(b.Context(), names)
		if err != nil || len(found) != runs || found[0].Endpoints[0].By != observe.ListenerOwn {
			b.Fatalf("%+v, %v", found, err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/runs, "ns/run")
}
