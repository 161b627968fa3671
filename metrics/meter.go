package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Meter counts how the loop fares, under the names that dashboards for Kubernetes controllers know. The controller is
// "server": a turn reconciles every server that it visits. The queue is "orders": what was handed to keeper, store and
// probes. It is a reconcile.Meter and a prometheus.Collector, safe for concurrent use.
type Meter struct {
	reconciles    *prometheus.CounterVec
	errors        prometheus.Counter
	turnSeconds   prometheus.Histogram
	maxConcurrent prometheus.Gauge
	adds          *prometheus.CounterVec
	retries       *prometheus.CounterVec
	orderSeconds  *prometheus.HistogramVec
}

const (
	controllerName = "server"
	orderQueue     = "orders"
)

// orderKinds exist from zero.
var orderKinds = []string{"Start", "Stop", "Step", "ApplyLive", "MarkReady", "Archive", "Save", "Check", "Look", "Prove", "Reload"}

// NewMeter makes a meter with every series at zero.
func NewMeter() *Meter {
	controller := prometheus.Labels{"controller": controllerName}
	queue := prometheus.Labels{"name": orderQueue, "controller": controllerName}
	m := &Meter{
		reconciles: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "controller_runtime_reconcile_total", Help: "Reconciliations, by result.", ConstLabels: controller}, []string{"result"}),
		errors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "controller_runtime_reconcile_errors_total", Help: "Orders of the loop that failed.", ConstLabels: controller}),
		turnSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "controller_runtime_reconcile_time_seconds", Help: "How long a turn of the loop took.", ConstLabels: controller,
			Buckets: prometheus.ExponentialBuckets(0.00001, 4, 10)}),
		maxConcurrent: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "controller_runtime_max_concurrent_reconciles", Help: "How many turns there are at most at the same time.", ConstLabels: controller}),
		adds: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "workqueue_adds_total", Help: "Orders that were handed out, by kind.", ConstLabels: queue}, []string{"kind"}),
		retries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "workqueue_retries_total", Help: "Orders that failed and are decided anew, by kind; a probe's failure is none.", ConstLabels: queue}, []string{"kind"}),
		orderSeconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "workqueue_work_duration_seconds", Help: "How long orders took, by kind.", ConstLabels: queue,
			Buckets: prometheus.ExponentialBuckets(0.0001, 4, 10)}, []string{"kind"}),
	}
	m.maxConcurrent.Set(1)
	for _, result := range []string{"success", "error"} {
		m.reconciles.WithLabelValues(result)
	}
	for _, kind := range orderKinds {
		m.adds.WithLabelValues(kind)
		m.retries.WithLabelValues(kind)
		m.orderSeconds.WithLabelValues(kind)
	}
	return m
}

// Turn counts one turn that looked at visited servers.
func (m *Meter) Turn(took time.Duration, visited int) {
	m.turnSeconds.Observe(took.Seconds())
	m.reconciles.WithLabelValues("success").Add(float64(visited))
}

// probeKind is the one kind whose failure is an answer like another: nothing went wrong with us.
const probeKind = "Check"

// Order counts one order and how it ended.
func (m *Meter) Order(kind string, took time.Duration, err error) {
	m.adds.WithLabelValues(kind).Inc()
	m.orderSeconds.WithLabelValues(kind).Observe(took.Seconds())
	if err == nil || kind == probeKind {
		return
	}
	m.errors.Inc()
	m.reconciles.WithLabelValues("error").Inc()
	m.retries.WithLabelValues(kind).Inc()
}

func (m *Meter) all() []prometheus.Collector {
	return []prometheus.Collector{m.reconciles, m.errors, m.turnSeconds, m.maxConcurrent, m.adds, m.retries, m.orderSeconds}
}

// Describe sends the descriptions.
func (m *Meter) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range m.all() {
		c.Describe(ch)
	}
}

// Collect sends the series.
func (m *Meter) Collect(ch chan<- prometheus.Metric) {
	for _, c := range m.all() {
		c.Collect(ch)
	}
}
