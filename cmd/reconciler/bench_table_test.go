//go:build bench

package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"
)

// benchRow is one promise, what was measured of it, and what it costs without us.
type benchRow struct {
	name     string
	measured float64
	bare     float64 // 0 = there is no such thing without us
	unit     string
	// The aim and the limit are of the measured value, or, in times, of its ratio to the bare one. 0 = none; noneAtAll = 0.
	aim, limit float64
	times      bool
	// at is what the bare one takes where aim and limit, which are times, were set. Where it is dearer, so are they. 0 = they hold anywhere.
	at float64
}

// bounds are aim and limit on this machine.
func (r benchRow) bounds() (aim, limit float64) {
	if r.at == 0 {
		return r.aim, r.limit
	}
	slower := max(1, r.bare/r.at)
	return r.aim * slower, r.limit * slower
}

// noneAtAll is the aim of what should not be there: anything below what can be seen.
const noneAtAll = 1e-9

// value is what aim and limit speak of.
func (r benchRow) value() float64 {
	if r.times {
		return r.measured / r.bare
	}
	return r.measured
}

func (r benchRow) verdict() string {
	aim, limit := r.bounds()
	switch {
	case limit > 0 && r.value() >= limit:
		return "FAIL"
	case aim > 0 && r.value() > aim:
		return "misses its aim"
	case aim > 0 || limit > 0:
		return "ok"
	}
	return ""
}

func (r benchRow) cells() []string {
	aim, limit := r.bounds()
	cells := []string{r.name, figure(r.measured) + " " + r.unit, "-", "-", r.bound(aim), r.bound(limit), r.verdict()}
	if r.bare > 0 {
		cells[2], cells[3] = figure(r.bare)+" "+r.unit, figure(r.measured/r.bare)+"x"
	}
	return cells
}

func (r benchRow) bound(v float64) string {
	switch {
	case v == 0:
		return "-"
	case v == noneAtAll:
		return "0"
	case r.times:
		return figure(v) + "x"
	}
	return figure(v) + " " + r.unit
}

func figure(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	case v >= 0.1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.4f", v)
}

// printRows prints the table, and fails for each row that is over its limit.
func printRows(t *testing.T, rows []benchRow) {
	t.Helper()
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.Join([]string{"", "measured", "bare", "ratio", "aim", "limit", "verdict"}, "\t"))
	for _, r := range rows {
		fmt.Fprintln(w, strings.Join(r.cells(), "\t"))
	}
	w.Flush()
	t.Log("\n" + b.String())
	for _, r := range rows {
		aim, limit := r.bounds()
		if aim != r.aim {
			t.Logf("%s: the bare one takes %.1f times the %s %s of the machine that aim and limit are for (%s, %s), and so do they here", r.name, r.bare/r.at, figure(r.at), r.unit, r.bound(r.aim), r.bound(r.limit))
		}
		if r.verdict() == "FAIL" {
			t.Errorf("%s: %s is over the limit of %s", r.name, figure(r.value()), r.bound(limit))
		}
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func median[T ~int64 | ~float64](samples []T) T { return quantile(samples, 0.5) }

// quantile is the sample that this part of all are below.
func quantile[T ~int64 | ~float64](samples []T, part float64) T {
	s := slices.Sorted(slices.Values(samples))
	return s[int(part*float64(len(s)))]
}
