package faultd

import (
	"io"
	"net"
	"net/http"
	"strconv"
)

// serveREST answers HTTP: POST /say and /say/anna take the body as a line, once the user admin has given the password. GET /status
// answers everybody with a document that counts 7 players and the status that its query names, GET /private the same to admin alone, and
// GET /hang never. Any other path is 404, a wrong password 401.
func serveREST(r *remote) error {
	if r.mode == modeSilent || r.mode == modeGarbage || r.mode == modeLockout {
		return r.listen(func(net.Conn) error { return nil })
	}
	l, err := net.Listen("tcp", r.addr)
	if err != nil {
		return err
	}
	say("%s listening %s", r.kind, l.Addr())
	mux := http.NewServeMux()
	mux.HandleFunc("POST /say", r.rest)
	mux.HandleFunc("POST /say/anna", r.rest)
	mux.HandleFunc("GET /status", status)
	mux.HandleFunc("GET /private", func(w http.ResponseWriter, q *http.Request) {
		if r.permits(w, q) {
			status(w, q)
		}
	})
	mux.HandleFunc("GET /hang", func(_ http.ResponseWriter, q *http.Request) {
		say("%s hangs", r.kind)
		<-q.Context().Done()
		say("%s was left", r.kind)
	})
	go func() { r.end(http.Serve(l, mux)) }()
	return nil
}

func (r *remote) rest(w http.ResponseWriter, q *http.Request) {
	if !r.permits(w, q) {
		return
	}
	line, err := io.ReadAll(io.LimitReader(q.Body, wsLimit))
	if err != nil {
		return
	}
	flush := http.NewResponseController(w)
	err = r.answer(string(line), func(text string) error {
		if _, err := io.WriteString(w, text); err != nil {
			return err
		}
		return flush.Flush()
	})
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if r.mode == modeMute {
		<-q.Context().Done()
	}
}

// permits answers a request without the password.
func (r *remote) permits(w http.ResponseWriter, q *http.Request) bool {
	user, password, _ := q.BasicAuth()
	ok := r.loggedIn(user == "admin" && password == r.password)
	if !ok {
		http.Error(w, "unauthorized", http.StatusUnauthorized)
	}
	return ok
}

// status answers with the status that the query names.
func status(w http.ResponseWriter, q *http.Request) {
	if code, err := strconv.Atoi(q.URL.Query().Get("code")); err == nil {
		if code >= 300 && code < 400 {
			w.Header().Set("Location", "/hang")
		}
		w.WriteHeader(code)
	}
	_, _ = io.WriteString(w, `{"server": {"name": "town", "players": 7, "up": true}}`) // who asked may be gone
}
