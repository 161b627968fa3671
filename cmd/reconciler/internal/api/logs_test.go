package api

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

// flushes counts what is sent.
type flushes struct {
	*httptest.ResponseRecorder
	sent []int // how much was written by each
}

func (f *flushes) FlushError() error {
	f.sent = append(f.sent, f.Body.Len())
	return nil
}

// A line that comes alone is sent at once, many soon after it together, and nothing once the reading has ended.
func TestLogLinesAreSentTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &flushes{ResponseRecorder: httptest.NewRecorder()}
		l := &logWriter{w: f, flush: http.NewResponseController(f)}
		line := func(times int) {
			t.Helper()
			for range times {
				if _, err := fmt.Fprintln(l, "line"); err != nil {
					t.Fatal(err)
				}
			}
		}
		want := func(sent ...int) {
			t.Helper()
			synctest.Wait()
			l.mu.Lock()
			defer l.mu.Unlock()
			if fmt.Sprint(f.sent) != fmt.Sprint(sent) {
				t.Errorf("sent %v, want %v", f.sent, sent)
			}
		}
		line(1)
		want(5)
		line(1000)
		want(5)
		time.Sleep(gatherFor)
		want(5, 5005)
		time.Sleep(time.Hour)
		line(1)
		want(5, 5005, 5010)
		line(1)
		l.close()
		time.Sleep(time.Hour)
		want(5, 5005, 5010)
		if f.Body.Len() != 5015 {
			t.Errorf("%d bytes were written", f.Body.Len())
		}
	})
}
