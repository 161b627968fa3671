package pump

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"reconciler.dev/reconciler/observe/logs"
)

// ErrEnded says that a run's output has come to its end.
var ErrEnded = errors.New("the run's output has ended")

// expectation is an Await of a run. It is the loop's but for result.
type expectation struct {
	live   [2]*logs.Matcher // by stream
	skip   [2]int           // bytes that were in the FIFO already
	result chan error
}

// Await looks for a literal in what the run prints from now on, ANSI escape sequences taken out, within one stream. When
// it returns, the loop looks already: what is printed later is found, what was printed before is not. The channel, which has
// room for it, gets nil when the literal was printed, or [ErrEnded] when it cannot be any more. stop ends it. It fails with
// [ErrUnknownRun], an empty literal, or the context. Runs may have any number of these.
func (p *Pump) Await(ctx context.Context, id logs.Run, literal string) (result <-chan error, stop func(), err error) {
	r, err := p.lookup(id)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot await: %w", err)
	}
	if literal == "" {
		return nil, nil, errors.New("cannot await: the literal is empty")
	}
	x := &expectation{result: make(chan error, 1)}
	begun := make(chan struct{})
	p.loop.Post(func() {
		defer close(begun)
		p.reader.expect(r, x, literal)
	})
	stop = func() { p.loop.Post(func() { r.drop(x) }) }
	select {
	case <-begun:
		return x.result, stop, nil
	case <-ctx.Done():
		stop()
		return nil, nil, context.Cause(ctx)
	}
}

func (rd *reader) expect(r *run, x *expectation, literal string) {
	for i, s := range r.streams {
		if s.closed {
			x.result <- ErrEnded
			return
		}
		rd.catchUp(s)
		x.live[i] = logs.NewMatcher([]string{literal})
		x.skip[i] = s.available()
	}
	r.expected = append(r.expected, x)
}

func (r *run) drop(x *expectation) {
	r.expected = slices.DeleteFunc(r.expected, func(y *expectation) bool { return x == y })
}

// meet looks for what is expected in what a source has given.
func (rd *reader) meet(s *source, b []byte) {
	for _, x := range slices.Clone(s.run.expected) {
		i := s.stream - logs.Stdout
		old := min(x.skip[i], len(b))
		x.skip[i] -= old
		var found bool
		if found, rd.matchBuf = x.live[i].Scan(b[old:], rd.matchBuf); found {
			s.run.drop(x)
			x.result <- nil
		}
	}
}

// disappoint ends what can be expected no more.
func (rd *reader) disappoint(r *run) {
	for _, x := range r.expected {
		x.result <- ErrEnded
	}
	r.expected = nil
}
