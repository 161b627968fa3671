package faultd

import (
	"io"
	"net"
	"net/http"
)

// serveREST answers HTTP: POST /say and /say/anna take the body as a line, once the user admin has given the password. Any other
// path is 404, a wrong password 401.
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
	go func() { r.end(http.Serve(l, mux)) }()
	return nil
}

func (r *remote) rest(w http.ResponseWriter, q *http.Request) {
	user, password, _ := q.BasicAuth()
	if !r.loggedIn(user == "admin" && password == r.password) {
		http.Error(w, "unauthorized", http.StatusUnauthorized)
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
