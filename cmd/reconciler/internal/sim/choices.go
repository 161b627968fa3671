package sim

// choices is the one stream that decides everything that a run leaves open. When it is used up, every choice is 0.
type choices struct {
	stream []byte
	next   int
}

// choose picks one of n, 0 <= choice < n; n is at most 256.
func (c *choices) choose(n int) int {
	if n <= 1 || c.next >= len(c.stream) {
		return 0
	}
	v := int(c.stream[c.next])
	c.next++
	return v % n
}

func (c *choices) spent() bool { return c.next >= len(c.stream) }

// shrink looks for a shorter stream of smaller choices for which fails still reports true. It gives up after tries runs.
func shrink(stream []byte, tries int, fails func([]byte) bool) []byte {
	try := func(candidate []byte) bool {
		if tries == 0 {
			return false
		}
		tries--
		return fails(candidate)
	}
	for size := len(stream) / 2; size > 0; {
		smaller := false
		for at := 0; at+size <= len(stream); {
			candidate := append(append([]byte{}, stream[:at]...), stream[at+size:]...)
			if try(candidate) {
				stream, smaller = candidate, true
				continue
			}
			at += size
		}
		if !smaller || size > len(stream) {
			size /= 2
		}
	}
	for at := range stream {
		if stream[at] == 0 {
			continue
		}
		candidate := append([]byte{}, stream...)
		candidate[at] = 0
		if try(candidate) {
			stream = candidate
		}
	}
	return stream
}
