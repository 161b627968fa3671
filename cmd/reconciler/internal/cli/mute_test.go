package cli

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"reconciler.dev/reconciler/observe/proc/proctest"
)

// --timeout holds also when the reconciler does not take the order: a stopped one has the socket and answers nothing.
func TestTimeoutOfAMuteReconciler(t *testing.T) {
	runtime := proctest.Place(t)
	l, err := net.Listen("unix", filepath.Join(runtime, "api.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, args := range [][]string{
		{"stop", "town", "--timeout", "20ms"}, {"start", "town", "--timeout", "20ms"}, {"restart", "-l", "a=b", "--timeout", "20ms"},
		{"wait", "server/town", "--for=condition=Ready", "--timeout", "20ms"}, {"shutdown", "--timeout", "20ms"},
	} {
		var stdout, stderr bytes.Buffer
		e := &env{
			stdout: &stdout, stderr: &stderr, uid: os.Getuid(), now: time.Now,
			getenv: func(name string) string {
				return map[string]string{envRuntimeDir: runtime, envStateDir: filepath.Join(runtime, "state")}[name]
			},
		}
		code := execute(t.Context(), e, args)
		if code != exitFailed || !strings.HasPrefix(stderr.String(), "error: timed out") || stdout.Len() > 0 {
			t.Errorf("%v: exit %d: %s%s", args, code, &stderr, &stdout)
		}
	}
}
