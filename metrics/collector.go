package metrics

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"reconciler.dev/reconciler/reconcile"
	"reconciler.dev/reconciler/spec"
)

// Usage is what a live run uses now, main process and descendants together.
type Usage struct {
	CPU             time.Duration // since its start
	ResidentBytes   int64
	OpenFDs         int
	LogBytes        int64 // of this run so far, not in its scope's counters yet
	LogDroppedLines int64 // likewise
}

// Collector makes the series of servers and sources out of snapshots. It is a prometheus.Collector for any registry;
// [Page] writes the same series faster.
type Collector struct {
	snapshot func() *reconcile.Snapshot
	usage    func() map[spec.Scope]Usage
	descs    []*prometheus.Desc // of families
}

// NewCollector makes a collector. usage is asked once a scrape, must return in bounded time, and answers nil when nobody
// could be asked; the series that need it are then absent.
func NewCollector(snapshot func() *reconcile.Snapshot, usage func() map[spec.Scope]Usage) *Collector {
	c := &Collector{snapshot: snapshot, usage: usage}
	for _, f := range families {
		c.descs = append(c.descs, prometheus.NewDesc(f.name, f.help, slices.Concat(f.about(), f.labels), nil))
	}
	return c
}

// Describe sends the families.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		ch <- d
	}
}

// Collect sends every series.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	v := c.look()
	for i, f := range families {
		v.each(f, func(s *subject, points []point) {
			for _, p := range points {
				labels := slices.Concat(s.values[:len(f.about())], p.more[:len(f.labels)])
				m, err := prometheus.NewConstMetric(c.descs[i], f.valueType(), p.value, labels...)
				if err != nil {
					m = prometheus.NewInvalidMetric(c.descs[i], err)
				}
				ch <- m
			}
		})
	}
}

// seconds is t as Prometheus wants a point in time.
func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }
