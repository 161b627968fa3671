package sim

import (
	"fmt"

	"reconciler.dev/reconciler/keeper"
	"reconciler.dev/reconciler/reconcile"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// vault is the one secret of the host, which every run of profile p is executed with.
type vault struct {
	value   int
	turns   int  // how often it was given a value
	missing bool // it cannot be read now
}

// image is what a run is executed with: nil of a profile without secrets.
type image struct{ secret *vault }

func (image) WriteFiles() error { return nil }
func (image) Undo()             {}
func (image) Close()            {}

func (i image) Prints(runID string) []state.SecretPrint {
	if i.secret == nil {
		return nil
	}
	return []state.SecretPrint{{Ref: "shared/s", Print: fmt.Sprintf("%s %d", runID, i.secret.value)}}
}

// MakeShadow implements [keeper.Kernel].
func (k *kernel) MakeShadow(p keeper.Place, _ *spec.Launch, _ *keeper.Host, _ keeper.Image) error {
	k.w.point("make shadow")
	k.needProgram("a shadow was made", p)
	return nil
}

// read is the image that a launch would be executed with now.
func (k *kernel) read(l *spec.Launch) (image, error) {
	for _, e := range l.Env {
		if !spec.HasSecret(e.Value) {
			continue
		}
		if k.vault.missing {
			return image{}, &keeper.Refused{Check: keeper.CheckSecret, Detail: "the secret is missing"}
		}
		now := k.vault
		return image{&now}, nil
	}
	return image{}, nil
}

// Prints implements [keeper.Kernel].
func (k *kernel) Prints(l *spec.Launch, _ *keeper.Host, runID string) ([]state.SecretPrint, error) {
	k.w.point("prints")
	i, err := k.read(l)
	return i.Prints(runID), err
}

// Redact implements [keeper.Kernel]. No line here holds a secret.
func (k *kernel) Redact(run *state.Run, _ *keeper.Host, text string) (string, error) {
	_, err := k.read(&run.Launch)
	return text, err
}

// secret lets people give the secret a value, or take it away, or the keeper look at it.
func (w *world) secret() {
	v := &w.kernel.vault
	switch w.choose(4) {
	case 0:
		v.missing = true
		w.tell("people take the secret away")
	case 1, 2:
		*v = vault{value: w.choose(3), turns: v.turns + 1}
		w.tell("people make the secret %d", v.value)
	default:
		if w.core != nil {
			w.mayDie()
			w.as("keeper", w.core.CheckSecrets)
		}
	}
}

// stop checks that nothing is ended for what could not be started in its place (EC-3).
func (w *world) stop(o state.StopOrder) error {
	before := w.record(o.Scope)
	if err := w.core.Stop(o, nil); err != nil {
		return err
	}
	after := w.record(o.Scope)
	began := before != nil && before.Run != nil && before.Run.Stop == nil && after.Run.Stop != nil && after.Run.MainExit == nil
	if began && o.Next != nil && o.Next.Scope.Profile == "p" && w.kernel.vault.missing {
		w.failf("EC-3", "%s although the secret of the next run is missing", tellOrder(reconcile.Order{Scope: o.Scope, Stop: &o}))
	}
	return nil
}

// checkRotated checks that a run which is replaced for its secret's sake had another one at some time (I8).
func (w *world) checkRotated(o *state.StopOrder) {
	if life := w.truth[o.RunID]; life != nil && (life.secret == nil || life.secret.turns == w.kernel.vault.turns) {
		w.failf("I8", "%s although its secret was never replaced", tellOrder(reconcile.Order{Scope: o.Scope, Stop: o}))
	}
}

// checkSecret checks that what runs in the end has the secret that is there in the end (API.md rule 5).
func (w *world) checkSecret(p *proc) {
	if got, now := w.truth[p.run].secret, w.kernel.vault; (got == nil) != (p.scope.Profile != "p") || got != nil && got.value != now.value {
		w.failf("DC-1", "%s runs with the secret %+v, and it is %+v now", p.scope, got, now)
	}
}
