package console

import (
	"bytes"
	"context"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/keeper/secret"
)

// quakeLine is the line in a request; NUL is that of a request with a wrong password.
func quakeLine(request []byte) string {
	line, ok := strings.CutPrefix(string(request), "\xff\xff\xff\xffrcon "+testPassword+" ")
	if !ok {
		return "\x00"
	}
	return line
}

// quakeServer answers each datagram with what reply makes of its line.
func quakeServer(t *testing.T, reply func(line string) []string) Peer {
	t.Helper()
	conn, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0")))
	if err != nil {
		t.Fatal(err)
	}
	var served sync.WaitGroup
	served.Go(func() {
		buf := make([]byte, 2048)
		for {
			n, from, err := conn.ReadFromUDPAddrPort(buf)
			if err != nil {
				return
			}
			for _, r := range reply(quakeLine(buf[:n])) {
				if _, err := conn.WriteToUDPAddrPort([]byte(r), from); err != nil {
					t.Error(err)
				}
			}
		}
	})
	t.Cleanup(func() {
		conn.Close()
		served.Wait()
	})
	return Peer{Address: conn.LocalAddr().(*net.UDPAddr).AddrPort()}
}

// quakeInMemory is a delivery to such a server in a bubble, where datagrams are what a pipe's writes are: no stall of this machine makes the
// server silent there. It ends after ten seconds.
func quakeInMemory(t *testing.T, line Line, reply func(line string) []string) (o Outcome) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		ours, theirs := net.Pipe()
		var served sync.WaitGroup
		served.Go(func() {
			buf := make([]byte, 2048)
			for {
				n, err := theirs.Read(buf)
				if err != nil {
					return
				}
				for _, r := range reply(quakeLine(buf[:n])) {
					_, _ = theirs.Write([]byte(r)) // the client may have heard enough
				}
			}
		})
		o = newConversation(ctx, ours, line.Expect).quake(password(), line)
		served.Wait()
	})
	return o
}

const quakeHead = "\xff\xff\xff\xffprint\n"

func TestQuake(t *testing.T) {
	for name, c := range map[string]struct {
		expect  string
		replies []string
		result  Result
		reason  Reason
		text    string
	}{
		"one datagram":            {replies: []string{quakeHead + "map: oa_dm1\n"}, result: HandedOver, text: "map: oa_dm1\n"},
		"two datagrams":           {expect: "two", replies: []string{quakeHead + "one", quakeHead + " two"}, result: Done, text: "one two"},
		"across two":              {expect: "abcd", replies: []string{quakeHead + "ab", quakeHead + "cd"}, result: Done, text: "abcd"},
		"an empty print":          {replies: []string{quakeHead}, result: HandedOver},
		"garbage before it":       {expect: "ok", replies: []string{"", "\xff", "\xff\xff\xff\xffstatusResponse\nok", strings.Repeat("ok", 900), quakeHead + "ok"}, result: Done, text: "ok"},
		"the password":            {expect: "ok", replies: []string{quakeHead + testPassword + " ok"}, result: Done, text: "[secret] ok"},
		"a wrong password":        {replies: []string{quakeHead + "Bad rconpassword.\n"}, result: Undeliverable, reason: Rejected},
		"no password there":       {expect: "x", replies: []string{quakeHead + "No rconpassword set on the server.\n"}, result: Undeliverable, reason: Rejected},
		"words about a password":  {replies: []string{quakeHead + "say: Bad rconpassword."}, result: HandedOver, text: "say: Bad rconpassword."},
		"the words in the middle": {replies: []string{quakeHead + "ok", quakeHead + "Bad rconpassword.\n"}, result: HandedOver, text: "okBad rconpassword.\n"},
	} {
		t.Run(name, func(t *testing.T) {
			line := Line{Text: testLine, Expect: c.expect}
			reply := func(line string) []string {
				if line != testLine {
					t.Errorf("the server gets %q", line)
				}
				return c.replies
			}
			check := func(o Outcome) {
				t.Helper()
				mustBe(t, o, c.result, c.reason)
				if o.Reply != c.text {
					t.Errorf("the reply is %q, not %q", o.Reply, c.text)
				}
			}
			check(quakeInMemory(t, line, reply))
			if c.expect != "" { // without a time
				check(QuakeRCON(within(t, patience), quakeServer(t, reply), password(), line))
			}
		})
	}
}

func TestQuakeWithoutReply(t *testing.T) {
	silent := func(string) []string { return nil }
	mustBe(t, quakeInMemory(t, Line{Text: "quit"}, silent), HandedOver, "")
	mustBe(t, quakeInMemory(t, Line{Text: "quit", Expect: "x"}, silent), HandedOver, NoReply)
	other := func(string) []string { return []string{quakeHead + "ok"} }
	mustBe(t, quakeInMemory(t, Line{Text: "quit", Expect: "x"}, other), HandedOver, NotSeen)
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	mustBe(t, QuakeRCON(ended, quakeServer(t, silent), password(), Line{Text: "quit"}), Undeliverable, NoAnswer)
}

// Loopback tells at once that nobody listens.
func TestQuakeNobodyListens(t *testing.T) {
	// A socket that is connected to itself hears nobody else, and keeps its port from being somebody else's.
	deaf, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(deaf)
	port := bind(t, deaf)
	if err := unix.Connect(deaf, &unix.SockaddrInet4{Addr: loopback.As4(), Port: port}); err != nil {
		t.Fatal(err)
	}
	peer := Peer{Address: netip.AddrPortFrom(loopback, uint16(port))}
	mustBe(t, QuakeRCON(within(t, patience), peer, password(), Line{Text: "quit", Expect: "x"}), Undeliverable, NotListening)
}

func TestQuakeRefuses(t *testing.T) {
	peer := quakeServer(t, func(line string) []string { t.Errorf("the server gets %q", line); return nil })
	for _, line := range []string{"", "say 100%", "say größe", strings.Repeat("x", 1023), "a\nb", "a\x7f"} {
		mustBe(t, QuakeRCON(within(t, patience), peer, password(), Line{Text: line}), Undeliverable, BadLine)
	}
	for _, p := range []string{"", "a b", `a"b`, "a%b", "größe", "a//b", "a/*b", "a\tb", strings.Repeat("x", 1020)} {
		mustBe(t, QuakeRCON(within(t, patience), peer, secret.New([]byte(p)), Line{Text: "quit"}), Undeliverable, BadPassword)
	}
}

// The longest request is one that the server reads whole.
func TestQuakeLongest(t *testing.T) {
	text := strings.Repeat("x", quakeRequest-len("rcon  ")-len(testPassword))
	peer := quakeServer(t, func(line string) []string { return []string{quakeHead + line[len(line)-3:] + "!"} })
	mustBe(t, QuakeRCON(within(t, patience), peer, password(), Line{Text: text, Expect: "xxx!"}), Done, "")
	mustBe(t, QuakeRCON(within(t, patience), peer, password(), Line{Text: text + "x", Expect: "xxx!"}), Undeliverable, BadLine)
}

func FuzzQuake(f *testing.F) {
	for _, s := range []string{quakeHead + "ok\n", quakeHead, "\xff\xff\xff\xffinfoResponse\n\\a\\b", "\xff\xff\xff", quakeHead + "a\x00b", quakeHead + "Bad rconpassword.\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		text, ok := parseQuake(b)
		if ok != bytes.HasPrefix(b, []byte(quakeHead)) || !ok && text != nil || bytes.IndexByte(text, 0) >= 0 || !bytes.Contains(b, text) {
			t.Fatalf("%q becomes %q, %v", b, text, ok)
		}
		if quakeRejects(text) && len(text) > 100 && len(bytes.TrimSpace(text)) > 50 {
			t.Fatalf("%q is a rejection", text)
		}
	})
}
