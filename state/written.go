package state

import (
	"slices"
	"time"
)

// Written is the text of a delivery to a console: its line, or one of those that were typed. It is in the record alone, which only those can
// read who may read the server's log; neither facts nor receipts have it.
type Written struct {
	Delivery string    `json:"delivery"` // its id
	At       time.Time `json:"at"`       // of what was typed: when its line ended
	// Text is UTF-8 without control characters: they are shown as ^C or \x80. Every secret that the run's spec names is "[secret]".
	Text string `json:"text,omitempty"`
	// Withheld is how many bytes more there were: typed where the terminal does not show what is typed, or not told as it is not known which
	// secrets are in them, or too many.
	Withheld int64 `json:"withheld,omitempty"`
	// Earlier counts the lines of the same delivery before this one that are not kept any more.
	Earlier int64 `json:"earlier,omitempty"`
}

// WrittenLimit bounds what is kept of the text of one delivery, in bytes; each line counts as WrittenCost more.
const (
	WrittenLimit = 4 << 10
	WrittenCost  = 64
)

// Wrote adds lines of one delivery. Of more than is kept the oldest go. A line's text is at most WrittenLimit - WrittenCost bytes.
func (r *Record) Wrote(lines ...Written) {
	if len(lines) == 0 {
		return
	}
	of := func(w Written) bool { return w.Delivery == lines[0].Delivery }
	kept := append(slices.Clone(r.Written), lines...)
	size := 0
	for _, w := range kept {
		if of(w) {
			size += w.cost()
		}
	}
	for size > WrittenLimit {
		i := slices.IndexFunc(kept, of)
		gone := kept[i]
		kept = slices.Delete(kept, i, i+1)
		size -= gone.cost()
		if i = slices.IndexFunc(kept, of); i < 0 {
			break
		}
		kept[i].Earlier += gone.Earlier + 1
	}
	r.Written = kept
}

func (w Written) cost() int { return len(w.Text) + WrittenCost }

// WrittenOf is what is kept of the text of a delivery, oldest first.
func (r *Record) WrittenOf(id string) (lines []Written) {
	for _, w := range r.Written {
		if w.Delivery == id {
			lines = append(lines, w)
		}
	}
	return lines
}

// Journal adds a delivery to those that are kept. One that is on its way is never the one that goes; with one that goes its text does.
func (r *Record) Journal(d Delivery) {
	kept := append(slices.Clone(r.Deliveries), d)
	for i := 0; len(kept) > DeliveryLimit && i < len(kept)-1; {
		if kept[i].Result == "" {
			i++
			continue
		}
		gone := kept[i].ID
		kept = slices.Delete(kept, i, i+1)
		r.Written = slices.DeleteFunc(slices.Clone(r.Written), func(w Written) bool { return w.Delivery == gone })
	}
	r.Deliveries = kept
}
