package reconcile

import (
	"testing"
	"time"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
)

// rotate is what a keeper tells when the secret of live runs has another value.
func (h *host) rotate(servers ...string) {
	for _, name := range servers {
		h.change(scopeOf(name, "game"), func(f *observe.Facts) {
			f.Run.Changed = &observe.ChangedSecrets{Refs: []string{"shared/token"}, At: h.wall}
		})
	}
}

// API.md rule 5: a changed secret is a change of the class of its place: copies are replaced one at a time, and one that does not get Ready
// with the new one halts the rest.
func TestChangedSecretRolls(t *testing.T) {
	h := newHost(t)
	h.profile("game", logProbe)
	for _, name := range []string{"a", "b", "c"} {
		h.server(name, "game")
	}
	h.settle()
	for _, name := range []string{"a", "b", "c"} {
		h.logs(name, "game")
	}
	h.pass(time.Hour)
	h.took()
	h.rotate("a", "b", "c")
	h.pass(time.Minute)
	h.wantOrders("Stop a/game SecretChanged", "Step a/game 0", "Start a/game SecretChanged")
	h.wantState("a", spec.StateStarting)
	h.wantCondition("b", spec.ConditionRestartPending, "True", "RolloutWaiting")
	if n := h.view("a").Status.ObservedGeneration; n != 1 {
		t.Errorf("the generation is %d: a secret is no change of the spec", n)
	}
	h.restart() // the roll-out goes on where it was
	h.logs("a", "game")
	h.pass(time.Minute)
	h.wantOrders("Stop b/game SecretChanged", "Step b/game 0", "Start b/game SecretChanged")
	h.crash("b", "game")
	h.pass(time.Minute)
	h.wantOrders("Start b/game Crashed")
	h.restart() // the record still says what b was replaced for
	h.pass(time.Hour)
	h.wantOrders()
	h.wantCondition("c", spec.ConditionRestartPending, "True", "RolloutWaiting")
	h.logs("b", "game")
	h.pass(time.Minute)
	h.wantOrders("Stop c/game SecretChanged", "Step c/game 0", "Start c/game SecretChanged")
}

// A copy that was broken before a secret was changed keeps nobody waiting, and a secret that is as it was again asks for nothing (I8).
func TestChangedSecretAndOldTrouble(t *testing.T) {
	h := newHost(t)
	h.profile("game", logProbe)
	for _, name := range []string{"a", "b", "broken"} {
		h.server(name, "game")
	}
	h.settle()
	h.logs("a", "game")
	h.logs("b", "game")
	h.pass(time.Hour)
	h.took()
	h.rotate("a", "b")
	h.settle()
	h.wantOrders("Stop a/game SecretChanged", "Step a/game 0", "Start a/game SecretChanged")
	h.change(scopeOf("b", "game"), func(f *observe.Facts) { f.Run.Changed = nil })
	h.logs("a", "game")
	h.pass(time.Hour)
	h.wantOrders()
	h.wantCondition("b", spec.ConditionRestartPending, "False", "UpToDate")
}

// refusal is what a keeper answers.
type noSuchSecret struct{}

func (noSuchSecret) Error() string { return "refused: " + noSuchSecret{}.Public() }
func (noSuchSecret) Public() string {
	return "spec.env[0].value: secret town/none: there is no such file"
}

// A change whose next run the keeper would refuse ends nothing: the old run goes on by the newest restart policy, the status says what is
// wrong, and the next change is tried at once.
func TestChangeThatCannotRunEndsNothing(t *testing.T) {
	h := newHost(t)
	h.profile("game")
	h.server("town", "game")
	h.settle()
	h.took()
	h.refuse = map[string]error{"Stop": noSuchSecret{}}
	h.profile("game", args("new"), policy(spec.RestartNever))
	h.pass(time.Minute)
	for _, o := range h.took() {
		if o != "Stop town/game SpecChanged" && o != "ApplyLive town/game restart" {
			t.Errorf("order: %s", o)
		}
	}
	run := h.records[scopeOf("town", "game")].Run
	if run.Number != 1 || run.Stop != nil || run.Restart.Policy != spec.RestartNever {
		t.Errorf("the old run is touched: %+v", run)
	}
	h.wantState("town", spec.StateRunning)
	h.wantCondition("town", spec.ConditionStalled, "True", "Refused")
	h.wantCondition("town", spec.ConditionRestartPending, "True", "Refused")
	if n := h.view("town").Status.ObservedGeneration; n != 2 {
		t.Errorf("observed generation %d", n)
	}
	h.refuse = nil
	h.profile("game", args("newer"), policy(spec.RestartNever))
	h.settle()
	h.wantOrders("Stop town/game SpecChanged", "Step town/game 0", "Start town/game SpecChanged")
	h.wantCondition("town", spec.ConditionStalled, "False", "NotStalled")
}
