package keeper

import (
	"testing"

	"golang.org/x/sys/unix"
)

func TestNoticeIsReady(t *testing.T) {
	for text, want := range map[string]bool{
		"READY=1": true, "READY=1\n": true, "STATUS=up\nREADY=1\nMAINPID=3": true, "READY=1\nREADY=0": false,
		"": false, "READY": false, "READY=": false, "READY=10": false, "XREADY=1": false, "STATUS=READY=1": false, "ready=1": false,
		"READY=1\x00": false, "\n\nREADY=1": true,
	} {
		if got := (Notice{text}).ready(); got != want {
			t.Errorf("%q is ready: %v", text, got)
		}
	}
}

func TestNoticeIsASignOfLife(t *testing.T) {
	for text, want := range map[string]bool{"WATCHDOG=1": true, "STATUS=a\nWATCHDOG=1\n": true, "WATCHDOG=trigger": false, "WATCHDOG_USEC=1": false, "READY=1": false} {
		if got := (Notice{text}).lives(); got != want {
			t.Errorf("%q is a sign of life: %v", text, got)
		}
	}
}

// FuzzSenderOf reads control messages as a kernel could never send them: no descriptor is made up, for each is closed.
func FuzzSenderOf(f *testing.F) {
	f.Add(unix.UnixCredentials(&unix.Ucred{Pid: 2, Uid: 1}), "READY=1")
	f.Add([]byte{1, 2, 3}, "READY=1\nREADY=0\n")
	f.Add([]byte{}, "")
	f.Fuzz(func(t *testing.T, control []byte, text string) {
		who, passed := senderOf(control)
		if who.pidfd < -1 || len(passed) > len(control)/4 {
			t.Errorf("%+v, %v", who, passed)
		}
		_ = Notice{text}.ready()
	})
}
