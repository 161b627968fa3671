package api

import (
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"reconciler.dev/reconciler/spec"
)

// getLog streams a server's log. It holds nothing of the loop or the keeper's control connection (BP-13): the host reads
// it over a connection of its own.
func (s *Service) getLog(w http.ResponseWriter, r *http.Request) error {
	q, err := logQuery(r, time.Now())
	if err != nil {
		return err
	}
	v, err := s.view(r)
	if err != nil {
		if v = s.removed(r, r.PathValue("name")); v == nil {
			return err
		}
		q.Follow = false // nothing comes any more
	}
	q.Scope = spec.Scope{Namespace: v.Key.Namespace, Server: v.Key.Name, Profile: v.Profile}
	if err := s.awaitKeeper(w, r); err != nil {
		return err
	}
	out := &logWriter{w: w, flush: http.NewResponseController(w)}
	err = s.Host.Log(r.Context(), q, out)
	out.close()
	if err != nil && !out.begun && r.Context().Err() == nil {
		return err
	}
	if err == nil {
		return nil
	}
	s.Log.Debug("a log reader has ended", "server", v.Key.String(), "error", err)
	if r.Context().Err() == nil {
		panic(http.ErrAbortHandler) // the only way to say that what was sent is not all
	}
	return nil
}

func logQuery(r *http.Request, now time.Time) (LogQuery, error) {
	q := LogQuery{Tail: -1, Stream: r.URL.Query().Get(QueryStream)}
	var err error
	for _, flag := range []struct {
		name string
		to   *bool
	}{{QueryFollow, &q.Follow}, {QueryPrevious, &q.Previous}, {QueryTimestamps, &q.Timestamps}} {
		if *flag.to, err = boolQuery(r, flag.name); err != nil {
			return q, err
		}
	}
	if text := r.URL.Query().Get(QueryTail); text != "" {
		q.Tail, err = strconv.Atoi(text)
		if err != nil || q.Tail < 0 {
			return q, Failure(ReasonBadRequest, "%s=%q: must be a number, 0 or more", QueryTail, text)
		}
	}
	if text := r.URL.Query().Get(QuerySince); text != "" {
		seconds, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(seconds) || seconds <= 0 || seconds > maxHoldSeconds {
			return q, Failure(ReasonBadRequest, "%s=%q: must be a number of seconds, more than 0", QuerySince, text)
		}
		q.Since = now.Add(-time.Duration(seconds * float64(time.Second)))
	}
	if q.Stream != "" && q.Stream != "stdout" && q.Stream != "stderr" {
		return q, Failure(ReasonBadRequest, "%s=%q: must be stdout or stderr", QueryStream, q.Stream)
	}
	return q, nil
}

// logWriter sends a line that comes alone at once, as a follower waits for it, and many together.
type logWriter struct {
	flush *http.ResponseController

	mu     sync.Mutex
	w      http.ResponseWriter
	begun  bool
	timer  *time.Timer // runs while lines that were written soon after others wait to be sent; nil = there was none yet
	waits  bool
	sent   time.Time // last
	closed bool
	err    error // of sending what waited
}

// gatherFor is how long a line waits for others, when one was sent just before it.
const gatherFor = 10 * time.Millisecond

func (l *logWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.begun {
		l.w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		l.w.Header().Set("X-Content-Type-Options", "nosniff")
		l.begun = true
	}
	if l.err != nil {
		return 0, l.err
	}
	n, err := l.w.Write(p)
	if err != nil || l.waits {
		return n, err
	}
	if wait := gatherFor - time.Since(l.sent); wait > 0 {
		l.waits = true
		if l.timer == nil {
			l.timer = time.AfterFunc(wait, l.sendWaiting)
		} else {
			l.timer.Reset(wait)
		}
		return n, nil
	}
	return n, l.send()
}

// sendWaiting sends what waits.
func (l *logWriter) sendWaiting() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waits = false; !l.closed {
		l.err = l.send()
	}
}

func (l *logWriter) send() error {
	l.sent = time.Now()
	return l.flush.Flush()
}

// close leaves the response alone from now on. What waits goes out with its end.
func (l *logWriter) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed = true; l.timer != nil {
		l.timer.Stop()
	}
}
