package keeper

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/observe/logs"
	"reconciler.dev/reconciler/spec"
)

// Protocol is the version of what is said on the socket. Two processes talk when their versions are equal; else the keeper refuses,
// naming both. Members may be added within a version: what one side does not know it does not read.
const Protocol = 1

// The sizes of messages. A body that does not fit into a packet lies in a sealed memfd that is passed along with it.
const (
	maxPacket = 64 << 10
	maxBody   = 8 << 20 // the largest launch is 256 arguments of 8 KiB, and as much environment
	maxInline = 60 << 10
)

// Op says what a message is about.
type Op string

// What may be asked for, and the notice.
const (
	OpHello     Op = "hello" // the first message of every connection
	OpStart     Op = "start"
	OpStop      Op = "stop"
	OpStep      Op = "step"
	OpSend      Op = "send"  // answered by a Receipt when it is known what became of the line
	OpDo        Op = "do"    // answered by a Receipt when the command has ended
	OpProbe     Op = "probe" // answered by an [observe.Probed] when it is known
	OpType      Op = "type"  // keys for a run's terminal; answered by a Typed
	OpApplyLive Op = "applyLive"
	OpMarkReady Op = "markReady"
	OpReload    Op = "reload"
	OpArchive   Op = "archive"
	OpRetire    Op = "retire"
	OpList      Op = "list"
	OpUsage     Op = "usage"
	OpListening Op = "listening" // who listens on the endpoints of runs
	OpStatus    Op = "status"
	OpPing      Op = "ping"     // answered at once; a keeper that does not know it refuses it, and has answered
	OpTry       Op = "try"      // writes to the store's disk and takes that back; refused when it cannot
	OpPast      Op = "past"     // the ends of a removed server's runs
	OpWritten   Op = "written"  // what was delivered to a server's console, with its text
	OpHost      Op = "host"     // what the reconciler says that the host allows has changed
	OpShutdown  Op = "shutdown" // ends the keeper, when no run is live
	OpSelf      Op = "self"     // which run the asker is part of
	OpInbox     Op = "inbox"    // takes the lines out of the mailbox of the asker's run
	OpNotify    Op = "notify"   // what the asker's run says of itself
	OpLogs      Op = "logs"     // on a connection of its own; answered by any number of entries and an end
	OpChanged   Op = "changed"  // notice: facts have changed since the last list. It carries nothing
)

// Message is one packet: a request, its answer (same ID), or a notice (ID 0). The packet is a line of JSON, and behind it the
// body, which is JSON too:
//
//	{"id":3,"op":"list","session":1}
//	{"since":7}
//
// So a body is looked through once, by who knows what it is.
type Message struct {
	ID      uint64   `json:"id,omitempty"`
	Op      Op       `json:"op,omitempty"`
	Session uint64   `json:"session,omitempty"` // of the asker's handshake, in every order (BP-12)
	Within  int64    `json:"within,omitempty"`  // milliseconds for which the asker waits; 0 = no limit
	Error   *Failure `json:"error,omitempty"`
	Memfd   int      `json:"memfd,omitempty"` // size in bytes of the body in the memfd passed along
	Body    []byte   `json:"-"`               // empty = none
}

// Failure is an error on its way.
type Failure struct {
	Kind   string `json:"kind"`            // Refused, Cancelled, StartFailed or Error
	Check  Check  `json:"check,omitempty"` // of a refusal
	Detail string `json:"detail,omitempty"`
}

// The kinds of failure.
const (
	failRefused     = "Refused"
	failCancelled   = "Cancelled"
	failStartFailed = "StartFailed"
	failError       = "Error"
)

// failureOf makes an error fit to be sent; nil of nil.
func failureOf(err error) *Failure {
	if err == nil {
		return nil
	}
	if r := new(Refused); errors.As(err, &r) {
		return &Failure{Kind: failRefused, Check: r.Check, Detail: r.Detail}
	}
	if errors.Is(err, ErrCancelled) {
		return &Failure{Kind: failCancelled}
	}
	if f := new(StartFailedError); errors.As(err, &f) {
		return &Failure{Kind: failStartFailed, Detail: f.Message}
	}
	return &Failure{Kind: failError, Detail: err.Error()}
}

// Err is the error again.
func (f *Failure) Err() error {
	if f == nil {
		return nil
	}
	switch f.Kind {
	case failRefused:
		return &Refused{Check: f.Check, Detail: f.Detail}
	case failCancelled:
		return ErrCancelled
	case failStartFailed:
		return &StartFailedError{Message: f.Detail}
	}
	return errors.New(f.Detail)
}

// Purpose is what a connection is for. Each kind has its own, so that none waits for another (BP-13).
type Purpose string

// The purposes.
const (
	PurposeControl Purpose = "Control" // orders and facts; a newer one fences the older
	PurposeQuery   Purpose = "Query"   // looks only
	PurposeLogs    Purpose = "Logs"
	// PurposeJobs is for lines, commands and probes, which may take their time: beside a control connection, of its session and process.
	PurposeJobs   Purpose = "Jobs"
	PurposeInside Purpose = "Inside" // of a process in a run: everybody may connect, and proves itself by what the kernel says of it
)

// Hello opens a connection.
type Hello struct {
	Protocol int     `json:"protocol"`
	Version  string  `json:"version"`
	Purpose  Purpose `json:"purpose"`
	Session  uint64  `json:"session,omitempty"` // of the control connection, for purpose Jobs
	// Host is what the reconciler says that the host allows. It is used when the keeper has no configuration of its own and the two are the same user.
	Host *Host `json:"host,omitempty"`
}

// Welcome answers a Hello.
type Welcome struct {
	Protocol int    `json:"protocol"`
	Version  string `json:"version"`
	Session  uint64 `json:"session,omitempty"` // of a control connection
	HostUsed bool   `json:"hostUsed"`          // the Hello's Host holds
}

// ListRequest asks for facts that are newer than a revision; 0 = all.
type ListRequest struct {
	Since uint64 `json:"since"`
}

// ListPage is a part of the facts, oldest change first. The next part is newer than Rev.
type ListPage struct {
	Facts []*observe.Facts `json:"facts,omitempty"`
	Rev   uint64           `json:"rev"`
	Whole bool             `json:"whole,omitempty"` // this page begins anew: forget what was heard before
	More  bool             `json:"more,omitempty"`
}

// Usage is what a live run uses now, main process and descendants together.
type Usage struct {
	Scope           spec.Scope    `json:"scope"`
	CPU             time.Duration `json:"cpu"` // since its start
	ResidentBytes   int64         `json:"residentBytes"`
	OpenFDs         int           `json:"openFDs"`
	LogBytes        int64         `json:"logBytes"`        // of this run so far, not in its scope's counters yet
	LogDroppedLines int64         `json:"logDroppedLines"` // likewise
}

// Status is how the keeper itself is.
type Status struct {
	Version    string           `json:"version"`
	Protocol   int              `json:"protocol"`
	Since      time.Time        `json:"since"`
	OwnHost    bool             `json:"ownHost"` // it has a host configuration of its own
	Guarantees []spec.Guarantee `json:"guarantees"`
	Strays     int              `json:"strays"`            // living orphans of no known run
	Health     string           `json:"health,omitempty"`  // why what was written last may not survive a power cut
	Blocked    []BlockedScope   `json:"blocked,omitempty"` // with the reason for an administrator
	Notes      []string         `json:"notes,omitempty"`   // what was found odd in the store
	Rev        uint64           `json:"rev"`
	Scopes     int              `json:"scopes"`
	Live       int              `json:"live"`
	HostError  string           `json:"hostError,omitempty"` // why the newest host configuration is not in use
}

// BlockedScope is a scope that an operator has to look after.
type BlockedScope struct {
	Scope  spec.Scope `json:"scope"`
	Reason string     `json:"reason"`
}

// LogQuery says which lines of a scope's log are wanted.
type LogQuery struct {
	Scope    spec.Scope `json:"scope"`
	Run      int64      `json:"run,omitempty"` // 0 = the newest
	Previous bool       `json:"previous,omitempty"`
	Tail     int        `json:"tail"` // negative = all
	Since    time.Time  `json:"since,omitzero"`
	Stream   uint8      `json:"stream,omitempty"` // logs.Stream, 0 = both
	Follow   bool       `json:"follow,omitempty"`
	// After goes on behind an entry that this keeper or an earlier one gave.
	After *logs.Cursor `json:"after,omitempty"`
	// Live goes on behind the last lines of Run, which is named, with every byte as it is printed, until the run prints no more. The
	// first entry of that is Live and says nothing. Of the rest Scope, Run and Tail have a meaning.
	Live bool `json:"live,omitempty"`
}

// LogEntry is one line on its way.
type LogEntry struct {
	Time    time.Time   `json:"time"`
	Stream  uint8       `json:"stream"`
	Partial bool        `json:"partial,omitempty"`
	Text    []byte      `json:"text"`
	Cursor  logs.Cursor `json:"cursor"`
	Live    bool        `json:"live,omitempty"` // the text is no line, but what was printed
	Lost    int64       `json:"lost,omitempty"` // with Live: so many bytes that came after the text are not told, as the asker was too slow
}

// encodeMessage makes the packet of a message, and the body that has to go beside it, if it is too large. A body that is
// [encoded] is taken as it is.
func encodeMessage(m Message, body any) (packet, beside []byte, err error) {
	text, ready := body.(encoded)
	if body != nil && !ready {
		if text, err = json.Marshal(body); err != nil {
			return nil, nil, fmt.Errorf("cannot encode a message: %w", err)
		}
	}
	if len(text) > maxBody {
		return nil, nil, fmt.Errorf("a message of %d bytes is too long: %d is the most", len(text), maxBody)
	}
	if len(text) > maxInline {
		beside, text, m.Memfd = text, nil, len(text)
	}
	head, err := json.Marshal(m)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot encode a message: %w", err)
	}
	packet = head
	if len(text) > 0 {
		packet = append(append(append(make([]byte, 0, len(head)+1+len(text)), head...), '\n'), text...)
	}
	if len(packet) > maxPacket {
		return nil, nil, errors.New("cannot encode a message: its head is too long")
	}
	return packet, beside, nil
}

// encoded is a body that is JSON already.
type encoded []byte

// decodeMessage reads a packet, which stays the caller's; the body that lies beside it, if any, is not in it yet.
func decodeMessage(packet []byte) (Message, error) {
	var m Message
	head, body, _ := bytes.Cut(packet, []byte("\n")) // JSON on one line: there is none in the head
	if err := json.Unmarshal(head, &m); err != nil {
		return Message{}, fmt.Errorf("not a message: %w", err)
	}
	if m.Memfd < 0 || m.Memfd > maxBody {
		return Message{}, fmt.Errorf("a body of %d bytes: at most %d are allowed", m.Memfd, maxBody)
	}
	if m.Memfd > 0 && len(body) > 0 {
		return Message{}, errors.New("a message with two bodies")
	}
	m.Body = bytes.Clone(body)
	return m, nil
}

// decodeBody reads a body into what its op says it is.
func decodeBody(m Message, into any) error {
	if len(m.Body) == 0 {
		return refuse(CheckMessage, "%s without a body", m.Op)
	}
	if err := json.Unmarshal(m.Body, into); err != nil {
		return refuse(CheckMessage, "the body of %s cannot be read: %v", m.Op, err)
	}
	return nil
}
