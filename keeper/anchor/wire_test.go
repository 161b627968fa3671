package anchor

import (
	"bytes"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"reconciler.dev/reconciler/observe/proc/wait"
)

func FuzzRequest(f *testing.F) {
	for _, r := range []request{{op: opPut, seq: 1, name: "a"}, {op: opNames, seq: 1 << 31}, {op: opReap}} {
		f.Add(r.encode())
	}
	f.Add([]byte{})
	f.Add([]byte{byte(opGet), 1, 2, 3, 4, 0})
	f.Fuzz(func(t *testing.T, packet []byte) {
		r, err := decodeRequest(packet)
		if err == nil && !bytes.Equal(r.encode(), packet) {
			t.Errorf("%q reads as %+v", packet, r)
		}
		// Without a descriptor nothing can be put or reaped, whatever the bytes are.
		shelf := NewShelf(1)
		answer, fd := shelf.answer(packet, -1)
		if fd != -1 || len(shelf.held) != 0 {
			t.Errorf("%q holds %v and answers with descriptor %d", packet, shelf.held, fd)
		}
		if err != nil && answer.status != statusBad {
			t.Errorf("%q is answered with %d", packet, answer.status)
		}
		if len(answer.encode()) > maxPacket {
			t.Errorf("an answer of %d bytes", len(answer.encode()))
		}
	})
}

func FuzzReply(f *testing.F) {
	f.Add(reply{status: statusOK, seq: 7, body: appendNames(nil, []string{"a", "b/c"})}.encode(), "")
	f.Add(reply{status: statusNone, seq: 1}.encode(), "b")
	f.Add(reply{status: statusOK, body: appendEnd(nil, wait.End{Status: 7 << 8, CPU: time.Second, MaxRSS: 1 << 20})}.encode(), "")
	f.Fuzz(func(t *testing.T, packet []byte, after string) {
		r, err := decodeReply(packet)
		if err != nil {
			return
		}
		if !bytes.Equal(r.encode(), packet) {
			t.Errorf("%q reads as %+v", packet, r)
		}
		if names, err := decodeNames(r.body, after); err == nil {
			if !slices.IsSorted(names) || len(names) > 0 && names[0] <= after {
				t.Errorf("names %q after %q", names, after)
			}
			if len(r.body) < maxPacket-headSize && !bytes.Equal(appendNames(nil, names), r.body) {
				t.Errorf("names %q of %q", names, r.body)
			}
		}
		if e, err := decodeEnd(r.body); err == nil && !bytes.Equal(appendEnd(nil, e), r.body) {
			t.Errorf("end %+v of %q", e, r.body)
		}
	})
}

// What is more than the protocol has room for is refused as a whole, and none of its descriptors stays open.
func TestPacketsAgainstTheRules(t *testing.T) {
	store, _ := served(t, MaxHeld)
	r, _ := pipe(t)
	fd := int(r.Fd())
	tests := map[string]struct {
		packet []byte
		fds    []int
	}{
		"too long":            {request{op: opPut, seq: 9, name: strings.Repeat("x", maxPacket)}.encode(), []int{fd}},
		"two descriptors":     {request{op: opPut, seq: 9, name: "x"}.encode(), []int{fd, fd}},
		"many descriptors":    {request{op: opPut, seq: 9, name: "x"}.encode(), slices.Repeat([]int{fd}, 100)},
		"no descriptor":       {request{op: opPut, seq: 9, name: "x"}.encode(), nil},
		"one too many":        {request{op: opGet, seq: 9, name: "x"}.encode(), []int{fd}},
		"no such op":          {request{op: 99, seq: 9}.encode(), nil},
		"a name for an end":   {request{op: opExit, seq: 9, name: "x"}.encode(), []int{fd}},
		"an answer of itself": {reply{status: statusBad, seq: 9}.encode(), []int{fd}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			before := openFDs(t)
			if err := sendPacket(store.conn, tt.packet, tt.fds...); err != nil {
				t.Fatal(err)
			}
			answer, got, err := store.receive(9, time.Now().Add(time.Minute))
			if err != nil || answer.status != statusBad || got != -1 {
				t.Errorf("answer %+v with %d, %v", answer, got, err)
			}
			if names, err := store.Names(t.Context()); err != nil || len(names) > 0 {
				t.Errorf("names %v, %v", names, err)
			}
			if after := openFDs(t); after != before {
				t.Errorf("%d descriptors after %d", after, before)
			}
		})
	}
	// One that is shorter than an answer's number can be is answered as well: nobody waits for it.
	if err := sendPacket(store.conn, []byte{1}); err != nil {
		t.Fatal(err)
	}
	if answer, _, err := store.receive(0, time.Now().Add(time.Minute)); err != nil || answer.status != statusBad {
		t.Errorf("answer %+v, %v", answer, err)
	}
}

// The anchor's memory and its start are small because it is initialised before all that is large: see doc.go.
func TestImportsAreLight(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, heavy := range []string{"reflect", "unicode", "fmt", "encoding/binary", "golang.org/x/sys/unix"} {
		if slices.Contains(strings.Fields(string(out)), heavy) {
			t.Errorf("%s is imported", heavy)
		}
	}
}
