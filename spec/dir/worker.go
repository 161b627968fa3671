package dir

import (
	"context"
)

// job asks a worker for a full scan, or for a look at some paths.
type job struct {
	requests []request
	full     bool
	restore  func(files []found) *prior // with the first full scan: what was known before our restart
}

// answerTo is what a worker found.
type answerTo struct {
	root  int
	full  *fullResult
	look  *lookResult
	prior *prior
}

// worker touches one directory, one job at a time.
type worker struct {
	root    int
	scanner *scanner
	jobs    chan job // one slot: the owner gives a job only to an idle worker
}

// run works until the jobs are closed. An answer that nobody takes is dropped when ctx ends.
func (w *worker) run(ctx context.Context, answers chan<- answerTo) {
	for j := range w.jobs {
		a := answerTo{root: w.root}
		if j.full {
			full := w.scanner.full()
			a.full = &full
			if j.restore != nil {
				a.prior = j.restore(full.scan.files)
			}
		} else {
			look := w.scanner.look(j.requests)
			a.look = &look
		}
		select {
		case answers <- a:
		case <-ctx.Done():
			return
		}
	}
}
