package proc

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
)

func addresses(text string) (all []netip.Addr) {
	for _, a := range strings.Fields(text) {
		all = append(all, netip.MustParseAddr(a))
	}
	return all
}

func TestJudge(t *testing.T) {
	const own, stranger, nobody, unseen = observe.ListenerOwn, observe.ListenerStranger, observe.ListenerNobody, observe.ListenerUnseen
	for _, c := range []struct {
		what, declared, own, others string
		want                        observe.Listening
	}{
		{"as declared", "127.0.0.1", "127.0.0.1", "", observe.Listening{By: own}},
		{"not yet", "127.0.0.1", "", "", observe.Listening{By: nobody}},
		{"at another address", "10.0.0.1", "127.0.0.1", "", observe.Listening{By: nobody, Elsewhere: true}},
		{"wider than declared", "127.0.0.1", "0.0.0.0", "", observe.Listening{By: own, Wide: true, Public: true}},
		{"wider, both ways", "127.0.0.1", "::", "", observe.Listening{By: own, Wide: true, Public: true}},
		{"every one is declared", "0.0.0.0", "0.0.0.0", "", observe.Listening{By: own, Public: true}},
		{"every one is declared, both ways", "0.0.0.0", "::", "", observe.Listening{By: own, Public: true}},
		{"narrower than declared", "0.0.0.0", "127.0.0.1", "", observe.Listening{By: nobody, Elsewhere: true}},
		{"private", "192.168.1.2", "192.168.1.2", "", observe.Listening{By: own}},
		{"public", "203.0.113.7", "203.0.113.7", "", observe.Listening{By: own, Public: true}},
		{"none is declared", "", "127.0.0.1", "", observe.Listening{By: own}},
		{"none is declared, on all", "", "::", "", observe.Listening{By: own, Public: true}},
		{"none is declared, elsewhere", "", "10.0.0.1", "", observe.Listening{By: own, At: "10.0.0.1"}},
		{"none is declared, IPv6 alone", "", "::1", "", observe.Listening{By: own, At: "::1"}},
		{"none is declared, beside a stranger on this host's own", "", "10.0.0.1", "127.0.0.1", observe.Listening{By: own, At: "10.0.0.1"}},
		{"mapped", "::ffff:127.0.0.1", "127.0.0.1", "", observe.Listening{By: own}},

		{"a stranger", "127.0.0.1", "", "127.0.0.1", observe.Listening{By: stranger}},
		{"a stranger on all", "", "", "0.0.0.0", observe.Listening{By: stranger}},
		{"a stranger at another address", "127.0.0.1", "127.0.0.1", "10.0.0.1", observe.Listening{By: own}},
		{"IPv4 was taken, it went on with IPv6", "", "::", "0.0.0.0", observe.Listening{By: stranger}},
		{"IPv4 was taken, one address", "", "::", "127.0.0.1", observe.Listening{By: stranger}},
		{"a stranger on IPv6", "", "0.0.0.0", "::", observe.Listening{By: own, Public: true}},
		{"a stranger nearer", "127.0.0.1", "0.0.0.0", "127.0.0.1", observe.Listening{By: stranger}},
		{"nearer than a stranger", "127.0.0.1", "127.0.0.1", "0.0.0.0", observe.Listening{By: own}},
		{"with others", "127.0.0.1", "127.0.0.1", "127.0.0.1", observe.Listening{By: own, Shared: true}},
		{"IPv6", "::1", "::1", "127.0.0.1 0.0.0.0", observe.Listening{By: own}},
		{"IPv6 is not IPv4", "::1", "0.0.0.0", "", observe.Listening{By: nobody, Elsewhere: true}},
	} {
		t.Run(c.what, func(t *testing.T) {
			e := spec.LaunchEndpoint{Name: "game", Port: 1, Protocol: spec.ProtocolTCP, Address: c.declared}
			want := c.want
			want.Endpoint = "game"
			if got := Judge(e, addresses(c.own), addresses(c.others), false); got != want {
				t.Errorf("it is %+v, want %+v", got, want)
			}
			// What may be the run's own denies nothing, and nothing else changes.
			want.Shared = false
			if want.By == stranger {
				want = observe.Listening{Endpoint: "game", By: unseen}
			}
			if got := Judge(e, addresses(c.own), addresses(c.others), true); got != want {
				t.Errorf("half seen it is %+v, want %+v", got, want)
			}
		})
	}
}

func TestListeners(t *testing.T) {
	k := probe(t)
	server := newCast(t, "play", nil)
	tcp := netip.MustParseAddrPort(server.ask("listen 127.0.0.1:0"))
	udp := netip.MustParseAddrPort(server.ask("bind 0.0.0.0:0"))
	receiver(t, "tcp", tcp.String()) // a connection is no listener
	receiver(t, "udp", netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), udp.Port()).String())
	p := process(t, k, server.pid)
	found, err := p.Listeners(map[Port]bool{{UDP: false, Number: tcp.Port()}: true, {UDP: true, Number: udp.Port()}: true})
	if err != nil {
		t.Fatal(err)
	}
	var inodes []uint64
	var got []string
	for _, s := range found {
		inodes = append(inodes, s.Inode)
		got = append(got, fmt.Sprintf("%v %s", s.Port.UDP, netip.AddrPortFrom(s.Address, s.Port.Number)))
	}
	if want := []string{"false " + tcp.String(), "true " + udp.String()}; !slices.Equal(got, want) || !whoHolds(t, inodes, server) {
		t.Errorf("%q, held by the server %v; want %q", got, whoHolds(t, inodes, server), want)
	}
	// The tables of /proc tell the same.
	tables, err := listenersIn(fmt.Sprintf("/proc/%d/net/", server.pid), map[Port]bool{{UDP: false, Number: tcp.Port()}: true, {UDP: true, Number: udp.Port()}: true})
	if err != nil || !slices.Equal(tables, found) {
		t.Errorf("by the tables it is %+v, %v; by what the kernel was asked %+v", tables, err, found)
	}
	ours, err := process(t, k, os.Getpid()).Network()
	theirs, errTheirs := p.Network()
	if err != nil || errTheirs != nil || ours != theirs {
		t.Errorf("we are in the network %v, %v, it in %v, %v", ours, err, theirs, errTheirs)
	}
	server.say("exit 0")
	server.wait()
	if _, err := p.Listeners(nil); err != ErrGone {
		t.Errorf("of a process that is gone: %v", err)
	}
	if _, err := p.Network(); err != ErrGone {
		t.Errorf("the network of a process that is gone: %v", err)
	}
}

// diagAnswer is one listener as the kernel tells it.
func diagAnswer(family uint8, local netip.AddrPort, inode uint32) []byte {
	b := make([]byte, unix.NLMSG_HDRLEN+diagAnswerSize)
	binary.NativeEndian.PutUint32(b, uint32(len(b)))
	binary.NativeEndian.PutUint16(b[4:], sockDiagByFamily)
	body := b[unix.NLMSG_HDRLEN:]
	body[0] = family
	binary.BigEndian.PutUint16(body[diagSourcePort:], local.Port())
	copy(body[diagSource:], local.Addr().AsSlice())
	binary.NativeEndian.PutUint32(body[diagInode:], inode)
	return b
}

func diagEnd(kind uint16) []byte {
	b := make([]byte, unix.NLMSG_HDRLEN+4)
	binary.NativeEndian.PutUint32(b, uint32(len(b)))
	binary.NativeEndian.PutUint16(b[4:], kind)
	return b
}

func TestParseDiag(t *testing.T) {
	at := netip.MustParseAddrPort
	four, six, other := at("127.0.0.1:8080"), at("[::1]:8080"), at("0.0.0.0:9090")
	ports := map[Port]bool{{Number: 8080}: true}
	b := slices.Concat(diagAnswer(unix.AF_INET, four, 7), diagAnswer(unix.AF_INET, other, 8), diagAnswer(unix.AF_INET6, six, 9))
	want := []ListeningSocket{{Port{Number: 8080}, four.Addr(), 7}, {Port{Number: 8080}, six.Addr(), 9}}
	found, done, err := parseDiag(b, false, ports, nil)
	if err != nil || done || !slices.Equal(found, want) {
		t.Errorf("%+v, done %v, %v, want %+v", found, done, err, want)
	}
	found, done, err = parseDiag(slices.Concat(b[:len(diagAnswer(unix.AF_INET, four, 7))], diagEnd(unix.NLMSG_DONE)), false, ports, nil)
	if err != nil || !done || !slices.Equal(found, want[:1]) {
		t.Errorf("the last: %+v, done %v, %v", found, done, err)
	}
	connected := diagAnswer(unix.AF_INET, four, 7)
	binary.BigEndian.PutUint16(connected[unix.NLMSG_HDRLEN+diagRemotePort:], 1)
	if found, _, err := parseDiag(connected, true, map[Port]bool{{UDP: true, Number: 8080}: true}, nil); err != nil || len(found) > 0 {
		t.Errorf("one that talks to somebody is told as a listener: %+v, %v", found, err)
	}
	if _, _, err := parseDiag(diagEnd(unix.NLMSG_ERROR), false, ports, nil); err != errNoDiag {
		t.Errorf("an error: %v", err)
	}
	for _, bad := range [][]byte{b[:len(b)-1], diagEnd(sockDiagByFamily), make([]byte, unix.NLMSG_HDRLEN)} {
		if found, _, err := parseDiag(bad, false, ports, nil); err == nil {
			t.Errorf("%x is read as %+v", bad, found)
		}
	}
}

func FuzzParseDiag(f *testing.F) {
	four := netip.MustParseAddrPort("127.0.0.1:8080")
	f.Add(slices.Concat(diagAnswer(unix.AF_INET, four, 7), diagEnd(unix.NLMSG_DONE)), false)
	f.Add(diagEnd(unix.NLMSG_ERROR), true)
	f.Fuzz(func(t *testing.T, b []byte, udp bool) {
		found, _, err := parseDiag(b, udp, map[Port]bool{{UDP: udp, Number: 8080}: true}, nil)
		for _, s := range found {
			if err == nil && (s.Port != Port{udp, 8080} || !s.Address.IsValid()) {
				t.Errorf("%x is read as %+v", b, s)
			}
		}
	})
}

// A host with as many connections as a busy proxy has.
func BenchmarkParseSockets(b *testing.B) {
	rows := strings.Split(tcpTable, "\n")
	text := rows[0] + "\n" + strings.Repeat(rows[2]+"\n", 10_000)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := parseSockets(strings.NewReader(text), port(1)); err != nil {
			b.Fatal(err)
		}
	}
}
