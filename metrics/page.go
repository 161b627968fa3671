package metrics

import (
	"bufio"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/common/expfmt"
)

// Page is what Prometheus scrapes, in the text format 0.0.4
// (https://prometheus.io/docs/instrumenting/exposition_formats/): servers, sources, the loop, and this process.
//
// A thousand scopes have some sixty thousand series. A registry takes three microseconds for each, to check, sort and
// encode it; written straight into the text they take a tenth of that. A test holds this text to the registry's.
type Page struct {
	collector *Collector
	rest      prometheus.Gatherer // the loop and this process: few series
	busy      chan struct{}       // a slot a scrape
}

// maxScrapes bounds how many scrapes are answered at the same time; one more is told to come back.
const maxScrapes = 4

// NewPage makes the page.
func NewPage(c *Collector, m *Meter) (*Page, error) {
	r := prometheus.NewRegistry()
	for _, one := range []prometheus.Collector{m, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})} {
		if err := r.Register(one); err != nil {
			return nil, fmt.Errorf("cannot register metrics: %w", err)
		}
	}
	return &Page{collector: c, rest: r, busy: make(chan struct{}, maxScrapes)}, nil
}

// ServeHTTP answers a scrape.
func (p *Page) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	select {
	case p.busy <- struct{}{}:
		defer func() { <-p.busy }()
	default:
		http.Error(w, "too many scrapes at the same time; try again", http.StatusServiceUnavailable)
		return
	}
	rest, err := p.rest.Gather()
	if err != nil {
		http.Error(w, "cannot gather the process's own metrics: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", string(expfmt.NewFormat(expfmt.TypeTextPlain)))
	out := bufio.NewWriterSize(w, 64<<10)
	p.collector.write(out)
	for _, mf := range rest {
		if _, err := expfmt.MetricFamilyToText(out, mf); err != nil {
			return // the scraper has gone
		}
	}
	_ = out.Flush() // likewise
}

// write writes every family that has a series. An error stays in out until it is flushed.
func (c *Collector) write(out *bufio.Writer) {
	v := c.look()
	var line []byte
	for _, f := range families {
		named := false
		v.each(f, func(s *subject, points []point) {
			if !named && len(points) > 0 {
				fmt.Fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", f.name, f.help, f.name, kindName(f))
				named = true
			}
			for i := range points {
				line = append(append(append(line[:0], f.name...), '{'), s.text...)
				line = appendLabels(line, ',', f.labels, points[i].more[:])
				line = append(line, '}', ' ')
				line = append(appendValue(line, points[i].value), '\n')
				_, _ = out.Write(line) // the error stays in out
			}
		})
	}
}

// appendValue appends v as the format has it. Nearly all values are small whole numbers, which need no search for the shortest
// text.
func appendValue(b []byte, v float64) []byte {
	if n := int64(v); float64(n) == v && 0 < n && n < 1e6 || n == 0 && math.Float64bits(v) == 0 {
		return strconv.AppendInt(b, n, 10)
	}
	return strconv.AppendFloat(b, v, 'g', -1, 64)
}

func kindName(f *family) string {
	if f.counter {
		return "counter"
	}
	return "gauge"
}

// appendLabels appends `label="value"` for each label, sep before the first (0 = nothing) and a comma before the others.
func appendLabels(b []byte, sep byte, labels, values []string) []byte {
	for i, label := range labels {
		if sep != 0 {
			b = append(b, sep)
		}
		b = append(b, label...)
		b = append(b, '=', '"')
		b = appendLabelValue(b, values[i])
		b = append(b, '"')
		sep = ','
	}
	return b
}

var labelEscapes = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

func appendLabelValue(b []byte, v string) []byte {
	for i := range len(v) { // by hand: the values are short, and there are a hundred thousand
		if c := v[i]; c == '\\' || c == '\n' || c == '"' {
			return append(b, labelEscapes.Replace(v)...)
		}
	}
	return append(b, v...)
}
