package probe

import (
	"strings"
	"testing"
)

func TestNumberAt(t *testing.T) {
	for _, c := range []struct {
		document, field string
		want            int
		problem         string
	}{
		{`{"players": 7}`, "players", 7, ""},
		{`{"a": {"b-c": {"d_1": 0}}}`, "a.b-c.d_1", 0, ""},
		{` {"players":1000000} `, "players", 1000000, ""},
		{`{"players": 1000001}`, "players", 0, "no number of people"},
		{`{"players": -1}`, "players", 0, "no number of people"},
		{`{"players": 7.0}`, "players", 0, "no number of people"},
		{`{"players": 1e1}`, "players", 0, "no number of people"},
		{`{"players": 99999999999999999999}`, "players", 0, "no number of people"},
		{`{"players": "7"}`, "players", 0, "is no number"},
		{`{"players": [1]}`, "players", 0, "is no number"},
		{`{"players": null}`, "players", 0, "is no number"},
		{`{"players": 7}`, "playres", 0, "no field playres"},
		{`{"players": 7}`, "players.online", 0, "no field players.online"},
		{`[7]`, "players", 0, "no field players"},
		{`7`, "players", 0, "no field players"},
		{`{"players": 7} {"players": 8}`, "players", 0, "no JSON"},
		{`{"players": 7}]`, "players", 0, "no JSON"},
		{`{"players": 7`, "players", 0, "no JSON"},
		{`<html>`, "players", 0, "no JSON"},
		{``, "players", 0, "no JSON"},
		{strings.Repeat(`[`, 60_000), "players", 0, "no JSON"},
	} {
		got, err := NumberAt([]byte(c.document), c.field)
		if got != c.want || (err == nil) != (c.problem == "") || err != nil && !strings.Contains(err.Error(), c.problem) {
			t.Errorf("%.40s at %s: %d, %v; want %d, %q", c.document, c.field, got, err, c.want, c.problem)
		}
	}
}

// FuzzNumberAt looks for documents that break more than their reading: an answer is a number of people, and an error shows nothing of
// the document.
func FuzzNumberAt(f *testing.F) {
	f.Add([]byte(`{"players": 7}`), "players")
	f.Add([]byte(`{"a": {"b": 7}}`), "a.b")
	f.Add([]byte(`{"a": {"b": "canary"}}`), "a.b")
	f.Fuzz(func(t *testing.T, document []byte, field string) {
		n, err := NumberAt(document, field)
		if n < 0 || n > maxPlayers || err != nil && n != 0 {
			t.Errorf("%d, %v", n, err)
		}
		if err != nil && !strings.Contains(field, "canary") && strings.Contains(err.Error(), "canary") {
			t.Errorf("it shows the document: %v", err)
		}
	})
}
