package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"reconciler.dev/reconciler/cmd/reconciler/internal/selftest"
)

// playServer is what the self-test runs as a server.
func playServer(e *env, mark string) error {
	if code := selftest.Workload(mark, e.stdin, e.stdout); code != 0 {
		return &exitError{code: code}
	}
	return nil
}

// proofList is what -o json and yaml print.
type proofList struct {
	Guarantees []selftest.Result `json:"guarantees"`
}

// runSelfTest proves the guarantees with a keeper and servers of its own.
func runSelfTest(ctx context.Context, e *env, form string) error {
	out, err := parseOutput(form)
	if err != nil {
		return err
	}
	results, err := selftest.Run(ctx, Version(), slog.New(slog.NewTextHandler(e.stderr, nil)))
	if err != nil {
		return fmt.Errorf("the guarantees could not be tried: %w", err)
	}
	if err := printProofs(e.stdout, results, out); err != nil {
		return err
	}
	var broken []string
	for _, r := range results {
		if r.Broken() {
			broken = append(broken, r.Guarantee)
		}
	}
	if len(broken) > 0 {
		return fmt.Errorf("not kept on this host: %s", strings.Join(broken, ", "))
	}
	return nil
}

func printProofs(w io.Writer, results []selftest.Result, out output) error {
	if !out.isTable() {
		raw, err := jsonOf(proofList{results})
		if err != nil {
			return err
		}
		return out.print(w, raw)
	}
	t := &table{header: []string{"GUARANTEE", "TIER", "PROVEN", "SEEN"}}
	for _, r := range results {
		proven := "yes"
		if !r.Proven {
			proven = "no"
		}
		t.add(r.Guarantee, r.Tier, proven, r.Seen)
	}
	return t.print(w, true)
}
