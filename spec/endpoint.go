package spec

import "net/netip"

// Overlaps reports whether no two programs can listen on both endpoints: they have the protocol and the port in common, and one
// address, or one of them has every address of the other's family. No address is every one of both, and every one of IPv6
// takes those of IPv4 too, as Linux has it unless a program asks otherwise (ipv6(7), IPV6_V6ONLY).
func (e *LaunchEndpoint) Overlaps(o *LaunchEndpoint) bool {
	if e.Protocol != o.Protocol || e.Port != o.Port {
		return false
	}
	if e.Address == o.Address {
		return true
	}
	x, errX := netip.ParseAddr(e.Address)
	y, errY := netip.ParseAddr(o.Address)
	if errX != nil || errY != nil {
		return true
	}
	x, y = x.Unmap(), y.Unmap()
	covers := func(every, one netip.Addr) bool { return every.IsUnspecified() && (every.Is6() || one.Is4()) }
	return x == y || covers(x, y) || covers(y, x)
}
