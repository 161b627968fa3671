package cli

import (
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/duration"
)

// table prints rows under headers, kubectl's way: columns as wide as their widest cell and three spaces, the last one
// without any behind it.
type table struct {
	header []string
	rows   [][]string
	widths []int // of the columns; print lets them only grow
}

// none stands for a value that there is not, as in kubectl.
const none = "<none>"

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) print(w io.Writer, header bool) error {
	t.measure()
	var b strings.Builder
	if header {
		t.line(&b, t.header)
	}
	for _, row := range t.rows {
		t.line(&b, row)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (t *table) measure() {
	if t.widths == nil {
		t.widths = make([]int, len(t.header))
	}
	for _, row := range append([][]string{t.header}, t.rows...) {
		for i, cell := range row {
			t.widths[i] = max(t.widths[i], utf8.RuneCountInString(cell))
		}
	}
}

func (t *table) line(b *strings.Builder, row []string) {
	var line strings.Builder
	for i, cell := range row {
		line.WriteString(cell)
		line.WriteString(strings.Repeat(" ", t.widths[i]-utf8.RuneCountInString(cell)+3))
	}
	b.WriteString(strings.TrimRight(line.String(), " "))
	b.WriteByte('\n')
}

// drop removes the column named head.
func (t *table) drop(head string) {
	i := slices.Index(t.header, head)
	if i < 0 {
		return
	}
	t.header = slices.Delete(t.header, i, i+1)
	for j := range t.rows {
		t.rows[j] = slices.Delete(t.rows[j], i, i+1)
	}
}

// dropEmpty removes the column named head if no row has a value in it.
func (t *table) dropEmpty(head string) {
	i := slices.Index(t.header, head)
	if i < 0 || slices.ContainsFunc(t.rows, func(row []string) bool { return row[i] != none }) {
		return
	}
	t.drop(head)
}

// mark sets every row's cell below head.
func (t *table) mark(head, value string) {
	i := slices.Index(t.header, head)
	if i < 0 {
		return
	}
	for _, row := range t.rows {
		row[i] = value
	}
}

// age is the time since t as kubectl prints it: 5s, 3m10s, 2h, 8d.
func age(now time.Time, t *time.Time) string {
	if t == nil || t.IsZero() {
		return none
	}
	return duration.HumanDuration(now.Sub(*t))
}

// left is the time from now until t, rounded to the second.
func left(now, t time.Time) string {
	return duration.HumanDuration(max(0, t.Sub(now)).Round(time.Second))
}

// or is s, or otherwise when s is empty.
func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
