package cli

import (
	"testing"

	"reconciler.dev/reconciler/cmd/reconciler/internal/api/apitest"
	"reconciler.dev/reconciler/reconcile"
	"reconciler.dev/reconciler/spec"
)

// What keeps a server from its goal is told with the timeout, unless it is a faulty file, which keeps back only what it would change.
func TestTimeoutTellsWhatStalls(t *testing.T) {
	port := spec.Condition{Type: spec.ConditionStalled, Status: "True", Reason: "PortConflict", Message: "endpoint game: town has its port"}
	stale := spec.Condition{Type: spec.ConditionStalled, Status: "True", Reason: "StaleManifest", Message: "its file is faulty now"}
	closed := spec.Condition{Type: spec.ConditionEndpointsReachable, Status: "False", Reason: "NotListening", Message: "endpoint game: nobody listens"}
	unready := spec.Condition{Type: spec.ConditionReady, Status: "False", Reason: "ProbeFailed", Message: "http: status 503"}
	for _, tt := range []struct {
		name       string
		state      spec.ServerState
		conditions []spec.Condition
		want       string
	}{
		{"nothing", spec.StatePending, nil, ""},
		{"a probe", spec.StateStarting, []spec.Condition{unready}, "! server/hamlet is not ready: http: status 503 (ProbeFailed)\n"},
		{"a probe of one that was Ready", spec.StateRunning, []spec.Condition{unready}, "! server/hamlet is not ready: http: status 503 (ProbeFailed)\n"},
		{"an endpoint", spec.StateStarting, []spec.Condition{unready, closed}, "! server/hamlet is not ready: endpoint game: nobody listens (NotListening)\n"},
		{"no run", spec.StatePending, []spec.Condition{unready}, ""},
		{"a port", spec.StatePending, []spec.Condition{port}, "! server/hamlet is stalled: endpoint game: town has its port (PortConflict)\n"},
		{"a file", spec.StatePending, []spec.Condition{{Type: spec.ConditionAccepted, Status: "False", Reason: "StaleManifest"}, stale}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			loop := apitest.NewLoop(apitest.Sample())
			runtime := apitest.Serve(t, loop, &apitest.Host{})
			play(t.Context(), loop, spec.Key{Namespace: "default", Name: "hamlet"}, []func(*reconcile.ServerView){
				func(v *reconcile.ServerView) { v.Status.State, v.Status.Conditions = tt.state, tt.conditions },
			})
			got := run(t, runtime, "wait", "server/hamlet", "--for=condition=Ready", "--timeout", "0")
			want := "$ reconciler wait server/hamlet --for=condition=Ready --timeout 0\n! error: timed out waiting for the condition of server/hamlet\n" + tt.want + "[exit 1]\n"
			if got != want {
				t.Errorf("got\n%swant\n%s", got, want)
			}
		})
	}
}
