package reconcile

import (
	"errors"
	"slices"
	"testing"
	"time"

	"reconciler.dev/reconciler/spec"
)

// files gives a profile its files.
func files(rules ...spec.FileRule) func(*spec.ProfileSpec) {
	return func(p *spec.ProfileSpec) { p.Files = rules }
}

func fileOf(path, content string) spec.FileRule { return spec.FileRule{Path: path, Content: &content} }

// A file that shall hold something else is a change of the spec, as another path is. How a file is written, and what is in one
// whose changes nobody wants to hear of, is for the next run, which has it.
func TestChangedFileRestartsOnce(t *testing.T) {
	h := newHost(t)
	h.profile("game", files(fileOf("a", "1"), fileOf("b", "1")))
	h.server("town", "game")
	h.settle()
	h.wantOrders("Start town/game Wanted")
	replaced := []string{"Stop town/game SpecChanged", "Step town/game 0", "Start town/game SpecChanged"}
	ignored := spec.FileRule{Path: "b", Content: new(string), OnChange: spec.ChangeIgnore}
	rewritten := fileOf("a", "2")
	rewritten.Write = spec.WriteIfMissing
	for _, step := range []struct {
		what  string
		files []spec.FileRule
		want  []string
	}{
		{"another content", []spec.FileRule{fileOf("a", "2"), fileOf("b", "1")}, replaced},
		{"another order", []spec.FileRule{fileOf("b", "1"), fileOf("a", "2")}, nil},
		{"a change that is ignored", []spec.FileRule{fileOf("a", "2"), ignored}, []string{"ApplyLive town/game"}},
		{"another way of writing", []spec.FileRule{rewritten, ignored}, []string{"ApplyLive town/game"}},
		{"a content that the run was not given is no more ignored", []spec.FileRule{rewritten, fileOf("b", "")}, replaced},
		{"a file less", []spec.FileRule{rewritten}, replaced},
		{"another path", []spec.FileRule{fileOf("c", "2")}, replaced},
	} {
		h.profile("game", files(step.files...))
		h.pass(time.Minute)
		if got := h.took(); !slices.Equal(got, step.want) {
			t.Errorf("%s: %q is ordered, not %q", step.what, got, step.want)
		}
		h.restart() // nobody forgets what the run was given
		h.pass(time.Minute)
		h.wantOrders()
	}
}

// The server writes its own configuration: the wish is compared, not the disk, and an edit that is taken back asks for nothing.
func TestFileThatIsAsItWasAgain(t *testing.T) {
	h := newHost(t)
	h.profile("game", files(fileOf("a", "1")))
	h.server("town", "game")
	h.settle()
	h.took()
	h.refuse["Stop"] = errors.New("not now")
	h.profile("game", files(fileOf("a", "2")))
	h.pass(time.Minute)
	h.took()
	h.wantCondition("town", spec.ConditionRestartPending, "True", "OrderFailed")
	delete(h.refuse, "Stop")
	h.profile("game", files(fileOf("a", "1")))
	h.pass(time.Hour)
	h.wantOrders()
	h.wantCondition("town", spec.ConditionRestartPending, "False", "UpToDate")
}
