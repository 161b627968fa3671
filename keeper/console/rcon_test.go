package console

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"reconciler.dev/reconciler/keeper/secret"
)

// faultdRCON is a server in a process of its own, and what waits for its end.
func faultdRCON(t *testing.T, args ...string) (Peer, *exec.Cmd) {
	t.Helper()
	cmd := exec.Command(os.Args[0], append([]string{"faultd", "rcon", "-password", testPassword}, args...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return Peer{Address: netip.MustParseAddrPort(strings.TrimSpace(strings.TrimPrefix(line, "rcon listening ")))}, cmd
}

func TestRCONProcess(t *testing.T) {
	peer, cmd := faultdRCON(t, "-stop", "quit now", "-code", "7")
	o := RCON(within(t, patience), peer, password(), Line{Text: testLine, Expect: "you said"})
	mustBe(t, o, Done, "")
	if o.Reply != "you said "+testLine {
		t.Errorf("the reply is %q", o.Reply)
	}
	mustBe(t, RCON(within(t, patience), peer, password(), Line{Text: testLine, Expect: "said say"}), Done, "")
	mustBe(t, RCON(within(t, patience), peer, password(), Line{Text: testLine, Expect: "saved"}), HandedOver, NotSeen)
	mustBe(t, RCON(within(t, patience), peer, secret.New([]byte("wrong")), Line{Text: testLine}), Undeliverable, Rejected)
	mustBe(t, RCON(within(t, patience), peer, password(), Line{Text: "quit now", Expect: "stopping"}), Done, "")
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 7 {
		t.Errorf("the server ended with %v", err)
	}
}

// rconServer logs the client in as Source does and lets reply answer the line.
func rconServer(reply func(c net.Conn, line rconPacket)) func(net.Conn) {
	return func(c net.Conn) {
		p, err := readRCON(c)
		if err != nil || p.kind != rconLogin {
			return
		}
		if _, err := c.Write(append(rconBytes(p.id, rconValue, nil), rconBytes(p.id, rconVerdict, nil)...)); err != nil {
			return
		}
		if p, err = readRCON(c); err == nil && p.kind == rconCommand {
			reply(c, p)
		}
	}
}

func value(id int32, body string) []byte { return rconBytes(id, rconValue, []byte(body)) }

// endLikeSource repeats the packet that marks the end, and another that is odd.
func endLikeSource(c net.Conn) {
	p, err := readRCON(c)
	if err != nil {
		return
	}
	_, _ = c.Write(append(value(p.id, ""), value(p.id, "\x00\x01\x00\x00")...)) // the client may be gone
	listen(c)
}

func TestRCONReplies(t *testing.T) {
	big := strings.Repeat("x", 4096)
	write := func(c net.Conn, parts ...[]byte) {
		for _, b := range parts {
			if _, err := c.Write(b); err != nil {
				return
			}
		}
	}
	for name, c := range map[string]struct {
		expect string
		reply  func(c net.Conn, p rconPacket)
		result Result
		reason Reason
		text   string
	}{
		"in one packet": {reply: func(c net.Conn, p rconPacket) { write(c, value(p.id, "ok")); endLikeSource(c) }, result: HandedOver, text: "ok"},
		"in three": {reply: func(c net.Conn, p rconPacket) {
			write(c, value(p.id, "a"), value(p.id, "b"), value(p.id, "c"))
			endLikeSource(c)
		}, result: HandedOver, text: "abc"},
		"in the second": {expect: "xxend", reply: func(c net.Conn, p rconPacket) {
			write(c, value(p.id, big), value(p.id, "end"))
			endLikeSource(c)
		}, result: Done, text: big},
		"not in it": {expect: "saved", reply: func(c net.Conn, p rconPacket) { write(c, value(p.id, "ok")); endLikeSource(c) }, result: HandedOver, reason: NotSeen, text: "ok"},
		"empty":     {reply: func(c net.Conn, p rconPacket) { write(c, value(p.id, "")); endLikeSource(c) }, result: HandedOver},
		"a byte at a time": {expect: "ok", reply: func(c net.Conn, p rconPacket) {
			for _, b := range value(p.id, "ok") {
				write(c, []byte{b})
			}
			listen(c)
		}, result: Done, text: "ok"},
		"an end instead of one":            {reply: func(net.Conn, rconPacket) {}, result: HandedOver},
		"an end instead of what is wanted": {expect: "saved", reply: func(net.Conn, rconPacket) {}, result: HandedOver, reason: NoReply},
		"an end in the middle":             {reply: func(c net.Conn, p rconPacket) { write(c, value(p.id, "truncated")[:9]) }, result: Indeterminate, reason: Closed},
		"too large":                        {reply: func(c net.Conn, p rconPacket) { write(c, []byte{0xff, 0xff, 0, 0}); listen(c) }, result: Indeterminate, reason: Protocol},
		"negative":                         {reply: func(c net.Conn, p rconPacket) { write(c, []byte{0xff, 0xff, 0xff, 0xff}); listen(c) }, result: Indeterminate, reason: Protocol},
		"garbage behind a good one": {reply: func(c net.Conn, p rconPacket) {
			write(c, value(p.id, "ok"), []byte("garbage and more of it"))
			listen(c)
		}, result: HandedOver, text: "ok"},
		"another's":            {reply: func(c net.Conn, p rconPacket) { write(c, value(77, "x")); listen(c) }, result: Indeterminate, reason: Protocol},
		"a demand for a login": {reply: func(c net.Conn, p rconPacket) { write(c, rconBytes(-1, rconVerdict, nil)); listen(c) }, result: Undeliverable, reason: Rejected},
		"without an end":       {expect: "never", reply: func(c net.Conn, p rconPacket) { flood(c, value(p.id, big)) }, result: HandedOver, reason: Protocol, text: big},
		"with the password":    {expect: "is", reply: func(c net.Conn, p rconPacket) { write(c, value(p.id, testPassword+" is it")); listen(c) }, result: Done, text: "[secret] is it"},
		"with colours":         {expect: "saved", reply: func(c net.Conn, p rconPacket) { write(c, value(p.id, "sa\x1b[1mved")); listen(c) }, result: Done, text: "saved"},
		"with the password behind colours": {expect: "!", reply: func(c net.Conn, p rconPacket) {
			write(c, value(p.id, testPassword[:4]+"\x1b[0m\x07"+testPassword[4:]+"!"))
			listen(c)
		}, result: Done, text: "[secret]!"},
		"that is not UTF-8": {expect: "ok", reply: func(c net.Conn, p rconPacket) { write(c, value(p.id, "\xffok")); listen(c) }, result: Done, text: "\uFFFDok"},
	} {
		t.Run(name, func(t *testing.T) {
			line := Line{Text: testLine, Expect: c.expect}
			check := func(o Outcome) {
				t.Helper()
				mustBe(t, o, c.result, c.reason)
				if o.Reply != c.text {
					t.Errorf("the reply is %q, not %q", o.Reply, c.text)
				}
			}
			check(overWire(t, c.expect, rconServer(c.reply), func(c *conversation) Outcome { return c.rcon(password(), line) }))
			if c.expect != "" { // without a time
				check(RCON(within(t, patience), serve(t, rconServer(c.reply)), password(), line))
			}
		})
	}
}

// A server that closes on a line that it has not read resets the connection: nobody knows.
func TestRCONResetIsIndeterminate(t *testing.T) {
	peer := serve(t, func(c net.Conn) {
		p, err := readRCON(c)
		if err != nil {
			t.Error(err)
			return
		}
		if _, err := c.Write(rconBytes(p.id, rconVerdict, nil)); err != nil {
			t.Error(err)
		}
		reset(t, c)
	})
	// Something is expected, so that the reset has all the time that it takes.
	mustBe(t, RCON(within(t, patience), peer, password(), Line{Text: testLine, Expect: "x"}), Indeterminate, Closed)
}

// A server that has closed already is not given the line.
func TestEndBeforeTheLine(t *testing.T) {
	peer := serve(t, func(c net.Conn) {})
	conn, err := net.Dial("tcp", peer.Address.String())
	if err != nil {
		t.Fatal(err)
	}
	arrived(t, conn) // the end
	c := newConversation(within(t, patience), conn, "")
	defer c.close(false)
	handed, o := c.handOver([]byte(testLine))
	if handed {
		t.Fatal("the line was written to a closed connection")
	}
	mustBe(t, o, Undeliverable, Closed)
}

// An end that came before the line proves nothing: the peer's system rejects the line then.
func TestEndOnTheWayOfTheLine(t *testing.T) {
	peer := serve(t, func(c net.Conn) { c.Close() })
	conn, err := net.Dial("tcp", peer.Address.String())
	if err != nil {
		t.Fatal(err)
	}
	arrived(t, conn) // the end
	c := newConversation(within(t, patience), conn, "")
	defer c.close(false)
	if _, err := conn.Write([]byte(testLine)); err != nil {
		t.Fatal(err)
	}
	if rawErr := c.raw(func(fd int) { err = poll(fd, 0) }); rawErr != nil || err != nil { // until it is rejected
		t.Fatal(rawErr, err)
	}
	_, err = conn.Read(make([]byte, 1))
	mustBe(t, c.finish(err), Indeterminate, Closed)
}

// A deadline that is set when the context has ended already does not bring the conversation back to life.
func TestUntilAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		o := piped(t, ctx, "", listen, func(c *conversation) Outcome {
			defer c.close(false)
			cancel()
			synctest.Wait()
			if err := c.until(time.Now().Add(time.Hour)); err != nil {
				t.Error(err)
			}
			_, err := c.conn.Read(make([]byte, 1))
			return undeliverable(err)
		})
		mustBe(t, o, Undeliverable, NoAnswer)
		if took := time.Since(began); took != 0 {
			t.Errorf("it took %v", took)
		}
	})
}

// minecraft reads as Minecraft does: what one read gives, of 1460 bytes at most, must be one packet.
func minecraft(t *testing.T, lines *[]string) func(net.Conn) {
	return func(c net.Conn) {
		buf := make([]byte, 1460)
		for {
			n, err := c.Read(buf)
			if err != nil {
				return
			}
			r := bytes.NewReader(buf[:n])
			p, err := readRCON(r)
			if err != nil || r.Len() > 0 {
				t.Errorf("one read gave %d bytes, which are no packet: %v", n, err)
				return
			}
			answer := rconBytes(p.id, rconValue, []byte("Unknown request 0"))
			switch p.kind {
			case rconLogin:
				answer = rconBytes(p.id, rconVerdict, nil)
			case rconCommand:
				*lines = append(*lines, string(p.body))
				// 4096 characters a packet, of three bytes here
				answer = append(value(p.id, strings.Repeat("€", 4096)), value(p.id, "done")...)
			}
			if _, err := c.Write(answer); err != nil {
				return
			}
		}
	}
}

func TestRCONMinecraft(t *testing.T) {
	var lines []string
	peer := serve(t, minecraft(t, &lines))
	long := strings.Repeat("s", RCONLimit)
	mustBe(t, RCON(within(t, patience), peer, password(), Line{Text: long, Expect: "done"}), Done, "")
	o := overWire(t, "", minecraft(t, &lines), func(c *conversation) Outcome { return c.rcon(password(), Line{Text: "save-all"}) })
	mustBe(t, o, HandedOver, "")
	if !o.Truncated || !strings.HasPrefix(o.Reply, "€€€") {
		t.Errorf("truncated %v, reply of %d bytes", o.Truncated, len(o.Reply))
	}
	mustBe(t, RCON(within(t, patience), peer, password(), Line{Text: long + "s"}), Undeliverable, BadLine)
	mustBe(t, RCON(within(t, patience), peer, secret.Value{}, Line{Text: "save-all"}), Undeliverable, BadPassword)
	mustBe(t, RCON(within(t, patience), peer, secret.New([]byte("a\nb")), Line{Text: "save-all"}), Undeliverable, BadPassword)
	if len(lines) != 2 || lines[0] != long || lines[1] != "save-all" {
		t.Errorf("the server got %d lines", len(lines))
	}
}

func TestRCONLogin(t *testing.T) {
	for name, c := range map[string]struct {
		answer []byte
		reason Reason
	}{
		"refused":          {append(value(1, ""), rconBytes(-1, rconVerdict, nil)...), Rejected},
		"an end":           {nil, Rejected},
		"half a packet":    {rconBytes(1, rconVerdict, nil)[:7], Closed},
		"for another":      {rconBytes(5, rconVerdict, nil), Protocol},
		"of another kind":  {rconBytes(1, 9, nil), Protocol},
		"values for ever":  {bytes.Repeat(value(1, ""), 5), Protocol},
		"no final NUL":     {append(rconBytes(1, rconVerdict, nil)[:13], 1), Protocol},
		"a server of HTTP": {[]byte("HTTP/1.1 400 Bad Request\r\n\r\n"), Protocol},
	} {
		t.Run(name, func(t *testing.T) {
			peer := serve(t, func(conn net.Conn) {
				if _, err := readRCON(conn); err != nil {
					t.Error(err)
				}
				_, _ = conn.Write(c.answer) // the client may be gone
			})
			mustBe(t, RCON(within(t, patience), peer, password(), Line{Text: testLine}), Undeliverable, c.reason)
		})
	}
}

func TestRCONTimes(t *testing.T) {
	talk := func(c *conversation) Outcome { return c.rcon(password(), Line{Text: testLine}) }
	login := func(c net.Conn) {
		if p, err := readRCON(c); err != nil {
			t.Error(err)
		} else if _, err := c.Write(rconBytes(p.id, rconVerdict, nil)); err != nil {
			t.Error(err)
		}
	}
	for name, c := range map[string]struct {
		expect string
		serve  func(net.Conn)
		result Result
		reason Reason
		takes  time.Duration
	}{
		"hung at the login":          {serve: listen, result: Undeliverable, reason: NoAnswer, takes: approachLimit},
		"hung before reading":        {serve: func(c net.Conn) { time.Sleep(time.Hour) }, result: Undeliverable, reason: NoAnswer, takes: approachLimit},
		"no reply, none expected":    {serve: func(c net.Conn) { login(c); listen(c) }, result: HandedOver, takes: settle},
		"no reply, one expected":     {expect: "x", serve: func(c net.Conn) { login(c); listen(c) }, result: HandedOver, reason: NoReply, takes: time.Minute},
		"no end, none expected":      {serve: func(c net.Conn) { login(c); readThenSay(c, "ok"); listen(c) }, result: HandedOver, takes: settle},
		"no end, something expected": {expect: "x", serve: func(c net.Conn) { login(c); readThenSay(c, "ok"); listen(c) }, result: HandedOver, reason: NotSeen, takes: time.Minute},
		"a late reply that is expected": {expect: "x", serve: func(c net.Conn) {
			login(c)
			p, err := readRCON(c)
			if err != nil {
				t.Error(err)
			}
			time.Sleep(30 * time.Second)
			_, _ = c.Write(value(p.id, "x")) // its error shows in the outcome
			listen(c)
		}, result: Done, takes: 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				began := time.Now()
				var took time.Duration
				o := piped(t, ctx, c.expect, c.serve, func(conv *conversation) Outcome {
					o := talk(conv)
					took = time.Since(began)
					return o
				})
				mustBe(t, o, c.result, c.reason)
				if took != c.takes {
					t.Errorf("it took %v, not %v", took, c.takes)
				}
			})
		})
	}
}

func readThenSay(c net.Conn, text string) {
	if p, err := readRCON(c); err == nil {
		_, _ = c.Write(value(p.id, text)) // its error shows in the outcome
	}
}

func TestCancelEndsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		time.AfterFunc(3*time.Second, cancel)
		o := piped(t, ctx, "", listen, func(c *conversation) Outcome { return c.rcon(password(), Line{Text: testLine}) })
		mustBe(t, o, Undeliverable, NoAnswer)
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

func FuzzRCON(f *testing.F) {
	f.Add(value(1, "ok"))
	f.Add(append(value(2, ""), rconBytes(-1, rconVerdict, nil)...))
	f.Add([]byte{10, 0, 0, 0, 1})
	f.Add([]byte{9, 0, 0, 0})
	f.Add([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
	f.Add(append([]byte{0x0a, 0x30, 0, 0}, make([]byte, 12298)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		for r := bytes.NewReader(b); ; {
			before := r.Len()
			p, err := readRCON(r)
			if err != nil {
				if reason := reasonOf(err); reason != Closed && reason != Protocol {
					t.Fatalf("%v is of reason %s", err, reason)
				}
				return
			}
			if took := before - r.Len(); took < 4+rconMin || took > 4+rconMax || len(p.body) > rconMax || bytes.IndexByte(p.body, 0) >= 0 {
				t.Fatalf("%d bytes became a body of %d", took, len(p.body))
			}
			again, err := readRCON(bytes.NewReader(rconBytes(p.id, p.kind, p.body)))
			if err != nil || again.id != p.id || again.kind != p.kind || !bytes.Equal(again.body, p.body) {
				t.Fatalf("%v becomes %v, %v", p, again, err)
			}
		}
	})
}

func BenchmarkRCON(b *testing.B) {
	packet := value(2, strings.Repeat("x", 4000))
	r := bytes.NewReader(nil)
	b.SetBytes(int64(len(packet)))
	for b.Loop() {
		r.Reset(packet)
		if _, err := readRCON(r); err != nil {
			b.Fatal(err)
		}
	}
}
