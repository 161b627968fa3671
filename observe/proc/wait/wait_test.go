package wait

import (
	"strings"
	"testing"
)

func TestWaitStatusWord(t *testing.T) {
	tests := []struct {
		info siginfo
		want uint32
	}{
		{siginfo{code: cldExited, status: 0}, 0},
		{siginfo{code: cldExited, status: 255}, 0xff00},
		{siginfo{code: cldKilled, status: 9}, 9},
		{siginfo{code: cldDumped, status: 6}, 0x86},
	}
	for _, tt := range tests {
		if got, err := tt.info.word(); err != nil || got != tt.want {
			t.Errorf("%+v: %#x, %v, want %#x", tt.info, got, err, tt.want)
		}
	}
	if _, err := (&siginfo{code: 5, status: 19}).word(); err == nil || !strings.Contains(err.Error(), "code 5") {
		t.Errorf("a stopped child: %v", err)
	}
}
