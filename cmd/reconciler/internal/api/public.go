package api

import (
	"fmt"
	"html"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"reconciler.dev/reconciler/reconcile"
	"reconciler.dev/reconciler/spec"
)

// publicRoutes is everything that the TCP listener answers: to read, by anybody who can connect. No log and no console
// text, no spec, and nothing that changes anything.
var publicRoutes = []struct {
	pattern string
	serve   func(*Service, http.ResponseWriter, *http.Request)
}{
	{"GET /{$}", (*Service).page},
	{"GET /metrics", func(s *Service, w http.ResponseWriter, r *http.Request) { s.Metrics.ServeHTTP(w, r) }},
	{"GET " + PathHealth, (*Service).healthz},
	{"GET " + PathReady, (*Service).readyz},
}

// Public is the handler of the TCP listener.
func (s *Service) Public() http.Handler {
	mux := http.NewServeMux()
	for _, r := range publicRoutes {
		mux.HandleFunc(r.pattern, func(w http.ResponseWriter, req *http.Request) {
			w.Header().Set("X-Content-Type-Options", "nosniff")
			r.serve(s, w, req)
		})
	}
	return mux
}

// health adds the two health pages to the control mux.
func (s *Service) health(mux *http.ServeMux) {
	mux.HandleFunc("GET "+PathHealth, s.healthz)
	mux.HandleFunc("GET "+PathReady, s.readyz)
}

// healthz says that the process answers.
func (s *Service) healthz(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") }

// readyz says whether the reconciler can decide: it has heard the keeper and read every source.
func (s *Service) readyz(w http.ResponseWriter, _ *http.Request) {
	snap := s.Loop.Snapshot()
	switch {
	case !snap.Keeper:
		http.Error(w, "the keeper has not been heard whole", http.StatusServiceUnavailable)
	case !snap.Known:
		http.Error(w, "not every source has been read whole", http.StatusServiceUnavailable)
	case snap.Closing:
		http.Error(w, "a shutdown is under way", http.StatusServiceUnavailable)
	default:
		fmt.Fprintln(w, "ok")
	}
}

// page is the one page for people: every server and its state. It is written by hand: a template package, which calls
// methods by name, would keep every method of every type in the program.
func (s *Service) page(w http.ResponseWriter, _ *http.Request) {
	snap := s.Loop.Snapshot()
	var b strings.Builder
	b.WriteString(pageHead)
	for _, text := range warnings(snap) {
		b.WriteString("<p>Warning: " + html.EscapeString(text) + "</p>\n")
	}
	if len(snap.Servers) == 0 {
		b.WriteString("<p>There are none: no manifest declares a server.</p>\n")
	} else {
		b.WriteString("<table>\n")
		writeRow(&b, "th", "Namespace", "Name", "Profile", "Ready", "State", "Restarts", "Running since", "Hold")
		for _, v := range snap.Servers {
			writeRow(&b, "td", pageRow(v)...)
		}
		b.WriteString("</table>\n")
	}
	b.WriteString("<p>As of " + snap.At.UTC().Format(time.RFC3339) + pageFoot)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	if _, err := io.WriteString(w, b.String()); err != nil {
		s.Log.Debug("cannot send the page", "error", err)
	}
}

func writeRow(b *strings.Builder, tag string, cells ...string) {
	b.WriteString("<tr>")
	for _, c := range cells {
		b.WriteString("<" + tag + ">" + html.EscapeString(c) + "</" + tag + ">")
	}
	b.WriteString("</tr>\n")
}

func pageRow(v *reconcile.ServerView) []string {
	ready, restarts, since, held := "Unknown", "0", "", ""
	for _, c := range v.Status.Conditions {
		if c.Type == spec.ConditionReady {
			ready = c.Status
		}
	}
	if r := v.Status.Run; r != nil {
		restarts = strconv.FormatInt(r.Restarts, 10)
		if r.StartedAt != nil && v.Status.State == spec.StateRunning {
			since = r.StartedAt.UTC().Format(time.RFC3339)
		}
	}
	if h := v.Status.Hold; h != nil {
		held = h.State
	}
	return []string{v.Key.Namespace, v.Key.Name, v.Profile, ready, string(v.Status.State), restarts, since, held}
}

const pageHead = `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>reconciler</title>
<style>
body { font-family: sans-serif; margin: 2em; }
table { border-collapse: collapse; }
th, td { text-align: left; padding: 0.2em 1em 0.2em 0; border-bottom: 1px solid #ccc; }
</style>
</head>
<body>
<h1>Servers</h1>
`

const pageFoot = `. <a href="/metrics">Metrics</a>, <a href="/healthz">health</a>, <a href="/readyz">readiness</a>.</p>
</body>
</html>
`
