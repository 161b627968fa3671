package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"reconciler.dev/reconciler/cmd/reconciler/internal/api"
	"reconciler.dev/reconciler/cmd/reconciler/internal/api/apitest"
	"reconciler.dev/reconciler/spec"
)

// What is typed is handed over line by line, a line that is not is told and the rest goes on, and the exit code is that of the worst.
func TestAttach(t *testing.T) {
	me := &api.ConsoleWriter{By: "me", Since: apitest.Now.Add(-time.Minute), Attachment: "id"}
	ann := &api.ConsoleWriter{By: "ann", Since: apitest.Now.Add(-time.Minute)}
	since := ann.Since.Local().Format(time.TimeOnly)
	refused := api.Failure(api.ReasonConflict, "server %q is being stopped", "town")
	long := strings.Repeat("x", 1025)
	for _, c := range []struct {
		name   string
		input  string
		writer *api.ConsoleWriter
		result string // of each line
		host   apitest.Host
		args   []string
		lines  []string // that come to the server
		says   string
		code   int
	}{
		{name: "lines", input: "one\n\ntwo\r\nthree", writer: me, result: "Sent", lines: []string{"one", "two", "three"},
			says: "attached to server/town: you write; Ctrl-C detaches\n"},
		{name: "no lines", writer: me, says: "attached to server/town: you write; Ctrl-C detaches\n"},
		{name: "what is no line", input: long + "\nok\n\x1b[2J\n", writer: me, result: "Sent", lines: []string{"ok"}, code: 1,
			says: "attached to server/town: you write; Ctrl-C detaches\n" +
				"error: server/town: the line was not handed over: it must be at most 1024 bytes\n" +
				"error: server/town: the line was not handed over: it must be one line without control characters (a tab is allowed)\n"},
		{name: "a viewer", input: "one\n", writer: ann, code: 1,
			says: "attached to server/town: ann writes since " + since + " (60s ago); Ctrl-C detaches\n" +
				"error: server/town: the line was not handed over: ann writes since " + since + " (60s ago)\n"},
		{name: "a refusal", input: "one\ntwo\n", writer: me, host: apitest.Host{SendErr: refused}, lines: []string{"one", "two"}, code: 1,
			says: "attached to server/town: you write; Ctrl-C detaches\n" + strings.Repeat("Error from server (Conflict): server \"town\" is being stopped\n", 2)},
		{name: "a place that is lost", input: "one\n", writer: me, host: apitest.Host{WritesErr: api.Failure(api.ReasonConflict, "ann writes")}, code: 1,
			says: "attached to server/town: you write; Ctrl-C detaches\nError from server (Conflict): ann writes\n"},
		{name: "nobody knows", input: "one\n", writer: me, result: "Indeterminate", lines: []string{"one"}, code: 3,
			says: "attached to server/town: you write; Ctrl-C detaches\nerror: server/town: nobody knows whether the line was handed over; it is not sent again\n" +
				"hint: 'reconciler describe server town' and 'reconciler logs town' may tell\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			host := c.host
			host.Receipt = api.Receipt{DeliveryStatus: spec.DeliveryStatus{Rail: "Stdin", Result: c.result}}
			host.Console = []api.AttachEvent{{Type: api.AttachOutput, Text: []byte("\x1b[2Jhello\n")}, {Type: api.AttachWriter, Writer: c.writer}}
			out, says, code := attach(t, t.Context(), &host, strings.NewReader(c.input), "town")
			if says != c.says || code != c.code {
				t.Errorf("exit %d, said\n%s\nwant %d\n%s", code, says, c.code, c.says)
			}
			if out != "\x1b[2Jhello\n" { // no terminal: as it was written
				t.Errorf("printed %q", out)
			}
			var want []string
			for _, l := range c.lines {
				want = append(want, "send "+l+" to run "+apitest.Canary)
			}
			if !slices.EqualFunc(host.Calls, want, strings.HasPrefix) {
				t.Errorf("calls %q, want %q", host.Calls, want)
			}
			if q := host.LastAttach; q.Tail != 20 || q.View || q.After != "" {
				t.Errorf("asked for %+v", q)
			}
		})
	}
}

// attach is one attachment: what it printed, what it said beside it, and how it exited.
func attach(t *testing.T, ctx context.Context, host *apitest.Host, in io.Reader, args ...string) (out, says string, code int) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	e := attachEnv(t, host, in, &stdout, &stderr)
	code = execute(ctx, e, append([]string{"attach"}, args...))
	return stdout.String(), stderr.String(), code
}

func attachEnv(t *testing.T, host *apitest.Host, in io.Reader, stdout, stderr io.Writer) *env {
	t.Helper()
	runtime := apitest.Serve(t, apitest.NewLoop(apitest.Sample()), host)
	return &env{
		stdin: in, stdout: stdout, stderr: stderr, uid: os.Getuid(), now: func() time.Time { return apitest.Now },
		getenv: func(name string) string {
			return map[string]string{envRuntimeDir: runtime, envStateDir: filepath.Join(runtime, "state"), "HOME": runtime}[name]
		},
	}
}

// Ctrl-C detaches: from input that never ends, and from --view, which reads none. It is a good end.
func TestDetach(t *testing.T) {
	me := &api.ConsoleWriter{By: "me", Since: apitest.Now, Attachment: "id"}
	for _, args := range [][]string{{"town"}, {"town", "--view", "--tail", "0"}} {
		in, keep, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(keep, "unfinished"); err != nil {
			t.Fatal(err)
		}
		ctx, interrupt := context.WithCancel(t.Context())
		host := &apitest.Host{Console: []api.AttachEvent{{Type: api.AttachWriter, Writer: me}}}
		says := &turning{turns: []turn{{"attached to server/town", interrupt}}}
		if code := execute(ctx, attachEnv(t, host, in, io.Discard, says), append([]string{"attach"}, args...)); code != 0 || len(host.Calls) > 0 {
			t.Errorf("%q: exit %d, calls %q\n%s", args, code, host.Calls, says.text.String())
		}
		if q := host.LastAttach; q.View != slices.Contains(args, "--view") || q.View && q.Tail != 0 {
			t.Errorf("%q: asked for %+v", args, q)
		}
		if err := errors.Join(in.Close(), keep.Close()); err != nil {
			t.Error(err)
		}
		interrupt()
	}
}

// What a rail answers is printed, and ends its line.
func TestAttachPrintsReplies(t *testing.T) {
	host := &apitest.Host{
		Console: []api.AttachEvent{{Type: api.AttachWriter, Writer: &api.ConsoleWriter{By: "me", Attachment: "id"}}},
		Receipt: api.Receipt{DeliveryStatus: spec.DeliveryStatus{Result: "Sent"}, Reply: "3 players"},
	}
	if out, says, code := attach(t, t.Context(), host, strings.NewReader("list\nlist\n"), "town"); out != "3 players\n3 players\n" || code != 0 {
		t.Errorf("exit %d, printed %q, said %q", code, out, says)
	}
}

// What ends the view ends the command; what cannot begin says why.
func TestAttachFails(t *testing.T) {
	in, keep, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer keep.Close()
	removed := api.Failure(api.ReasonNotFound, "server %q was removed", "town")
	for _, c := range []struct {
		host *apitest.Host
		args []string
		says string
		code int
	}{
		{&apitest.Host{Console: []api.AttachEvent{{Type: api.AttachWriter}}, ConsoleErr: removed}, []string{"town"},
			"Error from server (NotFound): server \"town\" was removed\n", 1},
		{&apitest.Host{}, []string{"nowhere"}, "Error from server (NotFound): servers \"nowhere\" not found\n", 1},
		{&apitest.Host{}, []string{"town", "--tail", "-2"}, "error: --tail -2: must be 0 or more, or -1 for all lines\n", 2},
		{&apitest.Host{}, nil, "error: reconciler attach needs the name of a server\n", 2},
	} {
		if _, says, code := attach(t, t.Context(), c.host, in, c.args...); !strings.Contains(says, c.says) || code != c.code {
			t.Errorf("%q: exit %d, said\n%s", c.args, code, says)
		}
	}
}

// A change of the writer is told once, and everybody's lines are refused but the writer's.
func TestWritersAreTold(t *testing.T) {
	ann := &api.ConsoleWriter{By: "ann", Since: apitest.Now.Add(-time.Hour)}
	me := &api.ConsoleWriter{By: "me", Since: apitest.Now, Attachment: "id"}
	writers := []*api.ConsoleWriter{nil, nil, ann, ann, me, nil}
	host := &apitest.Host{ConsoleErr: api.Failure(api.ReasonNotFound, "gone")}
	for _, w := range writers {
		host.Console = append(host.Console, api.AttachEvent{Type: api.AttachWriter, Writer: w})
	}
	_, says, _ := attach(t, t.Context(), host, strings.NewReader(""), "town", "--view")
	want := "attached to server/town: nobody writes; Ctrl-C detaches\n" +
		fmt.Sprintf("server/town: ann writes since %s (60m ago)\n", ann.Since.Local().Format(time.TimeOnly)) +
		"server/town: you write\nserver/town: nobody writes\nError from server (NotFound): gone\n"
	if says != want {
		t.Errorf("said\n%s\nwant\n%s", says, want)
	}
}

func TestTypedLines(t *testing.T) {
	for _, c := range []struct {
		pieces []string
		want   []string
	}{
		{nil, nil},
		{[]string{"one\ntwo\n"}, []string{"one", "two"}},
		{[]string{"o", "ne", "\n", "\n", "two"}, []string{"one", "two"}},
		{[]string{"one\r\n", "\r\n", "t\rwo\r", "\n"}, []string{"one", "t\rwo"}},
		{[]string{strings.Repeat("x", 5000), "more\nshort\n"}, []string{strings.Repeat("x", maxTyped), "short"}},
	} {
		var lines typedLines
		var got []string
		each := func(l string) { got = append(got, l) }
		for _, p := range c.pieces {
			lines.take([]byte(p), each)
		}
		lines.end(each)
		if !slices.Equal(got, c.want) {
			t.Errorf("%.40q: got %.80q", c.pieces, got)
		}
	}
}

// On a terminal Enter alone is a line.
func TestEmptyLines(t *testing.T) {
	lines := typedLines{empty: true}
	var got []string
	for _, p := range []string{"\n", "one\r\n\r", "\n", "tw"} {
		lines.take([]byte(p), func(l string) { got = append(got, l) })
	}
	if want := []string{"", "one", ""}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// However input is cut, its lines are the same.
func FuzzTypedLines(f *testing.F) {
	f.Add("one\ntwo\r\n\nthree", 3)
	f.Add(strings.Repeat("x", 9000)+"\n", 4096)
	f.Add("\r\n\r", 1)
	f.Fuzz(func(t *testing.T, text string, cut int) {
		read := func(pieces ...string) (got []string) {
			var lines typedLines
			for _, p := range pieces {
				lines.take([]byte(p), func(l string) { got = append(got, l) })
			}
			lines.end(func(l string) { got = append(got, l) })
			return got
		}
		cut = max(0, min(cut, len(text)))
		whole := read(text)
		if got := read(text[:cut], text[cut:]); !slices.Equal(got, whole) {
			t.Errorf("%q cut at %d: %q, whole %q", text, cut, got, whole)
		}
		for _, l := range whole {
			if l == "" || len(l) > maxTyped || strings.Contains(l, "\n") {
				t.Errorf("%q has the line %q", text, l)
			}
		}
	})
}
