package proc

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"reconciler.dev/reconciler/state"
)

const (
	tcpTable = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode                                                     
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1082 1 00000000e4a560d9 100 0 0 10 0                      
   1: 0100007F:1F90 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 4711 1 0000000000000000 20 0 0 10 -1                     
   2: 0100007F:1F91 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 9 1 0000000000000000 100 0 0 10 0                      
`
	tcp6Table = `  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0000000000000000FFFF00000100007F:1F90 0000000000000000FFFF00000100007F:9C41 03 00000000:00000000 01:00000014 00000000     0        0 0 1 0000000000000000 20 0 0 10 -1
   1: 00000000000000000000000001000000:1F90 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 12 1 0000000000000000 100 0 0 10 0
`
)

func port(wanted uint16) func(uint16) bool { return func(p uint16) bool { return p == wanted } }

func TestParseSockets(t *testing.T) {
	at := netip.MustParseAddrPort
	for text, want := range map[string][]socket{
		tcpTable: {
			{at("127.0.0.1:8080"), at("0.0.0.0:0"), tcpListen, 1082},
			{at("127.0.0.1:8080"), at("127.0.0.1:40000"), 1, 4711},
		},
		tcp6Table: {
			{at("127.0.0.1:8080"), at("127.0.0.1:40001"), 3, 0},
			{at("[::1]:8080"), at("[::]:0"), tcpListen, 12},
		},
		"":         nil,
		"header\n": nil,
	} {
		got, err := parseSockets(strings.NewReader(text), port(8080))
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%+v, %v, want %+v", got, err, want)
		}
	}
	row := strings.Split(tcpTable, "\n")[1]
	for _, bad := range []string{"x", "0: 0100007F:1F90", strings.Replace(row, "0100007F", "0100007", 1), strings.Replace(row, "0100007F:1F90", "0100007F1F90", 1),
		strings.Replace(row, "1F90", "1F9", 1), strings.Replace(row, "1F90", "1Fxx", 1), strings.Replace(row, " 0A ", " xx ", 1), strings.Replace(row, "1082", "-1", 1),
		strings.Replace(row, "0100007F", "0100007g", 1), strings.Replace(row, "00000000:0000", "00000000:00000", 1)} {
		if got, err := parseSockets(strings.NewReader("header\n"+bad+"\n"), port(8080)); err == nil {
			t.Errorf("%q is read as %+v", bad, got)
		}
	}
	if _, err := parseSockets(strings.NewReader("header\n"+strings.Repeat("x", 1<<20)), port(1)); err == nil {
		t.Error("a row of a mebibyte is read")
	}
}

func FuzzParseSockets(f *testing.F) {
	f.Add([]byte(tcpTable), uint16(8080))
	f.Add([]byte(tcp6Table), uint16(8080))
	f.Add([]byte("header\n1: : : : : : : : : :\n"), uint16(0))
	f.Fuzz(func(t *testing.T, b []byte, port uint16) {
		found, err := parseSockets(strings.NewReader(string(b)), func(p uint16) bool { return p == port })
		for _, s := range found {
			if err == nil && (s.local.Port() != port || !s.local.IsValid() || !s.remote.IsValid()) {
				t.Errorf("%q is read as %+v", b, s)
			}
		}
	})
}

// Datagrams may go to every socket that is bound to the address or to all, but not to one that talks to somebody else.
func TestBound(t *testing.T) {
	at := netip.MustParseAddrPort
	us, them := at("127.0.0.1:40000"), at("127.0.0.1:27960")
	var table []socket
	for i, s := range []socket{
		{local: them, remote: at("0.0.0.0:0")},
		{local: at("0.0.0.0:27960"), remote: at("0.0.0.0:0")},
		{local: at("[::]:27960"), remote: at("[::]:0")},
		{local: them, remote: us},
		{local: at("127.0.0.2:27960"), remote: at("0.0.0.0:0")},
		{local: them, remote: at("127.0.0.1:40001")},
	} {
		s.inode = uint64(i + 1)
		table = append(table, s)
	}
	if got := bound(table, us, them); !slices.Equal(got, []uint64{1, 2, 3, 4}) {
		t.Errorf("a datagram may go to %v", got)
	}
}

// receiver is a connection of this process to an address and who gets what it sends.
func receiver(t *testing.T, network, address string) []uint64 {
	t.Helper()
	c, err := net.Dial(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	local, remote := netip.MustParseAddrPort(c.LocalAddr().String()), netip.MustParseAddrPort(c.RemoteAddr().String())
	got, err := Receivers(network, local, remote)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// whoHolds asks for the sockets' holder among processes, with and without cgroups.
func whoHolds(t *testing.T, sockets []uint64, who ...*cast) bool {
	t.Helper()
	k := probe(t)
	f := Family{}
	for _, c := range who {
		f.Members = append(f.Members, Member{ID: process(t, k, c.pid).ID})
	}
	held, err := k.HoldsSockets(t.Context(), f, sockets)
	if err != nil {
		t.Fatal(err)
	}
	return held
}

func TestReceivers(t *testing.T) {
	addresses := []string{"127.0.0.1:0", "0.0.0.0:0"}
	if l, err := net.Listen("tcp", "[::1]:0"); err == nil { // this host has IPv6
		l.Close()
		addresses = append(addresses, "[::]:0", "[::1]:0")
	}
	for _, address := range addresses {
		t.Run(address, func(t *testing.T) {
			if l, err := net.Listen("tcp", address); err != nil {
				t.Skipf("this host has no such addresses: %v", err)
			} else {
				l.Close()
			}
			server, other := newCast(t, "play", nil), newCast(t, "play", nil)
			_, port, _ := net.SplitHostPort(server.ask("listen " + address))
			to := net.JoinHostPort("127.0.0.1", port)
			if strings.HasPrefix(address, "[::1]") {
				to = net.JoinHostPort("::1", port)
			}

			waits := receiver(t, "tcp", to)
			if len(waits) != 1 || !whoHolds(t, waits, other, server) || whoHolds(t, waits, other) {
				t.Errorf("before it is accepted: sockets %v", waits)
			}
			// The one that is accepted is another socket than the one that listens.
			c, err := net.Dial("tcp", to)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			for range 2 {
				if got := server.ask("accept"); got != "accepted" {
					t.Fatal(got)
				}
			}
			taken, err := Receivers("tcp", netip.MustParseAddrPort(c.LocalAddr().String()), netip.MustParseAddrPort(c.RemoteAddr().String()))
			if err != nil || len(taken) != 1 || taken[0] == waits[0] || !whoHolds(t, taken, server) || whoHolds(t, taken, other) {
				t.Errorf("once accepted: sockets %v, %v", taken, err)
			}
			// What its program has closed is nobody's, not the listener's.
			if got := server.ask("hangup"); got != "hung up" {
				t.Fatal(got)
			}
			if taken, err := Receivers("tcp", netip.MustParseAddrPort(c.LocalAddr().String()), netip.MustParseAddrPort(c.RemoteAddr().String())); !errors.Is(err, ErrEnded) {
				t.Errorf("once closed: sockets %v, %v", taken, err)
			}
		})
	}
	t.Run("udp", func(t *testing.T) {
		server, other := newCast(t, "play", nil), newCast(t, "play", nil)
		got := receiver(t, "udp", server.ask("bind 127.0.0.1:0"))
		if len(got) != 1 || !whoHolds(t, got, server) || whoHolds(t, got, other) {
			t.Errorf("sockets %v", got)
		}
	})
	t.Run("nobody", func(t *testing.T) {
		server := newCast(t, "play", nil)
		address := server.ask("bind 127.0.0.1:0")
		server.say("exit 0")
		server.wait()
		if got := receiver(t, "udp", address); len(got) > 0 {
			t.Errorf("sockets %v", got)
		}
	})
	if _, err := Receivers("no-such-network", netip.AddrPort{}, netip.AddrPort{}); err == nil {
		t.Error("a table that is not there is read")
	}
}

// What a child has counts, and no process that has ended does.
func TestHoldersOfACgroup(t *testing.T) {
	g := group(t, cgroups(t))
	server, other := newCast(t, "play", nil), newCast(t, "play", nil)
	enter(t, g, server.pid, "")
	server.number("child")
	sockets := receiver(t, "tcp", server.ask("tell listen 127.0.0.1:0"))
	strange := receiver(t, "tcp", other.ask("listen 127.0.0.1:0"))
	for _, c := range []struct {
		what    string
		sockets []uint64
		want    bool
	}{
		{"of the child", sockets, true},
		{"a stranger's", strange, false},
		{"one of each", slices.Concat(sockets, strange), false},
		{"none", nil, true},
	} {
		held, err := g.HoldsSockets(t.Context(), c.sockets)
		if err != nil || held != c.want {
			t.Errorf("%s: held %v, %v", c.what, held, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if held, err := g.HoldsSockets(ctx, sockets); held || err == nil {
		t.Errorf("out of time: held %v, %v", held, err)
	}
}

// A recorded process whose number another has by now holds nothing.
func TestHoldersAreVerified(t *testing.T) {
	k := probe(t)
	server := newCast(t, "play", nil)
	sockets := receiver(t, "tcp", server.ask("listen 127.0.0.1:0"))
	id := process(t, k, server.pid).ID
	if k.PidfdInode {
		id.PidfdInode++
	} else {
		id.StartTicks++
	}
	if held, err := k.HoldsSockets(t.Context(), Family{Members: []Member{{ID: id}}}, sockets); held || err != nil {
		t.Errorf("held %v, %v", held, err)
	}
	if held, err := k.HoldsSockets(t.Context(), Family{Members: []Member{{ID: state.Identity{}}}}, sockets); held || err != nil {
		t.Errorf("nobody: held %v, %v", held, err)
	}
}

// An ordinary user learns nothing of the descriptors of root's processes, and is told so. See TestAsOrdinaryUser.
func TestUnseenHolders(t *testing.T) {
	if os.Getenv(insideVar) == "" {
		return
	}
	s := newSearch([]uint64{1})
	s.look(t.Context(), os.Getppid(), func() bool { return true })
	if held, err := s.result(t.Context()); len(held) > 0 || !errors.Is(err, ErrUnseen) {
		t.Errorf("held %v, %v", held, err)
	}
	if err := process(t, probe(t), os.Getppid()).InNetwork(func() { t.Error("it was entered") }); !errors.Is(err, ErrUnseen) {
		t.Errorf("its network: %v", err)
	}
}

// What is done in a network is done on one thread, which comes back from it.
func TestInNetwork(t *testing.T) {
	k := probe(t)
	own, err := networkOf("thread-self")
	if err != nil {
		t.Fatal(err)
	}
	done := false
	if err := process(t, k, os.Getpid()).InNetwork(func() { done = true }); err != nil || !done {
		t.Errorf("in our own: done %v, %v", done, err)
	}
	gone := newCast(t, "play", nil)
	p := process(t, k, gone.pid)
	gone.say("exit 0")
	gone.wait()
	if err := p.InNetwork(func() { t.Error("it was entered") }); !errors.Is(err, ErrGone) {
		t.Errorf("of a process that is gone: %v", err)
	}
	if p.Close(); p.InNetwork(nil) == nil {
		t.Error("a closed handle has a network")
	}
	if os.Getuid() != 0 {
		return
	}
	other := newCast(t, "play", &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET})
	var inside FileID
	err = process(t, k, other.pid).InNetwork(func() { inside, _ = networkOf("thread-self") })
	theirs, _ := networkOf(strconv.Itoa(other.pid))
	if err != nil || inside != theirs || inside == own {
		t.Errorf("in another's: %v, we are in %v, it is in %v, our own is %v", err, inside, theirs, own)
	}
	if back, err := networkOf("thread-self"); err != nil || back != own {
		t.Errorf("back in %v, %v, our own is %v", back, err, own)
	}
}
