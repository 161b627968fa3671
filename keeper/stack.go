package keeper

// deepen gives its goroutine a stack as large as encoding, decoding and a start need. Else it would grow to that in steps,
// each with a copy of a deeper stack, and that takes as long as decoding an order. A goroutine calls it first.
//
//go:noinline
func deepen(never bool) byte {
	if !never {
		return 0
	}
	var room [12 << 10]byte // what counts is that the function has it: it is not even cleared
	return last(&room)
}

//go:noinline
func last(room *[12 << 10]byte) byte { return room[len(room)-1] }
