package selftest

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"reconciler.dev/reconciler/keeper"
	"reconciler.dev/reconciler/spec"
)

// A guarantee that is stated and was seen broken fails the command; what is stated to be weak may be.
func TestBroken(t *testing.T) {
	for r, want := range map[Result]bool{
		{Tier: "Kernel", Proven: true}: false, {Tier: "Kernel"}: true, {Tier: "Emulated"}: true, {Tier: "Weak"}: false, {}: true,
	} {
		if r.Broken() != want {
			t.Errorf("%+v is broken: %v", r, !want)
		}
	}
}

// A proof that fails is told by what it has seen, and a guarantee without a proof is not proven.
func TestProveTellsWhatItSaw(t *testing.T) {
	tr := &trial{client: keeper.NewClient(keeper.ClientConfig{}), log: slog.New(slog.DiscardHandler), exe: "/nonexistent"}
	old := proofs["Identity"]
	defer func() { proofs["Identity"] = old }()
	proofs["Identity"] = func(context.Context, *trial) (string, error) { return "fine", errors.New("another process") }
	if r := prove(t.Context(), tr, spec.Guarantee{Name: "Identity", Tier: "Kernel"}); r.Proven || r.Seen != "another process" || !r.Broken() {
		t.Errorf("a failed proof: %+v", r)
	}
	if r := prove(t.Context(), tr, spec.Guarantee{Name: "Nonesuch", Tier: "Kernel"}); r.Proven || !r.Broken() {
		t.Errorf("no proof: %+v", r)
	}
}

func TestWorkload(t *testing.T) {
	var out strings.Builder
	if code := Workload("mark", strings.NewReader("count\ncounted\nexit 5\n"), &out); code != 5 {
		t.Errorf("it exits with %d", code)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if lines[0] != "ready" || !slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, "counted ") }) {
		t.Errorf("it says %q", lines)
	}
	if code := Workload("mark", strings.NewReader(""), &out); code != 1 {
		t.Errorf("at the end of its input it exits with %d", code)
	}
}
