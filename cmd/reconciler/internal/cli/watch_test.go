package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"reconciler.dev/reconciler/cmd/reconciler/internal/api/apitest"
	"reconciler.dev/reconciler/reconcile"
	"reconciler.dev/reconciler/spec"
)

// turning is an output that calls the next function whenever the text that it waits for was written.
type turning struct {
	text  bytes.Buffer
	turns []turn
}

type turn struct {
	after string
	do    func()
}

func (w *turning) Write(p []byte) (int, error) {
	n, err := w.text.Write(p)
	for len(w.turns) > 0 && strings.Contains(w.text.String(), w.turns[0].after) {
		do := w.turns[0].do
		w.turns = w.turns[1:]
		do()
	}
	return n, err
}

// -w prints what is there under one header, then a row for each change, also for what goes.
func TestGetWatches(t *testing.T) {
	snap := apitest.Sample()
	loop := apitest.NewLoop(snap)
	runtime := apitest.Serve(t, loop, &apitest.Host{})
	show := func(rev uint64, servers ...*reconcile.ServerView) {
		next := *snap
		next.Rev, next.Servers = rev, servers
		loop.Show(&next)
	}
	starting := *snap.Servers[2]
	starting.Rev, starting.Status.State, starting.Status.NextStartAt = 43, spec.StateStarting, nil
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &turning{turns: []turn{
		{"village", func() { show(43, snap.Servers[0], snap.Servers[1], &starting) }},
		{"Starting", func() { show(44, snap.Servers[1], &starting) }},
		{"Removed", cancel},
	}}
	var stderr bytes.Buffer
	e := &env{
		stdout: out, stderr: &stderr, uid: os.Getuid(), now: func() time.Time { return apitest.Now },
		getenv: func(name string) string {
			return map[string]string{envRuntimeDir: runtime, envStateDir: filepath.Join(runtime, "state")}[name]
		},
	}
	if code := execute(ctx, e, []string{"get", "servers", "-w"}); code != 130 || stderr.Len() > 0 {
		t.Errorf("exit %d: %s", code, &stderr)
	}
	want := `NAME     PROFILE   READY   STATE     RESTARTS   AGE   HOLD
hamlet   openttd   False   Stopped   0          26h   <none>
town     openttd   True    Running   1 (120m ago)   26h   <none>
village   openttd   False   BackOff, next in 40s   7 (22s ago)    26h   <none>
village   openttd   False   Starting               7 (22s ago)    26h   <none>
hamlet    openttd   False   Removed                0              26h   <none>
`
	if out.text.String() != want {
		t.Errorf("got\n%s", &out.text)
	}
}
