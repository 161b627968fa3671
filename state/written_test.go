package state

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// What is kept of the text of deliveries is bounded, whatever it is, and says what is not kept.
func TestWrittenIsBounded(t *testing.T) {
	for name, length := range map[string]int{"empty lines": 0, "short lines": 10, "as long as a line may be": WrittenLimit - WrittenCost} {
		t.Run(name, func(t *testing.T) {
			r := &Record{}
			most := 0
			for i := range 4 * DeliveryLimit {
				id := fmt.Sprint("d", i)
				r.Journal(Delivery{ID: id, Result: Sent})
				line := Written{Delivery: id, Text: strings.Repeat("x", length)}
				r.Wrote(slices.Repeat([]Written{line}, 98)...)
				r.Wrote(line)
				r.Wrote(line)
				lines := r.WrittenOf(id)
				if n := len(lines); n != WrittenLimit/(length+WrittenCost) || lines[0].Earlier != int64(100-n) || n > 1 && lines[n-1].Earlier != 0 {
					t.Fatalf("%d lines are kept, and %d were before", len(lines), lines[0].Earlier)
				}
				most = max(most, len(r.Written))
			}
			if want := DeliveryLimit * WrittenLimit / (length + WrittenCost); most > want || len(r.Written) != most {
				t.Errorf("%d lines, want %d", most, want)
			}
		})
	}
}

// Lines of two deliveries at a time do not push each other out.
func TestWrittenOfTwo(t *testing.T) {
	r := &Record{}
	r.Wrote(Written{Delivery: "a", Text: "one"})
	for range 100 {
		r.Wrote(Written{Delivery: "b", Text: "two"}, Written{Delivery: "b", Text: "three"})
	}
	if a, b := r.WrittenOf("a"), r.WrittenOf("b"); len(a) != 1 || a[0].Earlier != 0 || len(b) == 0 || int64(len(b))+b[0].Earlier != 200 {
		t.Errorf("%+v, and %d of b after %+v", a, len(b), b[0])
	}
}
