package spec

import "testing"

func TestOverlaps(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"", "", true}, {"", "127.0.0.1", true}, {"", "::1", true}, {"127.0.0.1", "127.0.0.1", true}, {"127.0.0.1", "10.0.0.1", false},
		{"0.0.0.0", "10.0.0.1", true}, {"::", "10.0.0.1", true}, {"::", "::1", true}, {"0.0.0.0", "::1", false}, {"0.0.0.0", "::", true},
		{"::ffff:10.0.0.1", "10.0.0.1", true}, {"::1", "127.0.0.1", false},
	} {
		a, b := LaunchEndpoint{Protocol: ProtocolTCP, Port: 1, Address: c.a}, LaunchEndpoint{Protocol: ProtocolTCP, Port: 1, Address: c.b}
		if a.Overlaps(&b) != c.want || b.Overlaps(&a) != c.want {
			t.Errorf("%q and %q: want %v", c.a, c.b, c.want)
		}
		for _, other := range []LaunchEndpoint{{Protocol: ProtocolUDP, Port: 1, Address: c.b}, {Protocol: ProtocolTCP, Port: 2, Address: c.b}} {
			if a.Overlaps(&other) {
				t.Errorf("%+v and %+v", a, other)
			}
		}
	}
}
