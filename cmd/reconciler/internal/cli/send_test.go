package cli

import (
	"errors"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"reconciler.dev/reconciler/cmd/reconciler/internal/api"
	"reconciler.dev/reconciler/cmd/reconciler/internal/api/apitest"
	"reconciler.dev/reconciler/observe/proc/proctest"
	"reconciler.dev/reconciler/spec"
)

// A receipt says what was handed over, and the exit code says it to scripts.
func TestReceipts(t *testing.T) {
	for _, c := range []struct {
		result, reason, message, reply string
		want                           string
	}{
		{"Sent", "", "", "", "$ reconciler send town save\nserver/town handed over (Stdin)\n"},
		{"Done", "", "", "saved\n", "$ reconciler send town save\nsaved\nserver/town answered (Stdin)\n"},
		{"Undeliverable", "Unread", "earlier input is still unread", "", "[exit 1]"},
		{"Failed", "NotSeen", "the expected text was not printed in time", "", "[exit 1]"},
		{"Indeterminate", "", "", "", "[exit 3]"},
		{"", "", "", "", "[exit 3]"},
	} {
		host := &apitest.Host{Receipt: api.Receipt{
			DeliveryStatus: spec.DeliveryStatus{Rail: "Stdin", Result: c.result, Reason: c.reason}, Message: c.message, Reply: c.reply,
		}}
		got := run(t, apitest.Serve(t, apitest.NewLoop(apitest.Sample()), host), "send", "town", "save")
		if !strings.Contains(got, c.want) || !strings.Contains(got, c.reason) || !strings.Contains(got, c.message) {
			t.Errorf("%s: got\n%s", c.result, got)
		}
		if !slices.ContainsFunc(host.Calls, func(call string) bool { return strings.HasPrefix(call, "send save to run ") }) {
			t.Errorf("%s: calls %q", c.result, host.Calls)
		}
	}
}

// Whoever asks a reconciler that dies before it answers does not know.
func TestSendWithoutAnAnswer(t *testing.T) {
	runtime := proctest.Place(t)
	l, err := net.Listen("unix", filepath.Join(runtime, "api.sock"))
	if err != nil {
		t.Fatal(err)
	}
	died := make(chan error, 1)
	go func() {
		conn, err := l.Accept()
		if err == nil {
			_, err = conn.Read(make([]byte, 4096))
			err = errors.Join(err, conn.Close())
		}
		died <- err
	}()
	got := run(t, runtime, "send", "town", "save")
	if !strings.Contains(got, "nobody knows whether the line was handed over; it is not sent again") || !strings.HasSuffix(got, "[exit 3]\n") {
		t.Errorf("got\n%s", got)
	}
	if err := errors.Join(<-died, l.Close()); err != nil {
		t.Error(err)
	}
}
