package apitest

import (
	"time"

	"reconciler.dev/reconciler/reconcile"
	"reconciler.dev/reconciler/spec"
)

const sampleJobs = `apiVersion: reconciler.dev/v1alpha1
kind: Job
metadata: {name: town-backup-3, labels: {tier: prod}}
spec: {server: town, command: backup, parameters: {note: canary-7f3a}}
`

// sampleJobViews are one of a file that came to nothing for sure, one that a person asked for and that was refused, and one that waits. By key.
func sampleJobViews() []*reconcile.JobView {
	object := spec.Decode("jobs.yaml", []byte(sampleJobs)).Documents[0].Job
	backup := &reconcile.JobView{
		Key: spec.Key{Namespace: "default", Name: "town-backup-3"}, Rev: 41, Object: object, UID: "9c1f0a52-75b0-4a54-8d0f-0a4a4b1f2a33",
		CreatedAt: Now.Add(-time.Hour), Spec: object.Spec,
	}
	backup.Status = spec.JobStatus{
		Phase: spec.JobFailed, Reason: reconcile.JobReasonIndeterminate, Message: "command backup: Indeterminate", Attempt: 1, By: "job/town-backup-3",
		AcceptedAt: ref(Now.Add(-time.Hour)), StartedAt: ref(Now.Add(-59 * time.Minute)), FinishedAt: ref(Now.Add(-58 * time.Minute)),
		Profile: "openttd", Run: 3, Source: &spec.SourceStatus{File: "jobs.yaml", Revision: sampleRevision},
		Steps: []spec.JobStepStatus{
			{Command: "save-off", Result: "Done", StartedAt: ref(Now.Add(-59 * time.Minute)), FinishedAt: ref(Now.Add(-59*time.Minute + time.Second))},
			{Command: "backup", Result: "Indeterminate", StartedAt: ref(Now.Add(-59 * time.Minute)), FinishedAt: ref(Now.Add(-58 * time.Minute)), Output: Canary + "\n"},
			{Command: "save-on", Result: "Done", ExitCode: ref(0), StartedAt: ref(Now.Add(-58 * time.Minute)), FinishedAt: ref(Now.Add(-58 * time.Minute))},
		},
		Conditions: []spec.Condition{
			{Type: spec.ConditionAccepted, Status: "True", Reason: "Accepted", LastTransitionTime: Now.Add(-time.Hour)},
			{Type: spec.ConditionSucceeded, Status: "False", Reason: reconcile.JobReasonIndeterminate, Message: "command backup: Indeterminate", LastTransitionTime: Now.Add(-58 * time.Minute)},
		},
	}
	stop := direct("town-stop-1", spec.JobSpec{Server: "town", Type: spec.JobStop, Profile: "minetest"})
	stop.Status.Phase, stop.Status.Reason, stop.Status.Check = spec.JobRefused, "Refused", reconcile.CheckJobProfile
	stop.Status.Message, stop.Status.FinishedAt = "the job is for profile minetest, the server has openttd", ref(Now.Add(-time.Minute))
	waits := direct("village-restart-1", spec.JobSpec{Server: "village", Type: spec.JobRestart})
	waits.Status.Phase, waits.Status.Reason, waits.Status.Message = spec.JobPending, reconcile.JobReasonQueued, "job village-migrate is before it"
	waits.Status.Deadline = ref(Now.Add(40 * time.Minute))
	return []*reconcile.JobView{backup, stop, waits}
}

// direct is a job that a person asked for a minute ago.
func direct(name string, s spec.JobSpec) *reconcile.JobView {
	v := &reconcile.JobView{Key: spec.Key{Namespace: "default", Name: name}, Rev: 41, UID: "1f3e5a52-75b0-4a54-8d0f-0a4a4b1f2a34", CreatedAt: Now.Add(-time.Minute), Spec: s}
	v.Status = spec.JobStatus{Attempt: 1, By: "anna", AcceptedAt: ref(Now.Add(-time.Minute))}
	return v
}
