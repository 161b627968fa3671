package keeper

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/state"
)

// pair is two ends of a connection as on the keeper's socket.
func pair(t testing.TB) (a, b *net.UnixConn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	conns := make([]*net.UnixConn, 2)
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "socket")
		c, err := net.FileConn(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		conns[i] = c.(*net.UnixConn)
		t.Cleanup(func() { c.Close() })
	}
	return conns[0], conns[1]
}

func TestMessagesArriveWhole(t *testing.T) {
	a, b := pair(t)
	l := newLink(a)
	defer l.wait()
	defer l.close()
	r := newReceiver(b)
	for _, size := range []int{0, 1, maxInline - 10, maxInline, maxInline + 1, maxPacket, 1 << 20, maxBody - 2} {
		text := strings.Repeat("x", size)
		go func() {
			if err := l.send(Message{ID: 7, Op: OpList, Session: 3, Within: 5}, text); err != nil {
				t.Error(err)
			}
		}()
		m, err := r.receive()
		if err != nil {
			t.Fatalf("%d bytes: %v", size, err)
		}
		var got string
		if err := decodeBody(m, &got); err != nil || got != text {
			t.Fatalf("%d bytes came as %d, %v", size, len(got), err)
		}
		if m.ID != 7 || m.Op != OpList || m.Session != 3 || m.Within != 5 {
			t.Errorf("message %+v", m)
		}
	}
	if err := l.send(Message{}, strings.Repeat("x", maxBody)); err == nil {
		t.Error("a body over the limit was sent")
	}
	l.close()
	if _, err := r.receive(); !errors.Is(err, io.EOF) {
		t.Errorf("after the end: %v", err)
	}
}

// What a peer may send to do harm: each is an error, and no descriptor stays.
func TestMalformedPackets(t *testing.T) {
	memfd := func(body []byte) int {
		fd, err := sealedMemfd(body)
		if err != nil {
			t.Fatal(err)
		}
		return fd
	}
	unsealed, err := unix.MemfdCreate("open", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	tests := map[string]struct {
		packet string
		fds    []int
	}{
		"not JSON":           {"hello", nil},
		"not an object":      {"7", nil},
		"too long":           {strings.Repeat(" ", maxPacket+1), nil},
		"no descriptor":      {`{"memfd":5}`, nil},
		"unasked descriptor": {`{"op":"list"}`, []int{memfd([]byte("12345"))}},
		"two descriptors":    {`{"memfd":5}`, []int{memfd([]byte("12345")), memfd([]byte("12345"))}},
		"many descriptors":   {`{"memfd":5}`, []int{memfd(nil), memfd(nil), memfd(nil), memfd(nil), memfd(nil), memfd(nil), memfd(nil), memfd(nil), memfd(nil), memfd(nil), memfd(nil), memfd(nil)}},
		"another size":       {`{"memfd":6}`, []int{memfd([]byte("12345"))}},
		"a negative size":    {`{"memfd":-1}`, []int{memfd([]byte("12345"))}},
		"too large":          {`{"memfd":999999999}`, []int{memfd([]byte("12345"))}},
		"two bodies":         {"{\"memfd\":5}\n{}", []int{memfd([]byte("12345"))}},
		"not sealed":         {`{"memfd":0}`, []int{unsealed}},
		"a file":             {`{"memfd":1}`, []int{int(file.Fd())}},
		"an unsealed memfd":  {`{"memfd":1}`, []int{unsealed}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			a, b := pair(t)
			before := descriptorsOpen(t)
			var rights []byte
			if len(tt.fds) > 0 {
				rights = unix.UnixRights(tt.fds...)
			}
			if _, _, err := a.WriteMsgUnix([]byte(tt.packet), rights, nil); err != nil {
				t.Fatal(err)
			}
			if m, err := newReceiver(b).receive(); err == nil {
				t.Errorf("received %+v", m)
			}
			if after := descriptorsOpen(t); after != before {
				t.Errorf("%d descriptors before, %d after", before, after)
			}
		})
	}
}

func descriptorsOpen(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

// Sending never blocks: a peer that does not read is dropped.
func TestPeerThatDoesNotRead(t *testing.T) {
	a, _ := pair(t)
	l := newLink(a)
	defer l.wait()
	defer l.close()
	body := strings.Repeat("x", 32<<10)
	for range maxQueued + maxQueuedBytes/len(body) + 100 {
		if err := l.send(Message{Op: OpChanged}, body); err != nil {
			if !errors.Is(err, errNotReading) && !errors.Is(err, net.ErrClosed) {
				t.Errorf("dropped for %v", err)
			}
			return
		}
	}
	t.Error("the queue has no end")
}

// Errors come out at the other side as what they were.
func TestFailuresTravel(t *testing.T) {
	for _, err := range []error{
		nil, &Refused{CheckAfter, "look again"}, ErrCancelled, &StartFailedError{Message: "cannot execute"}, errors.New("disk full"),
	} {
		b, mErr := json.Marshal(failureOf(err))
		var f *Failure
		if mErr != nil || json.Unmarshal(b, &f) != nil {
			t.Fatal(mErr)
		}
		got := f.Err()
		if (got == nil) != (err == nil) || err != nil && got.Error() != err.Error() {
			t.Errorf("%v came out as %v", err, got)
		}
		wantCheck, wantOK := IsRefused(err)
		if check, ok := IsRefused(got); check != wantCheck || ok != wantOK {
			t.Errorf("%v came out as a refusal for %q", err, check)
		}
		if errors.Is(err, ErrCancelled) != errors.Is(got, ErrCancelled) {
			t.Errorf("%v came out as %v", err, got)
		}
	}
}

// Pages fit into packets and add up to all facts.
func TestPages(t *testing.T) {
	var facts []*observe.Facts
	for i := range 300 {
		facts = append(facts, &observe.Facts{Rev: uint64(i + 1), Exits: make([]state.Exit, i%64)})
	}
	var got []uint64
	since := 0
	for pages := 0; ; pages++ {
		b, err := page(facts[since:], 300, since == 0)
		if err != nil {
			t.Fatal(err)
		}
		var lp ListPage
		if err := json.Unmarshal(b, &lp); err != nil {
			t.Fatal(err)
		}
		if len(b) > maxInline && len(lp.Facts) > 1 {
			t.Fatalf("a page of %d bytes with %d facts", len(b), len(lp.Facts))
		}
		for _, f := range lp.Facts {
			got = append(got, f.Rev)
		}
		since = int(lp.Rev)
		if !lp.More {
			if pages < 2 {
				t.Errorf("only %d pages", pages+1)
			}
			break
		}
	}
	for i, rev := range got {
		if rev != uint64(i+1) {
			t.Fatalf("revision %d comes as %d.", rev, i+1)
		}
	}
	if len(got) != 300 {
		t.Errorf("%d facts", len(got))
	}
}

func FuzzDecodeMessage(f *testing.F) {
	for _, seed := range []string{
		`{"id":1,"op":"hello"}` + "\n" + `{"protocol":1,"version":"x","purpose":"Control"}`,
		`{"id":2,"op":"list","session":1}` + "\n" + `{"since":0}`,
		`{"id":3,"op":"start","session":1,"within":5000}` + "\n" + `{"launch":{"scope":{"namespace":"default","server":"a","profile":"b"}},"after":-1}`,
		`{"id":4,"op":"step"}` + "\n" + `{"index":-1}`, `{"memfd":70000}`, `{"memfd":1}` + "\n" + `null`, `{"error":{"kind":"Refused"}}`, `[]`, ``, `{"id":-1}`,
		`{"op":"logs"}` + "\n" + `{"tail":-9223372036854775808,"since":"x"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, packet []byte) {
		m, err := decodeMessage(packet)
		if err != nil {
			return
		}
		if m.Memfd < 0 || m.Memfd > maxBody {
			t.Fatalf("a body of %d bytes", m.Memfd)
		}
		_ = m.Error.Err()
		for _, into := range []any{
			&Hello{}, &ListRequest{}, &LogQuery{}, &state.StartOrder{}, &state.StopOrder{}, &state.StepOrder{}, &state.LiveOrder{},
			&state.ReadyOrder{}, &state.ScopeOrder{}, &Host{}, &ListPage{}, &Welcome{}, &LogEntry{},
		} {
			if err := decodeBody(m, into); err != nil {
				if _, ok := IsRefused(err); !ok {
					t.Fatalf("not a refusal: %v", err)
				}
			}
		}
		body := encoded(m.Body)
		m.Body = nil
		again, beside, err := encodeMessage(m, body)
		if err != nil {
			return // what was made longer by escaping
		}
		if m.Memfd == 0 && beside == nil {
			if _, err := decodeMessage(again); err != nil {
				t.Fatalf("%q does not survive: %v", again, err)
			}
		}
	})
}

// FuzzOrders gives whatever decodes to a core: it must answer, and never with a run that was not asked for.
func FuzzOrders(f *testing.F) {
	f.Add([]byte(`{"launch":{"scope":{"namespace":"default","server":"a","profile":"b"},"workspace":"usr","executable":"x","stop":[]}}`))
	f.Add([]byte(`{"scope":{"namespace":"..","server":"/","profile":"b"},"runID":"x","index":99}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var start state.StartOrder
		if json.Unmarshal(body, &start) != nil {
			return
		}
		faults := start.Launch.Validate()
		if len(faults) > 0 {
			err := refuseFaults(faults)
			for _, a := range start.Launch.Args {
				if len(a) > 8 && bytes.Contains([]byte(err.Error()), []byte(a)) {
					t.Errorf("EC-6: the refusal shows an argument: %v", err)
				}
			}
		}
	})
}
