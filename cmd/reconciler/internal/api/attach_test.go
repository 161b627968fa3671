package api_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"reconciler.dev/reconciler/cmd/reconciler/internal/api"
	"reconciler.dev/reconciler/cmd/reconciler/internal/api/apitest"
	"reconciler.dev/reconciler/spec"
)

func attachPath() string { return api.ObjectPath(api.Servers, town(), api.VerbAttach) }

// An attachment is what the host shows, in its order, until the reader goes; any bytes come through.
func TestAttach(t *testing.T) {
	since := time.Date(2026, 3, 4, 5, 6, 7, 8, time.UTC)
	host := &apitest.Host{Console: []api.AttachEvent{
		{Type: api.AttachOutput, Text: []byte("a\xff\x00b\n"), After: "openttd:1:0:5:0:5"},
		{Type: api.AttachWriter, After: "openttd:1:0:5:0:5", Writer: &api.ConsoleWriter{By: "ann", Since: since, Attachment: "id"}},
		{Type: api.AttachWriter},
	}}
	c := dial(t, apitest.NewLoop(apitest.Sample()), host)
	seen, enough := "", errors.New("enough")
	three := 3
	err := c.Attach(t.Context(), attachPath(), api.Attach{TailLines: &three, After: "x", View: true}, func(e api.AttachEvent) error {
		seen += fmt.Sprintf("%s %q %q\n", e.Type, e.Text, e.After)
		switch w := e.Writer; {
		case e.Type != api.AttachWriter:
		case w == nil:
			return enough
		case w.By != "ann" || !w.Since.Equal(since) || w.Attachment != "id":
			t.Errorf("the writer is %+v", w)
		}
		return nil
	})
	if !errors.Is(err, enough) {
		t.Fatal(err)
	}
	if want := "OUTPUT \"a\\xff\\x00b\\n\" \"openttd:1:0:5:0:5\"\nWRITER \"\" \"openttd:1:0:5:0:5\"\nWRITER \"\" \"\"\n"; seen != want {
		t.Errorf("got\n%s\nwant\n%s", seen, want)
	}
	if q := host.LastAttach; q.Server != town() || q.Tail != 3 || q.After != "x" || !q.View || q.By == "" {
		t.Errorf("asked for %+v", q)
	}
}

// What ends an attachment is told as a Status, before it has begun and after; one that breaks off is the end of the stream.
func TestAttachEnds(t *testing.T) {
	shown := []api.AttachEvent{{Type: api.AttachWriter}}
	gone := api.Failure(api.ReasonNotFound, "server was removed")
	nowhere := api.ObjectPath(api.Servers, spec.Key{Namespace: "default", Name: "nowhere"}, api.VerbAttach)
	minus := -1
	for _, c := range []struct {
		name, path string
		in         api.Attach
		host       *apitest.Host
		reason     api.StatusReason
	}{
		{"before it has begun", attachPath(), api.Attach{}, &apitest.Host{ConsoleErr: gone}, api.ReasonNotFound},
		{"after it has begun", attachPath(), api.Attach{}, &apitest.Host{Console: shown, ConsoleErr: gone}, api.ReasonNotFound},
		{"by a fault of ours", attachPath(), api.Attach{}, &apitest.Host{Console: shown, ConsoleErr: errors.New("canary")}, api.ReasonInternalError},
		{"of nobody", nowhere, api.Attach{}, &apitest.Host{}, api.ReasonNotFound},
		{"with a bad tail", attachPath(), api.Attach{TailLines: &minus}, &apitest.Host{}, api.ReasonInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := dial(t, apitest.NewLoop(apitest.Sample()), c.host).Attach(t.Context(), c.path, c.in, func(api.AttachEvent) error { return nil })
			var status *api.Status
			if !errors.As(err, &status) || status.Reason != c.reason || strings.Contains(status.Message, "canary") {
				t.Errorf("it ends with %v", err)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	err := dial(t, apitest.NewLoop(apitest.Sample()), &apitest.Host{Console: shown}).Attach(ctx, attachPath(), api.Attach{}, func(api.AttachEvent) error {
		cancel()
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a reader that goes gets %v", err)
	}
}

// A line that comes from an attachment without the writer's place reaches nobody.
func TestLineOfAViewer(t *testing.T) {
	refused := api.Failure(api.ReasonConflict, "ann writes")
	for _, c := range []struct {
		name string
		line api.Line
		sent int
	}{
		{"from an attachment", api.Line{Line: "save", Attachment: "id"}, 0},
		{"by itself", api.Line{Line: "save"}, 1},
	} {
		host := &apitest.Host{Receipt: api.Receipt{DeliveryStatus: spec.DeliveryStatus{Result: "Sent"}}, WritesErr: refused}
		err := dial(t, apitest.NewLoop(apitest.Sample()), host).Post(t.Context(), api.ObjectPath(api.Servers, town(), api.VerbSend), c.line, nil)
		var status *api.Status
		if told := errors.As(err, &status) && status.Message == "ann writes"; told != (c.sent == 0) || len(host.Calls) != c.sent {
			t.Errorf("%s: %v, calls %q", c.name, err, host.Calls)
		}
	}
}

// BP-13: an attachment that nobody reads delays nothing else.
func TestUnreadAttachmentDelaysNothing(t *testing.T) {
	flood := make([]api.AttachEvent, 4096)
	for i := range flood {
		flood[i] = api.AttachEvent{Type: api.AttachOutput, Text: make([]byte, 4096)}
	}
	c := dial(t, apitest.NewLoop(apitest.Sample()), &apitest.Host{Console: flood})
	begun, read := make(chan struct{}), make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		ended <- c.Attach(t.Context(), attachPath(), api.Attach{}, func(api.AttachEvent) error {
			close(begun)
			<-read
			return io.EOF
		})
	}()
	<-begun
	for range 100 {
		if err := c.Post(t.Context(), api.ObjectPath(api.Servers, town(), api.VerbRelease), api.Order{}, nil); err != nil {
			t.Fatal(err)
		}
	}
	close(read)
	if err := <-ended; !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

// Whatever the body says, it is judged before anybody is asked.
func FuzzAttachBody(f *testing.F) {
	for _, seed := range []string{`{}`, ``, `{"tailLines":20,"view":true}`, `{"tailLines":-1}`, `{"after":"openttd:1:0:5:0:5"}`, `{"tailLines":1e9}`, `{"x":1}`, `[`, `{}{}`} {
		f.Add(seed)
	}
	loop := apitest.NewLoop(apitest.Sample())
	f.Fuzz(func(t *testing.T, text string) {
		host := &apitest.Host{ConsoleErr: api.Failure(api.ReasonConflict, "enough")}
		svc := &api.Service{Loop: loop, Host: host, UID: runner, Log: slog.New(slog.DiscardHandler)}
		w := httptest.NewRecorder()
		svc.Control().ServeHTTP(w, api.FromUser(httptest.NewRequest(http.MethodPost, attachPath(), strings.NewReader(text)), runner))
		asked := host.LastAttach.Server == town()
		if asked != (w.Code == http.StatusConflict) || asked && host.LastAttach.Tail < -1 || w.Code >= 500 {
			t.Errorf("%q: answered %d, asked %v: %+v", text, w.Code, asked, host.LastAttach)
		}
	})
}

func keysPath() string { return api.ObjectPath(api.Servers, town(), api.VerbKeys) }

// Keys come as they were typed, any bytes, and what cannot be typed is refused before anybody is asked.
func TestKeys(t *testing.T) {
	for _, c := range []struct {
		name   string
		in     api.Keys
		reason api.StatusReason
	}{
		{"keys", api.Keys{Attachment: "id", Offset: 7, Keys: []byte("\x03\x00\xff"), Rows: 24, Columns: 80}, ""},
		{"a size alone", api.Keys{Attachment: "id", Rows: 1, Columns: 1000}, ""},
		{"as many as can be", api.Keys{Attachment: "id", Keys: make([]byte, api.MaxKeys)}, ""},
		{"too many", api.Keys{Attachment: "id", Keys: make([]byte, api.MaxKeys+1)}, api.ReasonInvalid},
		{"of nobody", api.Keys{Keys: []byte("x")}, api.ReasonInvalid},
		{"half a size", api.Keys{Attachment: "id", Rows: 24}, api.ReasonInvalid},
		{"too large", api.Keys{Attachment: "id", Rows: 1001, Columns: 80}, api.ReasonInvalid},
		{"negative", api.Keys{Attachment: "id", Rows: -1, Columns: -1}, api.ReasonInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			host := &apitest.Host{}
			var got api.Typed
			err := dial(t, apitest.NewLoop(apitest.Sample()), host).Post(t.Context(), keysPath(), c.in, &got)
			var status *api.Status
			if c.reason != "" {
				if !errors.As(err, &status) || status.Reason != c.reason || len(host.Keyed) > 0 {
					t.Errorf("%v, asked for %d", err, len(host.Keyed))
				}
				return
			}
			if err != nil || got.Taken != len(c.in.Keys) || len(host.Keyed) != 1 {
				t.Fatalf("%v, %+v", err, got)
			}
			if k := host.Keyed[0]; k.Attachment != c.in.Attachment || k.Offset != c.in.Offset || string(k.Keys) != string(c.in.Keys) || k.Rows != c.in.Rows || k.Columns != c.in.Columns {
				t.Errorf("%+v became %+v", c.in, k)
			}
		})
	}
}

// Whatever the body says, it is judged before anything is typed.
func FuzzKeysBody(f *testing.F) {
	for _, seed := range []string{`{}`, ``, `{"attachment":"id","keys":"Aw=="}`, `{"attachment":"id","rows":24,"columns":80,"offset":-1}`, `{"attachment":"id","keys":"?"}`, `{"x":1}`, `[`} {
		f.Add(seed)
	}
	loop := apitest.NewLoop(apitest.Sample())
	f.Fuzz(func(t *testing.T, text string) {
		host := &apitest.Host{}
		svc := &api.Service{Loop: loop, Host: host, UID: runner, Log: slog.New(slog.DiscardHandler)}
		w := httptest.NewRecorder()
		svc.Control().ServeHTTP(w, api.FromUser(httptest.NewRequest(http.MethodPost, keysPath(), strings.NewReader(text)), runner))
		if (len(host.Keyed) == 1) != (w.Code == http.StatusOK) || w.Code >= 500 {
			t.Fatalf("%q: answered %d, typed %+v", text, w.Code, host.Keyed)
		}
		for _, k := range host.Keyed {
			if k.Attachment == "" || len(k.Keys) > api.MaxKeys || k.Rows < 0 || k.Rows > 1000 || (k.Rows == 0) != (k.Columns == 0) {
				t.Errorf("%q: typed %+v", text, k)
			}
		}
	})
}
