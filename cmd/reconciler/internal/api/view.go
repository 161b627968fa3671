package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"reconciler.dev/reconciler/reconcile"
	"reconciler.dev/reconciler/spec"
)

// viewer makes public objects of a snapshot for one kind of reader.
type viewer struct {
	specs bool // the reader may see what manifests say, and wants to
}

func (s *Service) viewer(r *http.Request) viewer {
	return viewer{specs: s.administers(peerOfRequest(r)) && r.URL.Query().Get(QueryView) != ViewSummary}
}

func typeMeta(kind string) TypeMeta { return TypeMeta{APIVersion: Version, Kind: kind} }

func timeRef(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func revision(rev uint64) string { return strconv.FormatUint(rev, 10) }

// server is a Server as the reader may see it: for an administrator as its file has it, with defaults, for others with
// the two words of the spec that are no secret.
func (v viewer) server(view *reconcile.ServerView) (any, error) {
	out := publicServer(view)
	if !v.specs || view.Object == nil {
		return out, nil
	}
	return shown(view.Object.WithDefaults(), out.Metadata, out.Status)
}

// publicServer is a Server as everybody may see it.
func publicServer(view *reconcile.ServerView) *Server {
	out := &Server{TypeMeta: typeMeta(spec.KindServer), Metadata: metaOf(view.Key), Status: view.Status}
	out.Metadata.UID = view.UID
	out.Metadata.Generation = view.Generation
	out.Metadata.ResourceVersion = revision(view.Rev)
	out.Metadata.CreationTimestamp = timeRef(view.CreatedAt)
	out.Metadata.DeletionTimestamp = removedAt(view)
	out.Spec = Summary{Profile: view.Profile}
	if view.Object != nil {
		out.Metadata.Labels = view.Object.Labels
		out.Spec.State = view.Object.Wish()
	}
	return out
}

// profile is a Profile as the reader may see it. ready is how many of its servers are Ready.
func (v viewer) profile(view *reconcile.ProfileView, ready int) (any, error) {
	out := &Profile{TypeMeta: typeMeta(spec.KindProfile), Metadata: metaOf(view.Key)}
	out.Status = ProfileStatus{Servers: view.Servers, Ready: ready, Source: &view.Source}
	out.Metadata.Labels = view.Object.Labels
	if !v.specs {
		return out, nil
	}
	return shown(view.Object.WithDefaults(), out.Metadata, out.Status)
}

// shown adds to an object what its file does not say: what we know of its life, and its status.
func shown(obj *spec.Shown, meta ObjectMeta, status any) (*spec.Shown, error) {
	life := meta
	life.Name, life.Namespace, life.Labels = "", "", nil // the file says these
	data, err := json.Marshal(life)
	if err != nil {
		return nil, fmt.Errorf("cannot show metadata: %w", err)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		return nil, fmt.Errorf("cannot show metadata: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if name == "name" {
			continue
		}
		if err := obj.SetMetadata(name, members[name]); err != nil {
			return nil, err
		}
	}
	data, err = json.Marshal(status)
	if err != nil {
		return nil, fmt.Errorf("cannot show the status: %w", err)
	}
	return obj, obj.Set("status", data)
}

// hold is the hold of a server, nil if there is none.
func hold(view *reconcile.ServerView) *Hold {
	if view.Status.Hold == nil {
		return nil
	}
	out := &Hold{TypeMeta: typeMeta("Hold"), Metadata: metaOf(view.Key), Status: *view.Status.Hold}
	out.Metadata.ResourceVersion = revision(view.Rev)
	out.Metadata.CreationTimestamp = timeRef(view.Status.Hold.Since)
	if view.Object != nil {
		out.Metadata.Labels = view.Object.Labels
	}
	return out
}

func source(st *spec.SourceState) *Source {
	out := &Source{TypeMeta: typeMeta("Source"), Metadata: ObjectMeta{Name: st.Name}}
	out.Status = SourceReport{
		Revision:    st.Revision,
		Dirty:       st.Dirty,
		Complete:    st.Complete,
		Reason:      st.Reason,
		Notice:      st.Notice,
		LastSuccess: timeRef(st.LastSuccess),
		Objects:     st.Objects,
		Files:       []SourceFile{},
	}
	for _, f := range st.Files {
		out.Status.Files = append(out.Status.Files, SourceFile{File: f.Path, State: f.State, Reason: f.Reason, Faults: f.Faults, Notes: f.Notes})
	}
	for _, k := range st.PrunePaused {
		out.Status.PrunePaused = append(out.Status.PrunePaused, k.String())
	}
	for _, k := range st.PruneKept {
		out.Status.PruneKept = append(out.Status.PruneKept, k.String())
	}
	return out
}

// events are the events of a server, oldest first.
func events(view *reconcile.ServerView) []*Event {
	out := make([]*Event, 0, len(view.Events))
	for _, ev := range view.Events {
		e := &Event{
			TypeMeta:       typeMeta("Event"),
			Metadata:       metaOf(view.Key),
			InvolvedObject: ObjectReference{Kind: spec.KindServer, Namespace: metaOf(view.Key).Namespace, Name: view.Key.Name, UID: view.UID},
			Type:           ev.Type,
			Reason:         ev.Reason,
			Message:        ev.Message,
			FirstTimestamp: ev.FirstSeen,
			LastTimestamp:  ev.LastSeen,
			Count:          ev.Count,
		}
		// One event is told from another by what it is about, what it says and when it began, as in Kubernetes.
		e.Metadata.Name = fmt.Sprintf("%s.%x.%s", view.Key.Name, ev.FirstSeen.UnixNano(), lower(ev.Reason))
		e.Metadata.ResourceVersion = strconv.FormatInt(ev.LastSeen.UnixNano(), 16) + "." + strconv.Itoa(ev.Count)
		out = append(out, e)
	}
	return out
}

// removedAt is since when the server is in no source, nil while it is in one.
func removedAt(view *reconcile.ServerView) *time.Time {
	if !view.Removing {
		return nil
	}
	for _, c := range view.Status.Conditions {
		if c.Type == spec.ConditionAccepted && c.Status == "False" {
			return timeRef(c.LastTransitionTime)
		}
	}
	return timeRef(view.CreatedAt)
}
