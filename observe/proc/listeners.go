package proc

import (
	"errors"
	"net/netip"
	"os"
	"strconv"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
)

// Port is a port of one transport.
type Port struct {
	UDP    bool
	Number uint16
}

// PortOf is the port of an endpoint.
func PortOf(e spec.LaunchEndpoint) Port {
	return Port{UDP: e.Protocol == spec.ProtocolUDP, Number: uint16(e.Port)}
}

// ListeningSocket takes what is sent to a port: over TCP it listens, over UDP it is bound, and connected to nobody.
type ListeningSocket struct {
	Port    Port
	Address netip.Addr // unspecified: every one. That of IPv6 may mean IPv4 too: no table tells
	Inode   uint64
}

// Listeners are the sockets on the ports in the network of the process, whoever has them: one pass over the kernel's tables,
// however many ports there are. [ErrGone] says that the process is no more.
func (p *Process) Listeners(ports map[Port]bool) ([]ListeningSocket, error) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.fd < 0 {
		return nil, os.ErrClosed
	}
	found, err := p.listeners(ports)
	if reaped(p.fd) { // the number may be another's
		return nil, ErrGone
	}
	return found, err
}

// listeners asks the kernel where that is cheap, in our own network, and reads the tables of another.
func (p *Process) listeners(ports map[Port]bool) ([]ListeningSocket, error) {
	theirs, err := networkOf(strconv.Itoa(p.ID.PID))
	ours, errOurs := networkOf("thread-self")
	if err == nil && errOurs == nil && theirs == ours {
		found, err := diagListeners(ports)
		if !errors.Is(err, errNoDiag) {
			return found, err
		}
	}
	return listenersIn("/proc/"+strconv.Itoa(p.ID.PID)+"/net/", ports)
}

func listenersIn(tables string, ports map[Port]bool) (found []ListeningSocket, err error) {
	for _, udp := range []bool{false, true} {
		name := "tcp"
		if udp {
			name = "udp"
		}
		wanted := func(port uint16) bool { return ports[Port{udp, port}] }
		for _, family := range []string{"", "6"} {
			sockets, err := socketsAt(tables+name+family, wanted)
			if family != "" && errors.Is(err, os.ErrNotExist) {
				continue // a host without IPv6
			}
			if err != nil {
				return nil, err
			}
			for _, s := range sockets {
				if udp && s.remote.Port() == 0 || !udp && s.state == tcpListen {
					found = append(found, ListeningSocket{Port{udp, s.local.Port()}, s.local.Addr(), s.inode})
				}
			}
		}
	}
	return found, nil
}

// Judge says who gets what is sent to an endpoint, by the sockets on its port: those of the run's own processes, and all others.
// unseen is set when some of the others may be the run's own.
//
// Where no address is declared, the run may listen wherever it likes; what is compared then is who gets what is sent to
// the loopback address of IPv4, as probes and people on the host do. A server that found its port taken there and went on with IPv6 alone has
// lost it.
func Judge(e spec.LaunchEndpoint, own, others []netip.Addr, unseen bool) observe.Listening {
	l := observe.Listening{Endpoint: e.Name, By: observe.ListenerNobody}
	loopback := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	declared, err := netip.ParseAddr(e.Address)
	at := declared.Unmap()
	if err != nil { // none is declared: what is no address is refused long before
		at = loopback
	}
	best, ours := strongest(own, at)
	if err != nil && ours == none && len(own) > 0 { // it has chosen another address, where nobody disputes it
		best, at = own[0], own[0]
		_, ours = strongest(own, at)
		l.At = best.String()
	}
	_, theirs := strongest(others, at)
	switch {
	case ours == none && theirs == none:
		l.Elsewhere = len(own) > 0
	case ours < theirs:
		l.By = observe.ListenerStranger
	default:
		l.By = observe.ListenerOwn
		l.Shared = ours == theirs
		l.Wide = err == nil && best.IsUnspecified() && !declared.IsUnspecified()
		l.Public = best.IsUnspecified() || !best.IsLoopback() && !best.IsPrivate() && !best.IsLinkLocalUnicast()
	}
	if unseen && l.By == observe.ListenerStranger {
		return observe.Listening{Endpoint: e.Name, By: observe.ListenerUnseen}
	}
	l.Shared = l.Shared && !unseen
	return l
}

// claim is how strong the claim of a socket is to what is sent to an address: the kernel gives it to the one that names the
// address itself, then to one that is bound to all of its family.
type claim int

const (
	none     claim = iota
	bothWays       // IPv6's every address, which may take IPv4 too
	every          // every address of the family
	exact
)

// strongest is the address of those with the strongest claim to what is sent to at.
func strongest(addresses []netip.Addr, at netip.Addr) (best netip.Addr, most claim) {
	for _, a := range addresses {
		if c := claimOf(a, at); c > most {
			best, most = a, c
		}
	}
	return best, most
}

func claimOf(bound, at netip.Addr) claim {
	switch {
	case bound == at:
		return exact
	case !bound.IsUnspecified():
		return none
	case bound.Is4() == at.Is4():
		return every
	case at.Is4():
		return bothWays
	}
	return none
}
