package keeper

import (
	"errors"
	"slices"
	"testing"

	"reconciler.dev/reconciler/keeper/console"
	"reconciler.dev/reconciler/observe/proc"
)

// EC-11: who is closed between two looks is no stranger; who is there in both, and is not the run's, is.
func TestOwnReceivers(t *testing.T) {
	errTable, errFamily := errors.New("the table cannot be read"), errors.New("the family cannot be seen")
	type look struct {
		sockets []uint64
		err     error
	}
	one, other := look{sockets: []uint64{1}}, look{sockets: []uint64{2}}
	for name, c := range map[string]struct {
		looks []look // the last is seen again and again
		held  []uint64
		err   error // of who has them
		own   bool
		want  error
	}{
		"the run's own":                    {looks: []look{one}, held: []uint64{1}, own: true},
		"a stranger":                       {looks: []look{one}},
		"one of each":                      {looks: []look{{sockets: []uint64{1, 2}}}, held: []uint64{1}},
		"nobody":                           {looks: []look{{}}, want: console.ErrNobody},
		"closed before":                    {looks: []look{{err: proc.ErrEnded}}, want: console.ErrEnded},
		"closed between the looks":         {looks: []look{one, {err: proc.ErrEnded}}, want: console.ErrEnded},
		"gone between the looks":           {looks: []look{one, {}}, want: console.ErrNobody},
		"closed, and accepted by its heir": {looks: []look{one, other}, held: []uint64{2}, own: true},
		"another stranger":                 {looks: []look{one, other}},
		"a table that cannot be read":      {looks: []look{one, {err: errTable}}, want: errTable},
		"a family that cannot be seen":     {looks: []look{one}, err: errFamily, want: errFamily},
	} {
		t.Run(name, func(t *testing.T) {
			own, err := ownReceivers(
				func() ([]uint64, error) {
					l := c.looks[0]
					if len(c.looks) > 1 {
						c.looks = c.looks[1:]
					}
					return l.sockets, l.err
				},
				func(sockets []uint64) (bool, error) {
					return !slices.ContainsFunc(sockets, func(s uint64) bool { return !slices.Contains(c.held, s) }), c.err
				})
			if own != c.own || !errors.Is(err, c.want) {
				t.Errorf("own %v: %v", own, err)
			}
		})
	}
	n := uint64(0)
	own, err := ownReceivers(func() ([]uint64, error) { n++; return []uint64{n}, nil }, func([]uint64) (bool, error) { return false, nil })
	if own || err == nil {
		t.Errorf("of who changes all the time: own %v, %v", own, err)
	}
}
