package dir

import (
	"log/slog"
	"sync/atomic"
)

// saver writes the last good content behind the decisions: always the newest state, never a backlog.
type saver struct {
	vault   vault
	ids     []string // of each root
	paths   []string
	log     *slog.Logger
	offered chan *state // one slot: the newest state that is not written
	written []*inventory
	whole   []map[string]bool // of each root, the contents that the inventory on disk names
	trouble atomic.Pointer[string]
}

// offer hands over a state. It never blocks; only the owner calls it.
func (s *saver) offer(st *state) {
	select {
	case <-s.offered:
	default:
	}
	s.offered <- st
}

// run writes until no more is offered, the last state included.
func (s *saver) run() {
	for st := range s.offered {
		s.write(st)
	}
}

// write writes what differs from what is on disk.
func (s *saver) write(st *state) {
	trouble := ""
	for i, root := range st.roots {
		inv, contents := st.inventoryOf(i, s.paths[i])
		if inv.same(s.written[i]) {
			continue
		}
		var err error
		if root.former && len(inv.Objects) == 0 {
			err = s.vault.drop(s.ids[i])
		} else {
			err = s.vault.save(s.ids[i], inv, contents, &s.whole[i])
		}
		if err != nil {
			s.written[i] = nil
			trouble = "the last good content of its files cannot be kept"
			s.log.Error("cannot keep last good manifests", "source", root.name, "error", err)
			continue
		}
		s.written[i] = inv
	}
	s.trouble.Store(&trouble)
}

// notice is what a reader should know; "" = all is well.
func (s *saver) notice() string {
	if t := s.trouble.Load(); t != nil && *t != "" {
		return *t
	}
	return ""
}
