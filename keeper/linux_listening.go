package keeper

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/observe/proc"
	"reconciler.dev/reconciler/spec"
)

// holders is who holds sockets, as far as it was found out: a socket that is still bound is still held by whoever held it, as nobody
// but a process's own descendants gets at its descriptors without its doing. So a run that listens is searched once, and not
// at each look. The inode of a socket is no other socket's as long as it lives.
type holders struct {
	mu     sync.Mutex
	own    map[string]map[uint64]bool // by the id of a live run
	others map[uint64]*spec.Scope     // of the last look: those of no run that was asked about; nil = none of ours has it
}

// listener is a run whose endpoints are asked about.
type listener struct {
	place     Place
	endpoints []spec.LaunchEndpoint

	network proc.FileID
	bound   []proc.ListeningSocket // on its ports, in its network
	unseen  bool                   // not all of its processes show what they have open
	gone    bool
}

// listening looks who listens on the endpoints of the runs asked about: one pass over the tables of sockets of each network, and a search
// for those sockets alone whose holder is not known yet. live is every live run. A run that has ended meanwhile is left out.
func (k *linux) listening(ctx context.Context, asked []listener, live []Place) ([]observe.RunListening, error) {
	k.holders.mu.Lock()
	defer k.holders.mu.Unlock()
	k.holders.forget(live)
	if err := k.findBound(asked); err != nil {
		return nil, err
	}
	if err := k.findOwn(ctx, asked); err != nil {
		return nil, err
	}
	others, err := k.findOthers(ctx, asked, live)
	if err != nil {
		return nil, err
	}
	k.holders.others = others
	found := make([]observe.RunListening, 0, len(asked))
	for i := range asked {
		if !asked[i].gone {
			found = append(found, k.holders.judge(&asked[i]))
		}
	}
	return found, nil
}

// forget drops what is known of runs that are over.
func (h *holders) forget(live []Place) {
	next := make(map[string]map[uint64]bool, len(live))
	for _, p := range live {
		if held := h.own[p.RunID]; held != nil {
			next[p.RunID] = held
		}
	}
	h.own = next
}

// findBound reads the tables, once for each network.
func (k *linux) findBound(asked []listener) error {
	ports, shown := map[proc.FileID]map[proc.Port]bool{}, map[proc.FileID][]proc.ListeningSocket{}
	for i := range asked {
		l := &asked[i]
		if !k.findNetwork(l) {
			continue
		}
		if ports[l.network] == nil {
			ports[l.network] = map[proc.Port]bool{}
		}
		for _, e := range l.endpoints {
			ports[l.network][proc.PortOf(e)] = true
		}
	}
	for i := range asked {
		l := &asked[i]
		if l.gone || l.unseen {
			continue
		}
		table, there := shown[l.network]
		if !there {
			var err error
			table, err = k.listenersSeenBy(l.place, ports[l.network])
			if errors.Is(err, proc.ErrGone) {
				l.gone = true
				continue // the next one of its network shows it
			}
			if err != nil {
				return err
			}
			shown[l.network] = table
		}
		for _, s := range table {
			if slices.ContainsFunc(l.endpoints, func(e spec.LaunchEndpoint) bool { return proc.PortOf(e) == s.Port }) {
				l.bound = append(l.bound, s)
			}
		}
	}
	return nil
}

// findNetwork learns in which network a run is; false = it is gone, or not shown.
func (k *linux) findNetwork(l *listener) bool {
	main, err := k.proc.Open(*l.place.Main)
	if err == nil {
		l.network, err = main.Network()
		main.Close()
	}
	switch {
	case err == nil:
		return true
	case errors.Is(err, proc.ErrGone), errors.Is(err, proc.ErrOtherProcess), errors.Is(err, proc.ErrOtherBoot):
		l.gone = true
	case errors.Is(err, proc.ErrUnseen), errors.Is(err, proc.ErrUnverifiable):
		l.unseen = true
	default:
		k.log.Warn("the network of a run cannot be learned", "scope", l.place.Scope.String(), "run", l.place.Number, "error", err)
		l.unseen = true
	}
	return false
}

// listenersSeenBy are the sockets on ports in the network of a run.
func (k *linux) listenersSeenBy(p Place, ports map[proc.Port]bool) ([]proc.ListeningSocket, error) {
	main, err := k.proc.Open(*p.Main)
	if errors.Is(err, proc.ErrOtherProcess) {
		return nil, proc.ErrGone
	}
	if err != nil {
		return nil, err
	}
	defer main.Close() // a handle of its own: nothing is lost
	return main.Listeners(ports)
}

// findOwn searches the runs for those sockets on their ports whose holder is not known.
func (k *linux) findOwn(ctx context.Context, asked []listener) error {
	var search []*listener
	for i := range asked {
		l := &asked[i]
		if l.gone || l.unseen {
			continue
		}
		if k.holders.own[l.place.RunID] == nil {
			k.holders.own[l.place.RunID] = map[uint64]bool{}
		}
		if len(k.holders.unknown(l)) > 0 {
			search = append(search, l)
		}
	}
	families, err := k.families(search)
	if err != nil {
		return err
	}
	for i, l := range search {
		held, err := k.heldBy(ctx, l.place, families[i], k.holders.unknown(l))
		for _, inode := range held {
			k.holders.own[l.place.RunID][inode] = true
		}
		if errors.Is(err, proc.ErrUnseen) {
			l.unseen = true
		} else if err != nil {
			return err
		}
	}
	return nil
}

// unknown are the sockets on a run's ports that were not found to be its own, by their inodes.
func (h *holders) unknown(l *listener) (inodes []uint64) {
	own := h.own[l.place.RunID]
	for _, s := range l.bound {
		if !own[s.Inode] {
			inodes = append(inodes, s.Inode)
		}
	}
	return inodes
}

// families looks once for the families of all runs that have no cgroup; the others have the zero value.
func (k *linux) families(runs []*listener) ([]proc.Family, error) {
	all := make([]proc.Family, len(runs))
	var hints []proc.Hint
	var at []int
	for i, l := range runs {
		if l.place.Cgroup != "" {
			continue
		}
		hint, err := k.hint(l.place)
		if err != nil {
			return nil, err
		}
		hints, at = append(hints, hint), append(at, i)
	}
	if len(hints) == 0 {
		return all, nil
	}
	found, err := k.proc.Families(hints)
	if err != nil {
		return nil, err
	}
	for i, f := range found {
		all[at[i]] = f
	}
	return all, nil
}

// heldBy are those of the sockets that a run has.
func (k *linux) heldBy(ctx context.Context, p Place, f proc.Family, inodes []uint64) ([]uint64, error) {
	if p.Cgroup == "" {
		return k.proc.HeldSockets(ctx, f, inodes)
	}
	g, err := k.cgroup(p)
	if err != nil {
		return nil, err
	}
	return g.HeldSockets(ctx, inodes)
}

// findOthers says whose the sockets are that lie on a run's ports and are not its own: each is searched for in every other run, once.
func (k *linux) findOthers(ctx context.Context, asked []listener, live []Place) (map[uint64]*spec.Scope, error) {
	others := map[uint64]*spec.Scope{}
	var unknown []uint64
	for i := range asked {
		for _, inode := range k.holders.unknown(&asked[i]) {
			if _, there := others[inode]; there {
				continue
			}
			scope, known := k.holders.others[inode]
			others[inode] = scope
			if !known {
				unknown = append(unknown, inode)
			}
		}
	}
	if len(unknown) == 0 {
		return others, nil
	}
	runs := make([]*listener, len(live))
	for i := range live {
		runs[i] = &listener{place: live[i]}
	}
	families, err := k.families(runs)
	if err != nil {
		return nil, err
	}
	for i, l := range runs {
		held, err := k.heldBy(ctx, l.place, families[i], unknown)
		if err != nil && !errors.Is(err, proc.ErrUnseen) {
			return nil, err
		}
		for _, inode := range held {
			others[inode] = &l.place.Scope
		}
	}
	return others, nil
}

// judge says of each endpoint of a run who listens on it.
func (h *holders) judge(l *listener) observe.RunListening {
	found := observe.RunListening{RunName: observe.RunName{Scope: l.place.Scope, ID: l.place.RunID}}
	for _, e := range l.endpoints {
		if l.network == (proc.FileID{}) {
			found.Endpoints = append(found.Endpoints, observe.Listening{Endpoint: e.Name, By: observe.ListenerUnseen})
			continue
		}
		var own, others []netip.Addr
		var holder *spec.Scope
		for _, s := range l.bound {
			switch {
			case s.Port != proc.PortOf(e):
			case h.own[l.place.RunID][s.Inode]:
				own = append(own, s.Address)
			default:
				others = append(others, s.Address)
				if of := h.others[s.Inode]; of != nil && *of != l.place.Scope {
					holder = of
				}
			}
		}
		verdict := proc.Judge(e, own, others, l.unseen)
		if verdict.By == observe.ListenerStranger {
			verdict.Holder = holder
		}
		found.Endpoints = append(found.Endpoints, verdict)
	}
	return found
}
