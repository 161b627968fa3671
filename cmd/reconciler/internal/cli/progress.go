package cli

import (
	"fmt"
	"io"
	"strings"
)

// progress draws one line on a terminal that says what is waited for, and nothing anywhere else.
type progress struct {
	w     io.Writer // nil = not on a terminal
	drawn bool
	last  string
}

func newProgress(e *env) *progress {
	if !e.progress {
		return &progress{}
	}
	return &progress{w: e.stderr}
}

// maxProgress is how many servers the line names.
const maxProgress = 3

func (p *progress) show(pending []*waiting) {
	if p.w == nil || len(pending) == 0 {
		return
	}
	var parts []string
	for _, one := range pending[:min(len(pending), maxProgress)] {
		parts = append(parts, one.key.String()+" is "+or(one.state, "unknown"))
	}
	line := "waiting: " + strings.Join(parts, "; ")
	if more := len(pending) - maxProgress; more > 0 {
		line += fmt.Sprintf("; and %d more", more)
	}
	if line == p.last && p.drawn {
		return
	}
	// Back to the line's beginning, the text, and the rest of the line erased (ECMA-48 CR and EL).
	fmt.Fprintf(p.w, "\r%s\x1b[K", line)
	p.last, p.drawn = line, true
}

func (p *progress) clear() {
	if p.w == nil || !p.drawn {
		return
	}
	fmt.Fprint(p.w, "\r\x1b[K")
	p.drawn = false
}
