package anchor

import (
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// The test binary plays the children whose ends are told.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "exit 7" {
		os.Exit(7)
	}
	goleak.VerifyTestMain(m)
}

// served is a Store whose shelf is served until the test ends.
func served(t testing.TB, limit int) (*Store, *Shelf) {
	t.Helper()
	store, conn, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	store.patience = time.Minute // a loaded machine is no fault
	shelf := NewShelf(limit)
	done := make(chan struct{})
	go func() { defer close(done); shelf.Serve(conn) }()
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
		<-done
		shelf.Close()
	})
	return store, shelf
}
