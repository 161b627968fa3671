package daemon

import (
	"errors"
	"strings"
	"testing"
	"time"

	"reconciler.dev/reconciler/cmd/reconciler/internal/api"
	"reconciler.dev/reconciler/spec"
)

// One writes at a time: the first that wants to, until it leaves. Everybody is told of the next, and only the one that writes
// knows the name that its lines need.
func TestOneWrites(t *testing.T) {
	town, village := spec.Key{Namespace: "default", Name: "town"}, spec.Key{Namespace: "default", Name: "village"}
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	var c consoles
	seats := map[string]*seat{}
	for _, step := range []struct {
		does   string // name comes, views or leaves
		writes string // "" = nobody
		told   string // who hears of it
	}{
		{"eve views", "", ""},
		{"ann comes", "ann", "eve ann"},
		{"bob comes", "ann", ""},
		{"cid comes", "ann", ""},
		{"bob leaves", "ann", ""},
		{"dot comes", "ann", ""},
		{"ann leaves", "cid", "eve cid dot"},
		{"eve leaves", "cid", ""},
		{"cid leaves", "dot", "dot"},
		{"eve views", "dot", ""},
		{"dot leaves", "", "eve"},
		{"ann comes", "ann", "eve ann"},
		{"ann leaves", "", "eve"},
		{"eve leaves", "", ""},
	} {
		who, does, _ := strings.Cut(step.does, " ")
		at = at.Add(time.Second)
		if does == "leaves" {
			c.leave(town, seats[who], at)
			delete(seats, who)
		} else {
			seats[who] = c.sit(town, who, does == "views", at)
		}
		for name, s := range seats {
			w := c.writer(town, s)
			switch {
			case (w == nil) != (step.writes == ""), w != nil && (w.By != step.writes || (w.Attachment == s.id) != (name == step.writes)):
				t.Errorf("%s: %s is told that %+v writes", step.does, name, w)
			}
			if err := c.check(town, s.id); (err == nil) != (name == step.writes) {
				t.Errorf("%s: a line of %s: %v", step.does, name, err)
			}
			select {
			case <-s.changed:
				if !strings.Contains(step.told, name) {
					t.Errorf("%s: %s is told, and nothing is new", step.does, name)
				}
			default:
				if strings.Contains(step.told, name) {
					t.Errorf("%s: %s is not told", step.does, name)
				}
			}
		}
		var status *api.Status
		if err := c.check(town, "another"); !errors.As(err, &status) || status.Reason != api.ReasonConflict || !strings.Contains(status.Message, step.writes) {
			t.Errorf("%s: a line of nobody: %v", step.does, err)
		}
		if w := c.writer(village, nil); w != nil {
			t.Errorf("%s: %+v writes to another server", step.does, w)
		}
	}
	if len(c.at) != 0 {
		t.Errorf("left behind: %v", c.at)
	}
}
