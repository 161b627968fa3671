package cli

import (
	"errors"
	"io"
	"net"
	"net/http"
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
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+api.PathVersion, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") })
	mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	srv := &http.Server{Handler: mux}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	got := run(t, runtime, "send", "town", "save")
	if !strings.Contains(got, "nobody knows whether the line was handed over; it is not sent again") || !strings.HasSuffix(got, "[exit 3]\n") {
		t.Errorf("got\n%s", got)
	}
	if err := srv.Close(); err != nil {
		t.Error(err)
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
}

// Whoever waits for a keeper that does not answer hears of it meanwhile, and hands nothing over.
func TestKeeperThatDoesNotAnswer(t *testing.T) {
	for _, args := range [][]string{{"send", "town", "save"}, {"logs", "town"}, {"attach", "town"}} {
		host := &apitest.Host{Late: "the keeper does not answer yet", KeeperErr: api.Failure(api.ReasonServiceUnavailable, "the keeper does not answer")}
		got := run(t, apitest.Serve(t, apitest.NewLoop(apitest.Sample()), host), args...)
		if !strings.Contains(got, "the keeper does not answer yet\n") || !strings.Contains(got, "Error from server (ServiceUnavailable): the keeper does not answer\n") {
			t.Errorf("got\n%s", got)
		}
		if len(host.Calls) > 0 || host.LastLog != (api.LogQuery{}) || host.LastAttach != (api.AttachQuery{}) {
			t.Errorf("%v: it was asked for: %q", args, host.Calls)
		}
	}
}
