package api

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"reconciler.dev/reconciler/reconcile"
	"reconciler.dev/reconciler/spec"
)

// item is one object of a list, and how a watch tells that it has changed.
type item struct {
	id     string
	rev    string
	object func() (any, error) // made when it is sent
}

// collect makes the items of a resource, in order, of a snapshot.
type collect func(*reconcile.Snapshot) []item

// answer sends one list of what collect finds, or with ?watch=true every change of it.
func (s *Service) answer(w http.ResponseWriter, r *http.Request, c collect) error {
	watch, err := boolQuery(r, QueryWatch)
	if err != nil {
		return err
	}
	if watch {
		return s.watch(w, r, c)
	}
	snap := s.Loop.Snapshot()
	list := List{TypeMeta: TypeMeta{APIVersion: "v1", Kind: "List"}, Items: []json.RawMessage{}}
	list.Metadata.ResourceVersion = revision(snap.Rev)
	for _, it := range c(snap) {
		raw, err := it.raw()
		if err != nil {
			return err
		}
		list.Items = append(list.Items, raw)
	}
	return reply(w, list)
}

// answerOne is answer for one object.
func (s *Service) answerOne(w http.ResponseWriter, r *http.Request, resource string, c collect) error {
	watch, err := boolQuery(r, QueryWatch)
	if err != nil {
		return err
	}
	items := c(s.Loop.Snapshot())
	if len(items) == 0 {
		return s.notFound(r, resource, r.PathValue("name"))
	}
	if watch {
		return s.watch(w, r, c)
	}
	obj, err := items[0].object()
	if err != nil {
		return err
	}
	return reply(w, obj)
}

func (it item) raw() (json.RawMessage, error) {
	obj, err := it.object()
	if err != nil {
		return nil, err
	}
	return json.Marshal(obj)
}

// pick is what a request asks for: one namespace or all, a name or all, labels.
type pick struct {
	namespace string // "" = all
	name      string // "" = all
	labels    selector
}

func pickOf(r *http.Request) (pick, error) {
	sel, err := parseSelector(r.URL.Query().Get(QuerySelector))
	if err != nil {
		return pick{}, Failure(ReasonBadRequest, "%s", err)
	}
	return pick{namespace: r.PathValue("namespace"), name: r.PathValue("name"), labels: sel}, nil
}

func (p pick) wants(k spec.Key, labels map[string]string) bool {
	return (p.namespace == "" || p.namespace == k.Namespace) && (p.name == "" || p.name == k.Name) && p.labels.matches(labels)
}

// servers are the views that p wants.
func (p pick) servers(snap *reconcile.Snapshot) []*reconcile.ServerView {
	var out []*reconcile.ServerView
	for _, v := range snap.Servers {
		var labels map[string]string
		if v.Object != nil {
			labels = v.Object.Labels
		}
		if p.wants(v.Key, labels) {
			out = append(out, v)
		}
	}
	return out
}

func (s *Service) serverItems(r *http.Request) (collect, error) {
	p, err := pickOf(r)
	if err != nil {
		return nil, err
	}
	see := s.viewer(r)
	return func(snap *reconcile.Snapshot) []item {
		var items []item
		for _, v := range p.servers(snap) {
			items = append(items, item{id: v.Key.String(), rev: revision(v.Rev), object: func() (any, error) { return see.server(v) }})
		}
		return items
	}, nil
}

// items finds what a request is about.
type items = func(*Service, *http.Request) (collect, error)

// list answers with all that a request is about.
func list(of items) func(*Service, http.ResponseWriter, *http.Request) error {
	return func(s *Service, w http.ResponseWriter, r *http.Request) error {
		c, err := of(s, r)
		if err != nil {
			return err
		}
		return s.answer(w, r, c)
	}
}

// one answers with the one object that a request names.
func one(resource string, of items) func(*Service, http.ResponseWriter, *http.Request) error {
	return func(s *Service, w http.ResponseWriter, r *http.Request) error {
		c, err := of(s, r)
		if err != nil {
			return err
		}
		return s.answerOne(w, r, resource, c)
	}
}

func (s *Service) listServers(w http.ResponseWriter, r *http.Request) error {
	c, err := s.serverItems(r)
	if err != nil {
		return err
	}
	for _, text := range warnings(s.Loop.Snapshot()) {
		warn(w, text)
	}
	return s.answer(w, r, c)
}

// maxWarned is how many faulty files a warning names.
const maxWarned = 3

// warnings are what somebody who looks at the servers should know besides.
func warnings(snap *reconcile.Snapshot) []string {
	var out, faulty []string
	for _, src := range snap.Sources {
		for _, f := range src.Files {
			if f.State == spec.FileInvalid || f.State == spec.FileConflict {
				faulty = append(faulty, f.Path)
			}
		}
		if len(src.PrunePaused) > 0 {
			out = append(out, fmt.Sprintf("%d objects are in no file of source %s any more; their removal is held until 'reconciler prune --confirm'",
				len(src.PrunePaused), src.Name))
		}
		if !src.Complete && src.Reason != "" {
			out = append(out, fmt.Sprintf("source %s cannot be read whole (%s); nothing is removed meanwhile", src.Name, src.Reason))
		}
	}
	if len(faulty) > 0 {
		named := strings.Join(faulty[:min(len(faulty), maxWarned)], ", ")
		if len(faulty) > maxWarned {
			named += ", ..."
		}
		out = append(out, fmt.Sprintf("files have faults: %s; see 'reconciler get sources'", named))
	}
	if text := refused(snap); text != "" {
		out = append(out, text)
	}
	if !snap.Keeper {
		out = append(out, "the keeper has not been heard: states are the last known, and nothing is started or stopped")
	}
	return out
}

// refused names the servers whose manifest is good and cannot be used as it is; "" = none.
func refused(snap *reconcile.Snapshot) string {
	var named []string
	for _, v := range snap.Servers {
		for _, c := range v.Status.Conditions {
			if c.Type == spec.ConditionAccepted && c.Status == "False" && c.Reason != "Removed" && c.Reason != "StaleManifest" {
				named = append(named, v.Key.String()+" ("+c.Reason+")")
			}
		}
	}
	if len(named) == 0 {
		return ""
	}
	text := strings.Join(named[:min(len(named), maxWarned)], ", ")
	if len(named) > maxWarned {
		text += ", ..."
	}
	return "servers are not accepted as declared: " + text + "; see 'reconciler why'"
}

func (s *Service) profileItems(r *http.Request) (collect, error) {
	p, err := pickOf(r)
	if err != nil {
		return nil, err
	}
	see := s.viewer(r)
	return func(snap *reconcile.Snapshot) []item {
		ready := readyByProfile(snap)
		var items []item
		for _, v := range snap.Profiles {
			if !p.wants(v.Key, v.Object.Labels) {
				continue
			}
			n := ready[v.Key]
			items = append(items, item{
				id:     v.Key.String(),
				rev:    fmt.Sprintf("%p.%v.%t.%d.%d", v.Object, v.Source, v.Stale, v.Servers, n), // an unchanged object keeps its pointer
				object: func() (any, error) { return see.profile(v, n) },
			})
		}
		return items
	}, nil
}

func readyByProfile(snap *reconcile.Snapshot) map[spec.Key]int {
	ready := map[spec.Key]int{}
	for _, v := range snap.Servers {
		for _, c := range v.Status.Conditions {
			if c.Type == spec.ConditionReady && c.Status == "True" {
				ready[spec.Key{Namespace: v.Key.Namespace, Name: v.Profile}]++
			}
		}
	}
	return ready
}

func (*Service) holdItems(r *http.Request) (collect, error) {
	p, err := pickOf(r)
	if err != nil {
		return nil, err
	}
	return func(snap *reconcile.Snapshot) []item {
		var items []item
		for _, v := range p.servers(snap) {
			h := hold(v)
			if h == nil {
				continue
			}
			rev := fmt.Sprint(h.Status.State, h.Status.Since.UnixNano(), h.Status.Until)
			items = append(items, item{id: v.Key.String(), rev: rev, object: func() (any, error) { return h, nil }})
		}
		return items
	}, nil
}

// listEvents lists by time of the last occurrence, so that the newest is the last.
func (s *Service) listEvents(w http.ResponseWriter, r *http.Request) error {
	p := pick{namespace: r.PathValue("namespace"), name: r.URL.Query().Get(QueryName)}
	if p.name != "" && len(p.servers(s.Loop.Snapshot())) == 0 {
		return s.notFound(r, Servers, p.name)
	}
	return s.answer(w, r, func(snap *reconcile.Snapshot) []item {
		var all []*Event
		for _, v := range p.servers(snap) {
			all = append(all, events(v)...)
		}
		slices.SortStableFunc(all, func(a, b *Event) int { return a.LastTimestamp.Compare(b.LastTimestamp) })
		items := make([]item, len(all))
		for i, ev := range all {
			items[i] = item{id: ev.Metadata.Key().String(), rev: ev.Metadata.ResourceVersion, object: func() (any, error) { return ev, nil }}
		}
		return items
	})
}

// sourceItems ignores the namespace: a source belongs to the host.
func sourceItems(r *http.Request) collect {
	name := r.PathValue("name")
	return func(snap *reconcile.Snapshot) []item {
		var items []item
		for i := range snap.Sources {
			src := source(&snap.Sources[i])
			if name != "" && name != src.Metadata.Name {
				continue
			}
			items = append(items, item{id: src.Metadata.Name, rev: revision(snap.Rev), object: func() (any, error) { return src, nil }})
		}
		return items
	}
}

func (s *Service) listSources(w http.ResponseWriter, r *http.Request) error {
	return s.answer(w, r, sourceItems(r))
}

func (s *Service) getSource(w http.ResponseWriter, r *http.Request) error {
	return s.answerOne(w, r, Sources, sourceItems(r))
}

func (s *Service) getVersion(w http.ResponseWriter, _ *http.Request) error {
	return reply(w, s.Host.Versions())
}

func (s *Service) getDoctor(w http.ResponseWriter, r *http.Request) error {
	checks := s.Host.Checks(r.Context())
	slices.SortStableFunc(checks, func(a, b Check) int { return cmp.Compare(b.Axis, a.Axis) }) // Runtime before Ownership
	return reply(w, Report{Checks: checks})
}

// view is the server that a request names.
func (s *Service) view(r *http.Request) (*reconcile.ServerView, error) {
	k := spec.Key{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}
	v := s.Loop.Snapshot().Server(k)
	if v == nil {
		return nil, s.notFound(r, Servers, k.Name)
	}
	return v, nil
}

// notFound is [NotFound] that says of a server which was removed where to look.
func (s *Service) notFound(r *http.Request, resource, name string) error {
	status := NotFound(resource, name)
	if resource == Servers && s.removed(r, name) != nil {
		status.Message += ": it was removed; 'reconciler history " + name + "' tells how its runs ended, and 'reconciler logs " + name + "' what is kept of its output"
	}
	return status
}

func boolQuery(r *http.Request, name string) (bool, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return false, nil
	}
	v, err := strconv.ParseBool(text)
	if err != nil {
		return false, Failure(ReasonBadRequest, "%s=%q: must be true or false", name, text)
	}
	return v, nil
}

func lower(s string) string { return strings.ToLower(s) }
