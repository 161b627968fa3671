package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"reconciler.dev/reconciler/keeper/anchor"
)

// belowUs makes a keeper that is not started yet take the test for its anchor: it is the keeper proper then, and none is started below it.
// started is to be called when it is started, or could not be.
func belowUs(t testing.TB, cmd *exec.Cmd) (started func()) {
	t.Helper()
	offer, err := anchor.NewOffer(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	connection := os.NewFile(uintptr(offer.Connection), "connection")
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	cmd.Env, cmd.ExtraFiles = append(cmd.Env, offer.Variable), []*os.File{connection}
	shelf := anchor.NewShelf(anchor.MaxHeld)
	served := make(chan struct{})
	go func() {
		defer close(served)
		shelf.Serve(offer.Served)
		shelf.Close()
	}()
	t.Cleanup(func() { <-served })
	return func() { connection.Close() }
}

// anchorOf is the anchor of a keeper, 0 when it has none.
func anchorOf(keeper int) int {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", keeper))
	if err != nil {
		return 0
	}
	var state string
	var parent int
	if _, err := fmt.Sscan(string(data[bytes.LastIndexByte(data, ')')+1:]), &state, &parent); err != nil {
		return 0
	}
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", parent))
	if err != nil || strings.TrimSpace(string(comm)) != anchor.Comm {
		return 0
	}
	return parent
}
