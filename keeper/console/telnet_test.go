package console

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"reconciler.dev/reconciler/keeper/secret"
)

// textServer talks line by line. It plays a server's console; the client may leave at any time.
type textServer struct {
	net.Conn
	in *bufio.Reader
}

func (s *textServer) say(parts ...string) {
	for _, p := range parts {
		_, _ = io.WriteString(s, p) // the client may be gone
	}
}

func (s *textServer) line() string {
	l, _ := s.in.ReadString('\n') // an end shows as an empty line
	return strings.TrimRight(l, "\r\n")
}

func asText(f func(*textServer)) func(net.Conn) {
	return func(c net.Conn) { f(&textServer{c, bufio.NewReader(c)}) }
}

// teeworlds talks as src/engine/shared/econ.cpp does: every line ends with a newline and two NULs.
func teeworlds(then func(s *textServer, line string)) func(net.Conn) {
	return asText(func(s *textServer) {
		s.say("Enter password:\n\x00\x00")
		for try := 1; s.line() != testPassword; try++ {
			if try == 3 {
				s.say("Wrong password 3/3.\n\x00\x00")
				return
			}
			s.say("Wrong password 1/3.\n\x00\x00")
			if _, err := s.in.Peek(1); err != nil {
				return
			}
		}
		s.say("Authentication successful. External console access granted.\n\x00\x00")
		then(s, s.line())
	})
}

// sevenDays talks as 7 Days to Die does.
func sevenDays(ask bool, then func(s *textServer, line string)) func(net.Conn) {
	return asText(func(s *textServer) {
		if ask {
			s.say("Please enter password:", "\r\n")
			if s.line() != testPassword {
				s.say("Password incorrect, please enter password:\r\n")
				listen(s)
				return
			}
			s.say("Logon successful.\r\n\r\n\r\n\r\n")
		}
		s.say("*** Connected with 7DTD server.\r\n*** Server version: V 1.0\r\n", "\r\nPress 'help' to get a list of all commands. Press 'exit' to end session.\r\n\r\n")
		then(s, s.line())
	})
}

func TestTelnet(t *testing.T) {
	answer := func(text string) func(*textServer, string) {
		return func(s *textServer, line string) {
			if line != testLine {
				t.Errorf("the server gets %q", line)
			}
			s.say(text)
			listen(s)
		}
	}
	none := secret.Value{}
	for name, c := range map[string]struct {
		server   func(net.Conn)
		password secret.Value
		expect   string
		result   Result
		reason   Reason
		text     string
	}{
		"Teeworlds":                 {teeworlds(answer("[server]: ok\n\x00\x00")), password(), "", HandedOver, "", "[server]: ok\n"},
		"Teeworlds, expected":       {teeworlds(answer("[server]: ok\n\x00\x00")), password(), "]: ok", Done, "", "[server]: ok\n"},
		"Teeworlds, wrong":          {teeworlds(answer("")), secret.New([]byte("wrong")), "", Undeliverable, Rejected, ""},
		"Teeworlds, none":           {teeworlds(answer("")), none, "", Undeliverable, BadPassword, ""},
		"Teeworlds, end":            {teeworlds(func(*textServer, string) {}), password(), "", HandedOver, "", ""},
		"Teeworlds, end, expected":  {teeworlds(func(*textServer, string) {}), password(), "x", HandedOver, NoReply, ""},
		"Teeworlds, other output":   {teeworlds(func(s *textServer, _ string) { s.say("[chat]: hi\n") }), password(), "saved", HandedOver, NotSeen, "[chat]: hi\n"},
		"7 Days, wrong":             {sevenDays(true, answer("")), secret.New([]byte("wrong")), "", Undeliverable, Rejected, ""},
		"7 Days":                    {sevenDays(true, answer("World saved\r\n")), password(), "World saved", Done, "", ""},
		"7 Days, no password":       {sevenDays(false, answer("World saved\r\n")), none, "World saved", Done, "", ""},
		"shows the password":        {teeworlds(answer(testPassword + " is it\n")), password(), "is it", Done, "", "[secret] is it\n"},
		"telnet commands, colours":  {teeworlds(answer("sa\xff\xfb\x01v\xff\xfa\x18\x01\xff\xf0ed\x1b[0m!")), password(), "saved!", Done, "", "saved!"},
		"output without an end":     {teeworlds(func(s *textServer, _ string) { flood(s, bytes.Repeat([]byte("x"), 64<<10)) }), password(), "never", HandedOver, Protocol, strings.Repeat("x", ReplyLimit)},
		"greeting without an end":   {func(c net.Conn) { flood(c, bytes.Repeat([]byte("x"), 4096)) }, password(), "", Undeliverable, Protocol, ""},
		"an end at once":            {func(net.Conn) {}, password(), "", Undeliverable, Closed, ""},
		"an end after the password": {asText(func(s *textServer) { s.say("password:"); s.line() }), password(), "", Undeliverable, Rejected, ""},
		"asks again":                {asText(func(s *textServer) { s.say("Your password: "); s.line(); s.say("Your password: "); listen(s) }), password(), "", Undeliverable, Rejected, ""},
		"the question in two pieces": {asText(func(s *textServer) {
			s.say("Passw", "ord", ":")
			s.line()
			s.say(" \r\nHello\r\n")
			s.line()
			s.say("ok")
		}), password(), "ok", Done, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			line := Line{Text: testLine, Expect: c.expect}
			check := func(o Outcome) {
				t.Helper()
				mustBe(t, o, c.result, c.reason)
				if o.Reply != c.text && !strings.HasPrefix(name, "7 Days") && !strings.HasPrefix(name, "the question") {
					t.Errorf("the reply is %q, not %q", o.Reply, c.text)
				}
			}
			check(overWire(t, c.expect, c.server, func(conv *conversation) Outcome { return conv.telnet(c.password, line) }))
			if c.password.Set() && c.expect != "" { // without a time
				check(Telnet(within(t, patience), serve(t, c.server), c.password, line))
			}
		})
	}
}

func TestTelnetTimes(t *testing.T) {
	for name, c := range map[string]struct {
		server   func(net.Conn)
		password secret.Value
		expect   string
		result   Result
		reason   Reason
		takes    time.Duration
	}{
		"silent, no password":             {asText(func(s *textServer) { s.line(); listen(s) }), secret.Value{}, "", HandedOver, "", greetingLimit + settle},
		"silent, a password":              {listen, password(), "", Undeliverable, NoAnswer, approachLimit},
		"silent about the password":       {asText(func(s *textServer) { s.say("password:"); s.line(); listen(s) }), password(), "", Undeliverable, NoAnswer, approachLimit},
		"greets, no password":             {asText(func(s *textServer) { s.say("Hello:"); s.line(); listen(s) }), secret.Value{}, "", HandedOver, "", quiet + settle},
		"greets for ever, a password":     {asText(func(s *textServer) { drip(s) }), password(), "", Undeliverable, NoAnswer, approachLimit},
		"speaks after the line":           {asText(func(s *textServer) { s.say("Hello:"); s.line(); s.say("ok\n"); listen(s) }), secret.Value{}, "", HandedOver, "", 2 * quiet},
		"speaks all the time":             {asText(func(s *textServer) { s.say("Hello:"); s.line(); drip(s) }), secret.Value{}, "", HandedOver, "", quiet + settle + drainLimit},
		"speaks all the time of another ": {asText(func(s *textServer) { s.say("Hello:"); s.line(); drip(s) }), secret.Value{}, "saved", HandedOver, NotSeen, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				began := time.Now()
				var took time.Duration
				o := piped(t, ctx, c.expect, c.server, func(conv *conversation) Outcome {
					o := conv.telnet(c.password, Line{Text: testLine, Expect: c.expect})
					took = time.Since(began)
					return o
				})
				mustBe(t, o, c.result, c.reason)
				if took.Truncate(50*time.Millisecond) != c.takes {
					t.Errorf("it took %v, not %v", took, c.takes)
				}
			})
		})
	}
}

// drip says a word every 30 ms until the client is gone.
func drip(s *textServer) {
	for {
		if _, err := io.WriteString(s, "word\n"); err != nil {
			return
		}
		time.Sleep(30 * time.Millisecond)
	}
}

func TestTelnetRefuses(t *testing.T) {
	peer := serve(t, asText(func(s *textServer) { t.Errorf("the server gets %q", s.line()) }))
	mustBe(t, Telnet(within(t, patience), peer, password(), Line{Text: strings.Repeat("x", TelnetLimit+1)}), Undeliverable, BadLine)
	mustBe(t, Telnet(within(t, patience), peer, secret.New([]byte("a\nb")), Line{Text: "x"}), Undeliverable, BadPassword)
}

func FuzzTelnet(f *testing.F) {
	for _, s := range []string{"Enter password:\n\x00\x00", "Wrong password 1/3.\n", "\r\nLogon successful.\r\n", "Please enter password:\r\n", "a\xff\xff\xfb\x01b\xff\xfa\x18\xff\xf0c", "\xff", ":\r\n> \r\n"} {
		f.Add([]byte(s), 3)
	}
	f.Fuzz(func(t *testing.T, b []byte, cut int) {
		var whole, parts telnetStripper
		want := whole.text(bytes.Clone(b))
		cut = min(max(cut, 0), len(b))
		got := append(bytes.Clone(parts.text(bytes.Clone(b[:cut]))), parts.text(bytes.Clone(b[cut:]))...)
		if !bytes.Equal(want, got) || whole != parts || bytes.IndexByte(want, 0) >= 0 || len(want) > len(b) {
			t.Fatalf("%q becomes %q, cut at %d %q", b, want, cut, got)
		}
		if bytes.IndexByte(b, telnetIAC) < 0 && !bytes.Equal(want, bytes.ReplaceAll(b, []byte{0}, nil)) {
			t.Fatalf("text %q becomes %q", b, want)
		}
		if welcome, known := telnetVerdict(want); welcome && (!known || asksPassword(want)) {
			t.Fatalf("%q welcomes", want)
		}
	})
}
