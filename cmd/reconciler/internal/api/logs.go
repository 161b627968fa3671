package api

import (
	"math"
	"net/http"
	"strconv"
	"time"

	"reconciler.dev/reconciler/spec"
)

// getLog streams a server's log. It holds nothing of the loop or the keeper's control connection (BP-13): the host reads
// it over a connection of its own.
func (s *Service) getLog(w http.ResponseWriter, r *http.Request) error {
	v, err := s.view(r)
	if err != nil {
		return err
	}
	q, err := logQuery(r, time.Now())
	if err != nil {
		return err
	}
	q.Scope = spec.Scope{Namespace: v.Key.Namespace, Server: v.Key.Name, Profile: v.Profile}
	if err := s.awaitKeeper(w, r); err != nil {
		return err
	}
	out := &logWriter{w: w, flush: http.NewResponseController(w)}
	err = s.Host.Log(r.Context(), q, out)
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

// logWriter sends what it is given at once: a follower waits for it.
type logWriter struct {
	w     http.ResponseWriter
	flush *http.ResponseController
	begun bool
}

func (l *logWriter) Write(p []byte) (int, error) {
	if !l.begun {
		l.w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		l.w.Header().Set("X-Content-Type-Options", "nosniff")
		l.begun = true
	}
	n, err := l.w.Write(p)
	if err != nil {
		return n, err
	}
	return n, l.flush.Flush()
}
