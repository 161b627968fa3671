package state

// FlushNow is one round of what [Store.Run] does, in the caller's goroutine: for a caller without a Run, as the
// simulation, which has one goroutine.
func (s *Store) FlushNow() error { return s.group.turn(s.flush) }

// FlushNow is one round of what [Table.Run] does, in the caller's goroutine; see [Store.FlushNow].
func (t *Table[V]) FlushNow() error { return t.group.turn(t.flush) }
