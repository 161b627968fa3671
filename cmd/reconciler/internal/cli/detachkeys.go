package cli

// The keys that detach, one after the other, as elsewhere: Ctrl-P Ctrl-Q.
const (
	ctrlC = 0x03
	ctrlP = 0x10
	ctrlQ = 0x11
)

// detachKeys finds the keys that detach in what is typed. A Ctrl-P is held back until it is known what follows.
type detachKeys struct{ held bool }

// take returns the keys that are for the server, and whether those that detach came after them; what follows is for nobody.
func (d *detachKeys) take(p []byte) (keys []byte, detached bool) {
	keys = make([]byte, 0, len(p)+1)
	for _, k := range p {
		switch {
		case d.held && k == ctrlQ:
			d.held = false
			return keys, true
		case d.held && k == ctrlP:
			keys = append(keys, ctrlP) // the second one is held
		case d.held:
			d.held = false
			keys = append(keys, ctrlP, k)
		case k == ctrlP:
			d.held = true
		default:
			keys = append(keys, k)
		}
	}
	return keys, false
}
