package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"reconciler.dev/reconciler/reconcile"
	"reconciler.dev/reconciler/spec"
)

func (s *Service) jobItems(r *http.Request) (collect, error) {
	p, err := pickOf(r)
	if err != nil {
		return nil, err
	}
	see := s.viewer(r)
	return func(snap *reconcile.Snapshot) []item {
		var items []item
		for _, v := range snap.Jobs {
			var labels map[string]string
			if v.Object != nil {
				labels = v.Object.Labels
			}
			if p.wants(v.Key, labels) {
				items = append(items, item{id: v.Key.String(), rev: revision(v.Rev), object: func() (any, error) { return see.job(v) }})
			}
		}
		return items
	}, nil
}

// job is a Job as the reader may see it: what its commands have written, and values of parameters, are for administrators.
func (v viewer) job(view *reconcile.JobView) (any, error) {
	out := publicJob(view)
	if !v.specs {
		return out, nil
	}
	out.Status = view.Status
	if view.Object != nil {
		return shown(view.Object.WithDefaults(), out.Metadata, out.Status)
	}
	return directJob{out.TypeMeta, out.Metadata, view.Spec, out.Status}, nil
}

// directJob is a Job that no file has, whole.
type directJob struct {
	TypeMeta
	Metadata ObjectMeta     `json:"metadata"`
	Spec     spec.JobSpec   `json:"spec"`
	Status   spec.JobStatus `json:"status"`
}

// publicJob is a Job as everybody may see it.
func publicJob(view *reconcile.JobView) *Job {
	out := &Job{TypeMeta: typeMeta(spec.KindJob), Metadata: metaOf(view.Key), Status: view.Status}
	out.Metadata.UID = view.UID
	out.Metadata.ResourceVersion = revision(view.Rev)
	out.Metadata.CreationTimestamp = timeRef(view.CreatedAt)
	if view.Object != nil {
		out.Metadata.Labels = view.Object.Labels
	}
	out.Spec = JobSummary{
		Server: view.Spec.Server, Type: view.Spec.Kind(), Command: view.Spec.Command,
		Attempt: view.Spec.Attempts(), Cancel: view.Spec.Cancel,
	}
	out.Status.Steps = slices.Clone(out.Status.Steps)
	for i := range out.Status.Steps {
		out.Status.Steps[i].Output = ""
	}
	return out
}

// postJob takes a Job that is asked for directly: the same object as a manifest has.
func (s *Service) postJob(w http.ResponseWriter, r *http.Request) error {
	data, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxBody))
	if err != nil {
		return Failure(ReasonBadRequest, "cannot read the request: %s", err)
	}
	j, faults := spec.DecodeJob(data)
	if len(faults) > 0 {
		lines := make([]string, len(faults))
		for i := range faults {
			faults[i].Line, faults[i].Column = 0, 0 // nobody wrote it by hand
			lines[i] = faults[i].Error()
		}
		return Failure(ReasonInvalid, "%s", strings.Join(lines, "; "))
	}
	if namespace := r.PathValue("namespace"); j.Key().Namespace != namespace {
		return Failure(ReasonBadRequest, "the job is of namespace %q, the request of %q", j.Key().Namespace, namespace)
	}
	ask := reconcile.JobAsk{Key: j.Key(), Spec: j.Spec, By: peerOfRequest(r).name()}
	if err := s.Loop.AddJob(r.Context(), ask); err != nil {
		return jobRefusal(err, ask)
	}
	return s.replyJob(w, r, ask.Key)
}

// postCancel withdraws a job.
func (s *Service) postCancel(w http.ResponseWriter, r *http.Request) error {
	ask := reconcile.JobAsk{Key: spec.Key{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}, By: peerOfRequest(r).name()}
	if err := s.Loop.CancelJob(r.Context(), ask); err != nil {
		return jobRefusal(err, ask)
	}
	return s.replyJob(w, r, ask.Key)
}

// replyJob answers with a job as it is now.
func (s *Service) replyJob(w http.ResponseWriter, r *http.Request, k spec.Key) error {
	v := s.Loop.Snapshot().Job(k)
	if v == nil { // recorded, and not shown yet
		return reply(w, Job{TypeMeta: typeMeta(spec.KindJob), Metadata: metaOf(k), Status: spec.JobStatus{Phase: spec.JobPending}})
	}
	obj, err := s.viewer(r).job(v)
	if err != nil {
		return err
	}
	return reply(w, obj)
}

func jobRefusal(err error, ask reconcile.JobAsk) error {
	switch {
	case errors.Is(err, reconcile.ErrJobExists):
		return Failure(ReasonConflict, "job %q exists: another action is another name", ask.Key.Name)
	case errors.Is(err, reconcile.ErrNoJob):
		return NotFound(Jobs, ask.Key.Name)
	case errors.Is(err, reconcile.ErrNoServer):
		return NotFound(Servers, ask.Spec.Server)
	case errors.Is(err, reconcile.ErrClosing):
		return refusal(err, ask.Key)
	case errors.Is(err, reconcile.ErrUnrecorded):
		return Failure(ReasonServiceUnavailable, "it is not certain that job %q is recorded, so look for it before you ask again: %s", ask.Key.Name, diskTrouble(err))
	}
	return err
}

// NewJob is the object to post for a job.
func NewJob(k spec.Key, s spec.JobSpec) json.RawMessage {
	data, err := json.Marshal(struct {
		TypeMeta
		Metadata ObjectMeta   `json:"metadata"`
		Spec     spec.JobSpec `json:"spec"`
	}{typeMeta(spec.KindJob), metaOf(k), s})
	if err != nil {
		panic(fmt.Sprintf("api: a job cannot be encoded: %v", err)) // it is made of strings and numbers
	}
	return data
}
