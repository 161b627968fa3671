package api

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"reconciler.dev/reconciler/spec"
)

// Attach is the body of attach.
type Attach struct {
	// TailLines is how many of the last lines come first; absent = all of the last run.
	TailLines *int `json:"tailLines,omitempty"`
	// After is that of the last event of an earlier attachment: what came after it comes first, instead of the last lines.
	After string `json:"after,omitempty"`
	// View never takes the writer's place.
	View bool `json:"view,omitempty"`
	// Keys asks for the server's terminal itself instead of its lines: every byte as it is written, and keys as they are typed. After is
	// without meaning then. It lasts as long as the run that lives now.
	Keys bool `json:"keys,omitempty"`
}

// AttachQuery is what of a server's console is wanted, and by whom.
type AttachQuery struct {
	Server spec.Key
	By     string
	Tail   int // last lines; negative = all
	After  string
	View   bool
	Keys   bool
}

// AttachEvent is one line of the answer to attach.
type AttachEvent struct {
	Type string `json:"type"`
	// Text is what the server has written, any bytes; with type Output.
	Text []byte `json:"text,omitempty"`
	// After is where the text ends; with type Output, and with the first Writer. "" = nothing was written.
	After  string         `json:"after,omitempty"`
	Writer *ConsoleWriter `json:"writer,omitempty"` // with types Writer and Terminal; absent = nobody writes
	Lost   int64          `json:"lost,omitempty"`   // of a terminal's Output: so many bytes that came after the text are lost, as they were not taken in time
	Why    string         `json:"why,omitempty"`    // with type Lines: why there is no terminal now; "" = none is declared
	Status *Status        `json:"status,omitempty"` // with type Error
}

// The types of an [AttachEvent]. The first Writer comes when all that was written before was shown, and another one whenever
// the writer is another. An Error is the last.
//
// Where keys are asked for the first is Terminal, with the writer, and the last Ended, when the run is over; or there is Lines
// alone: no run with a terminal lives, and lines are all that can be had.
const (
	AttachOutput = "OUTPUT"
	AttachWriter = "WRITER"
	AttachError  = "ERROR"

	AttachTerminal = "TERMINAL"
	AttachEnded    = "ENDED"
	AttachLines    = "LINES"
)

// ConsoleWriter is who has the writer's place of a console. It has it until its connection ends.
type ConsoleWriter struct {
	By    string    `json:"by"`
	Since time.Time `json:"since"`
	// Attachment is this one's name, which its lines give; "" = another writes.
	Attachment string `json:"attachment,omitempty"`
}

// postAttach streams a console. As for logs, the host reads over a connection of its own (BP-13).
func (s *Service) postAttach(w http.ResponseWriter, r *http.Request) error {
	var a Attach
	if err := body(r, &a); err != nil {
		return err
	}
	// The end of the connection is noticed when the whole request was read.
	if _, err := io.Copy(io.Discard, http.MaxBytesReader(nil, r.Body, maxBody)); err != nil {
		return Failure(ReasonBadRequest, "cannot read the request: %s", err)
	}
	q := AttachQuery{By: peerOfRequest(r).name(), Tail: -1, After: a.After, View: a.View, Keys: a.Keys}
	if a.TailLines != nil {
		q.Tail = *a.TailLines
		if q.Tail < 0 {
			return Failure(ReasonInvalid, "tailLines: Invalid value: %d: must be 0 or more", q.Tail)
		}
	}
	v, err := s.view(r)
	if err != nil {
		return err
	}
	q.Server = v.Key
	if err := s.awaitKeeper(w, r); err != nil {
		return err
	}
	out := &attachWriter{w: w, enc: json.NewEncoder(w), flush: http.NewResponseController(w)}
	err = s.Host.Attach(r.Context(), q, out.write)
	if err == nil || r.Context().Err() != nil || out.err != nil {
		return nil // the reader has gone, and nobody is to be told
	}
	if !out.begun {
		return err
	}
	var status *Status
	if !errors.As(err, &status) {
		s.Log.Error("cannot go on with an attachment", "server", v.Key.String(), "error", err)
		status = Failure(ReasonInternalError, "internal error; the reconciler's own log says more")
	}
	_ = out.write(AttachEvent{Type: AttachError, Status: status}) // who does not read it sees the end
	return nil
}

// attachWriter sends each event at once.
type attachWriter struct {
	w     http.ResponseWriter
	enc   *json.Encoder
	flush *http.ResponseController
	begun bool
	err   error // of w
}

func (a *attachWriter) write(e AttachEvent) error {
	if !a.begun {
		a.begun = true
		a.w.Header().Set("Content-Type", "application/json")
	}
	if a.err = a.enc.Encode(e); a.err == nil {
		a.err = a.flush.Flush()
	}
	return a.err
}

// postKeys types on a server's terminal.
func (s *Service) postKeys(w http.ResponseWriter, r *http.Request) error {
	var k Keys
	if err := body(r, &k); err != nil {
		return err
	}
	if err := k.check(); err != nil {
		return err
	}
	v, err := s.view(r)
	if err != nil {
		return err
	}
	typed, err := s.Host.Type(r.Context(), v.Key, k, peerOfRequest(r).name())
	if err != nil {
		return err
	}
	typed.TypeMeta = typeMeta("Typed")
	return reply(w, typed)
}

func (k *Keys) check() error {
	const most = 1000
	switch {
	case k.Attachment == "":
		return Failure(ReasonInvalid, "attachment: Required value: keys are typed by one")
	case len(k.Keys) > MaxKeys:
		return Failure(ReasonInvalid, "keys: Too long: may not be more than %d bytes", MaxKeys)
	case k.Rows < 0 || k.Rows > most || k.Columns < 0 || k.Columns > most || (k.Rows == 0) != (k.Columns == 0):
		return Failure(ReasonInvalid, "rows, columns: Invalid value: %d, %d: must be 1 to %d, or both 0", k.Rows, k.Columns, most)
	}
	return nil
}
