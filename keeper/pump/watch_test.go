package pump

import (
	"testing"

	"reconciler.dev/reconciler/observe/logs"
)

func (r *rig) watch(literals ...string) <-chan struct{} {
	r.t.Helper()
	hit := make(chan struct{}, 10)
	if err := r.pump.Watch(testRun, literals, func() { hit <- struct{}{} }); err != nil {
		r.t.Fatal(err)
	}
	return hit
}

// noHit waits until what was printed is looked at and the searches that are under way have ended: another one, of a
// watch that takes the place of none, comes after them and finds what the log holds.
func (r *rig) noHit(hit <-chan struct{}) {
	r.t.Helper()
	r.drain()
	ended := make(chan struct{})
	w := &watch{run: &run{id: testRun}, literals: []string{"\n"}, hit: func() { close(ended) }}
	w.run.watch = w
	for i := range w.live {
		w.live[i] = logs.NewMatcher(w.literals)
	}
	r.pump.queue.push(work{do: func(wr *writer) { wr.beginScan(w) }})
	<-ended
	select {
	case <-hit:
		r.t.Error("hit")
	default:
	}
}

func TestWatch(t *testing.T) {
	r := newRig(t, nil)
	r.attach()
	r.start()
	hit := r.watch("starting game", "never")
	r.print(r.out, "\x1b[32mMap\x1b[0m generated, star")
	r.print(r.err, "ting game\n")
	r.drain()
	select {
	case <-hit:
		t.Fatal("hit over two streams")
	default:
	}
	r.print(r.out, "ting \x1b[1mgame\n")
	<-hit
	r.print(r.out, "starting game\n")
	r.noHit(hit)
}

func TestWatchFindsWhatIsWritten(t *testing.T) {
	r := newRig(t, func(c *Config) { c.fileSize = 4000 })
	r.attach()
	r.start()
	r.print(r.out, "Server is up\n")
	for n := range 200 {
		r.print(r.out, string(floodLine(n)))
	}
	r.drain()
	<-r.watch("is up\nflood")
	r.noHit(r.watch("is not up"))
	replaced := r.watch("later")
	<-r.watch("Server is")
	r.print(r.out, "later\n")
	r.noHit(replaced)
	ended := r.watch("much later")
	if err := r.pump.Watch(testRun, nil, nil); err != nil {
		t.Fatal(err)
	}
	r.print(r.out, "much later\n")
	r.noHit(ended)
	if err := r.pump.Watch(testRun, []string{"x", ""}, nil); err == nil {
		t.Error("an empty literal was taken")
	}
}

// A literal of which a part was written by the pump before and the rest comes now.
func TestWatchAcrossPumps(t *testing.T) {
	r := newRig(t, nil)
	r.attach()
	r.start()
	r.print(r.out, "Server \x1b[1mis ")
	r.drain()
	r.end()

	r.renew()
	r.attach()
	r.start()
	hit := r.watch("Server is up")
	if err := r.pump.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.print(r.out, "up")
	<-hit
}

func TestWatchWhileTheDiskStandsStill(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Slots, c.patience = 1, stallAfter; quiet(c) })
	stalled, goOn := make(chan struct{}, 100), make(chan struct{})
	pwrite := r.pump.writer.disk.pwrite
	r.pump.writer.disk.pwrite = func(fd int, b []byte, offset int64) (int, error) {
		stalled <- struct{}{}
		<-goOn
		return pwrite(fd, b, offset)
	}
	r.attach()
	r.start()
	hit := r.watch("up and running")
	r.print(r.out, "first\n")
	<-stalled
	for n := range 2000 {
		r.print(r.out, string(floodLine(n)))
	}
	r.print(r.out, "up and running\n")
	for n := range 2000 {
		r.print(r.out, string(floodLine(n)))
	}
	<-hit // dropped for the log, not for the probe
	close(goOn)
	r.drain()
	if got := text(r.pieces(), logs.Stdout); len(got) == 0 || got[:6] != "first\n" {
		t.Errorf("log begins with %q", got[:min(len(got), 20)])
	}
}
