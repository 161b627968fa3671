package reconcile

import (
	"errors"
	"testing"
	"time"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// reloads gives a profile a reload, an endpoint and a probe of it.
func reloads(p *spec.ProfileSpec) {
	p.Actions.Reload = &spec.Reload{Action: spec.Action{Signal: &spec.SignalRule{Name: "SIGHUP"}}}
	p.Endpoints = []spec.Endpoint{{Name: "http", Port: spec.IntOrString{Int: 8080}}}
	p.ReadinessProbe = &spec.Probe{Socket: &spec.SocketCheck{Endpoint: "http"}}
}

// reloaded is a host whose server runs and is Ready, and whose file is about to be another.
func reloaded(t *testing.T, edits ...func(*spec.ProfileSpec)) *host {
	h := newHost(t)
	edits = append(edits, reloads)
	h.profile("game", append(edits, files(fileOf("a", "1")))...)
	h.server("town", "game")
	h.pass(time.Minute)
	h.took()
	h.wantCondition("town", spec.ConditionReady, "True", "ProbeSucceeded")
	h.profile("game", append(edits, files(fileOf("a", "2")))...)
	return h
}

func (h *host) proven(server string) bool {
	r := h.records[scopeOf(server, "game")].Run.Reload
	return r != nil && !r.ProvenAt.IsZero()
}

var restarted = []string{"Stop town/game SpecChanged", "Step town/game 0", "Start town/game SpecChanged"}

// A run whose files alone are others reads them anew, and goes on. It is not taken for well before it was asked after it.
func TestReloadKeepsTheRun(t *testing.T) {
	h := reloaded(t)
	h.settle()
	h.wantOrders("Reload town/game")
	h.pass(time.Minute)
	h.wantOrders()
	if f := h.records[scopeOf("town", "game")]; f.Run.Number != 1 || !h.proven("town") {
		t.Errorf("the run is %+v", f.Run)
	}
	h.wantCondition("town", spec.ConditionReady, "True", "ProbeSucceeded")
	h.wantCondition("town", spec.ConditionReconciling, "False", "AsWished")
	if g := h.view("town").Status.ObservedGeneration; g != 2 {
		t.Errorf("the generation is %d", g)
	}
	h.restart()
	h.pass(time.Hour)
	h.wantOrders()
	h.profile("game", reloads, files(fileOf("a", "2")), args("2"))
	h.pass(time.Second)
	h.wantOrders(restarted...)
}

// A reload that did not come to what was asked for, or after which the run is not Ready in time, is a restart.
func TestReloadThatFails(t *testing.T) {
	for name, fail := range map[string]func(h *host){
		"the action fails":                func(h *host) { h.commands.result[state.ReloadCommand] = state.Failed },
		"nobody knows of the action":      func(h *host) { h.commands.result[state.ReloadCommand] = state.Indeterminate },
		"the probe fails after it":        func(h *host) { h.checks["http"] = errors.New("refused") },
		"nobody listens after it":         func(h *host) { h.heard["http"] = observe.Listening{By: observe.ListenerNobody} },
		"the keeper died in the midst":    nil,
		"it was being proven as we ended": func(h *host) { h.checks["http"] = errors.New("refused"); h.settle(); h.restart() },
	} {
		t.Run(name, func(t *testing.T) {
			h := reloaded(t)
			if fail != nil {
				fail(h)
			}
			h.pass(2 * time.Second)
			if fail == nil {
				h.change(scopeOf("town", "game"), func(f *observe.Facts) {
					f.Deliveries = nil
					f.Run.Reload = &state.Reload{ID: "reload-x", At: h.wall, WithinSeconds: 30}
				})
			}
			h.pass(31 * time.Second)
			h.wantOrders(append([]string{"Reload town/game"}, restarted...)...)
			delete(h.checks, "http")
			delete(h.heard, "http")
			h.pass(time.Hour)
			h.wantOrders()
		})
	}
}

// A spec that does not pass its check is not brought to the run, and another edit waits until the one before is proven.
func TestReloadAfterItsCheck(t *testing.T) {
	h := reloaded(t, checked)
	h.configFails("bad")
	h.settle()
	h.wantOrders(checkBeside)
	h.wantCondition("town", spec.ConditionStalled, "True", "ConfigInvalid")
	h.configIsGood()
	h.checks["http"] = errors.New("not yet")
	h.profile("game", checked, reloads, files(fileOf("a", "3")))
	h.settle()
	h.wantOrders(checkBeside, "Reload town/game")
	h.wantCondition("town", spec.ConditionReconciling, "True", "Reloading")
	h.profile("game", checked, reloads, files(fileOf("a", "4")))
	h.pass(5 * time.Second)
	h.wantOrders()
	delete(h.checks, "http")
	h.pass(20 * time.Second)
	h.wantOrders(checkBeside, "Reload town/game")
	if !h.proven("town") {
		t.Error("it is not proven")
	}
}

// A reload that disturbs people waits as a restart does, and one copy is disturbed at a time.
func TestDisruptiveReload(t *testing.T) {
	disruptive := func(p *spec.ProfileSpec) {
		p.Actions.Reload.Disruptive = true
		p.Players.Query.Endpoint = "http"
	}
	h := newHost(t)
	profile := func(content string) { h.profile("game", counted(), reloads, disruptive, files(fileOf("a", content))) }
	profile("1")
	h.server("a", "game")
	h.players = 3
	h.pass(time.Minute)
	h.took()
	profile("2")
	h.pass(time.Hour)
	h.goesOn("a", "Occupied", "3 play, and it is replaced with at most 0")
	h.players = 0
	h.pass(time.Minute)
	h.wantOrders("Reload a/game")
	if !h.proven("a") {
		t.Error("it is not proven")
	}
}
