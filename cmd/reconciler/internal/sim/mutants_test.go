//go:build mutants

package sim

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// mutant is a fault put into shipped source: a suite must see it, the simulation unless another is named.
type mutant struct {
	name, file, old, new string
	suite, test          string // a package, and the tests of it that must fail
}

// The first word of a name is the invariant that the fault is aimed at. Another one may notice it first.
var mutants = []mutant{
	{name: "I1 start although a run lives", file: "keeper/core_start.go", old: "\tif s.live() != nil {\n\t\tif s.never != (never{}) {\n\t\t\treturn fmt.Errorf(\"cannot start %s: the end of its last run cannot be recorded yet\", s.name)\n\t\t}\n\t\treturn nil\n\t}\n\tif len(s.openPrograms()) > 0 {\n\t\treturn refuse(CheckBusy, \"a command of %s runs that needs it at rest\", s.name)\n\t}\n\tif last := s.lastNumber(); o.After != last {", new: "\tif last := s.lastNumber(); o.After != last && s.live() == nil {"},
	{name: "I1 another profile starts while the old run lives", file: "keeper/core_start.go", old: "\tif err := c.claim(s.name); err != nil {\n\t\treturn err\n\t}\n", new: "\t_ = c.claim(s.name)\n"},
	{name: "I1 an old process is not looked for", file: "keeper/core_adopt.go", old: "\tcase err == nil:\n\t\ts.proc = proc\n", new: "\tcase err == nil:\n\t\tproc.Close()\n\t\ts.dead, s.gone = true, goneBefore\n"},
	{name: "I2 the workload is released before its identity is on record", file: "keeper/core_start.go", old: "\terr = c.progress(s, state.Progress{Phase: state.Released, Identity: &identity})\n\tif err != nil {\n\t\treturn c.undo(s, image, held, err)\n\t}\n", new: "\tif err := held.Release(); err != nil {\n\t\treturn c.undo(s, image, held, err)\n\t}\n\terr = c.progress(s, state.Progress{Phase: state.Released, Identity: &identity})\n\tif err != nil {\n\t\treturn c.undo(s, image, held, err)\n\t}\n"},
	{name: "I2 a record that cannot be written is no obstacle", file: "keeper/core.go", old: "\tif err := c.records.Put(next); err != nil {\n\t\treturn", new: "\tif err := c.records.Put(next); err != nil && next.Scope.Server == \"\" {\n\t\treturn"},
	{name: "I3 a step is sent again", file: "keeper/core_stop.go", old: "\tcase index == last:\n\t\treturn true, nil\n", new: "\tcase index == last && stop.Killed != nil:\n\t\treturn true, nil\n\tcase index == last:\n\t\treturn false, nil\n"},
	{name: "I3 a step is sent before it is journaled", file: "keeper/core_stop.go", old: "\terr := c.edit(s, func(r *state.Record) {\n\t\tr.Run.Stop.Steps", new: "\tif program == nil {\n\t\t_ = c.deliver(s, step)\n\t}\n\terr := c.edit(s, func(r *state.Record) {\n\t\tr.Run.Stop.Steps"},
	{name: "I3 the kill is not journaled", file: "keeper/core_stop.go", old: "\tif s.rec.Run.Stop.Killed == nil {\n\t\tnow", new: "\tif s.rec.Run.Stop.Killed == nil && len(s.rec.Run.Stop.Steps) == 0 {\n\t\tnow"},
	{name: "I3 the PID is trusted", file: "keeper/core_adopt.go", old: "\tif run.Identity.BootID != c.kernel.Now().BootID {\n", new: "\tif run.Identity.BootID == \"\" {\n"},
	{name: "I4 reaped before the end is on record", file: "keeper/core_settle.go", old: "\tif run.Phase == state.Released && s.never == (never{}) {\n\t\tif staged", new: "\t_ = s.proc.Reap()\n\tif run.Phase == state.Released && s.never == (never{}) {\n\t\tif staged"},
	{name: "I4 an unknown end is a success", file: "keeper/classify.go", old: "\tif run.MainExit == nil || run.MainExit.Status == nil {\n\t\treturn outcomeUnknown\n\t}\n", new: "\tif run.MainExit == nil || run.MainExit.Status == nil {\n\t\tzero := uint32(0)\n\t\trun.MainExit = &state.MainExit{Status: &zero}\n\t}\n"},
	{name: "I4 an end is recorded twice", file: "keeper/core_settle.go", old: "\tr.History = append(r.History, e)\n", new: "\tr.History = append(r.History, e)\n\tif e.Reason == spec.ReasonUnknown {\n\t\tr.History = append(r.History, e)\n\t}\n"},
	{name: "I4 the end of a main process is not recorded", file: "keeper/core_settle.go", old: "\tif run.MainExit == nil && s.never == (never{}) {\n\t\tif c.treeGone(s) && !s", new: "\tif run.MainExit == nil && s.never == (never{}) && run.Number == 1 {\n\t\tif c.treeGone(s) && !s"},
	{name: "I5 a stop that came too late made the end", file: "keeper/core_settle.go", old: "\tif stop := run.Stop; stop != nil && len(stop.Steps) == 0 && stop.Killed == nil {\n\t\tstop.Reason", new: "\tif stop := run.Stop; stop != nil && run.Number == 0 {\n\t\tstop.Reason"},
	{name: "I5 a step is taken for the cause of an end that came before it", file: "keeper/core_stop.go", old: "\tif s.dead && run.MainExit == nil && s.never == (never{}) {\n", new: "\tif s.dead && run.MainExit == nil && s.never == (never{}) && s.again && run.Number == 0 {\n", suite: "keeper", test: "TestStepAfterAnEndThatCannotBeRecorded"},
	{name: "I5 a recorded stop counts before its first step", file: "keeper/classify.go", old: "run.Stop == nil || len(run.Stop.Steps) == 0 && run.Stop.Killed == nil", new: "run.Stop == nil || len(run.Stop.Steps) > 99"},
	{name: "I6 a run is over with its main process", file: "keeper/core_settle.go", old: "\treturn tree.State != observe.TreePopulated\n", new: "\treturn true\n"},
	{name: "I6 what the main process left does not count", file: "keeper/core_settle.go", old: "s.exit == nil && !c.treeGone(s) ||", new: "s.exit == nil && !c.treeGone(s) && s.rec.Run.Stop != nil ||"},
	{name: "I7 what is not seen yet was removed", file: "reconcile/wish.go", old: "case !s.present && s.known && (s.mem != nil || s.atRest()):", new: "case !s.present && (s.mem != nil || s.atRest()):"},
	{name: "I8 an equal spec is a change", file: "reconcile/wish.go", old: "\tcase s.good.renews(run) && (run.SpecHash", new: "\tcase run.Generation != s.mem.Generation || s.good.renews(run) && (run.SpecHash"},
	{name: "I8 an older manifest undoes a newer one", file: "reconcile/wish.go", old: "&& !s.newest.same(s.good):", new: "&& !s.newest.same(s.good) && s.closing:"},
	{name: "I8 a secret that is as it was is another", file: "keeper/core_secrets.go", old: "if i >= 0 && now[i] != p && ", new: "if i >= 0 && "},
	{name: "DC-1 a changed secret is not told", file: "keeper/core_secrets.go", old: "\tif s.changed != changed {\n", new: "\tif s.changed != changed && changed == nil {\n"},
	{name: "DC-1 a changed secret asks for nothing", file: "reconcile/wish.go", old: "\tcase run.Changed != nil:\n", new: "\tcase run.Changed != nil && s.closing:\n"},
	{name: "EC-6 a file with a secret is read by the group", file: "keeper/linux_files.go", old: "\tif len(f.text.Parts) > 0 {\n", new: "\tif len(f.text.Parts) > 99 {\n", suite: "keeper", test: "TestFilesAreWritten"},
	{name: "BP-1 a file is written through a symlink", file: "keeper/linux_files.go", old: "\tconst resolve = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS\n", new: "\tconst resolve = unix.RESOLVE_NO_MAGICLINKS\n", suite: "keeper", test: "TestFilesFollowNoSymlink"},
	{name: "I8 a file that was ignored is a change", file: "state/files.go", old: "f.OnChange != spec.ChangeIgnore && ", new: "f.OnChange != \"\" && ", suite: "reconcile", test: "TestChangedFileRestartsOnce"},
	{name: "S12 what did not pass its check is used", file: "reconcile/proving.go", old: "\tif p.of == of && p.passed {\n", new: "\tif p.of == of && !p.flying {\n", suite: "reconcile", test: "TestBadConfigKeepsTheRun"},
	{name: "S12 a reload is proven by what was asked before it", file: "reconcile/reloading.go", old: "\tif !d.ready.ok() || !asked || !looked {\n", new: "\tif !d.ready.ok() || !asked && !looked && run.Reload == nil {\n", suite: "reconcile", test: "TestReloadThatFails"},
	{name: "S12 a reload that failed is taken for done", file: "reconcile/reloading.go", old: "\tcase d.Result != state.Sent && d.Result != state.Done, now.Uptime >= by:\n", new: "\tcase now.Uptime >= by:\n", suite: "reconcile", test: "TestReloadThatFails"},
	{name: "I9 an order about another run is carried out", file: "keeper/core_stop.go", old: "s.rec == nil || s.rec.Run == nil || s.rec.Run.ID != runID {", new: "s.rec == nil || s.rec.Run == nil {"},
	{name: "I9 a passed step is carried out", file: "keeper/core_stop.go", old: "\tcase index < last || stop.Killed != nil:\n", new: "\tcase index < 0:\n", suite: "keeper", test: "TestLadder$"},
	{name: "EC-11 a run that ends is asked", file: "keeper/core_probe.go", old: "\tif err := s.checkAddressee(); err != nil {\n\t\treturn err\n\t}\n\tlaunch", new: "\tlaunch"},
	{name: "EC-6 a proxy that asks for nothing is told the password", file: "observe/probe/proxy.go", old: "\tcase reply[0] != socksVersion || reply[1] != method && reply[1] != socksRefuses:", new: "\tcase reply[0] != socksVersion || reply[1] != method && reply[1] != socksOpen && reply[1] != socksRefuses:", suite: "observe/probe", test: "TestProxyThatWantsCredentials"},
	{name: "EC-11 what the keeper could not ask is a failure", file: "reconcile/order.go", old: "\t\treturn probe.CannotRun(err)\n", new: "\t\treturn err\n", suite: "reconcile", test: "TestProbesThatTheKeeperCannotAsk"},
	{name: "BP-6 orders before the keeper was heard", file: "reconcile/turn.go", old: "\tfacts, known := l.opts.Executor.Facts()\n", new: "\tfacts, known := l.opts.Executor.Facts()\n\tknown = true\n"},
	{name: "UID a memory is not flushed", file: "state/table.go", old: "\treturn t.journal.sync(&t.writing)\n", new: "\treturn nil\n"},
	{name: "EN-4 a record is written in place", file: "state/replace.go", old: "\tf, err := s.writeSpare(temp, slot, file, stay)\n", new: "\tif slot.file.exists {\n\t\ttemp = path\n\t\tslot.spare = slot.file\n\t}\n\tf, err := s.writeSpare(temp, slot, file, stay)\n"},
	{name: "EN-5 a record without a memory stays", file: "reconcile/wish.go", old: "(s.mem != nil || s.atRest()):", new: "s.mem != nil:", suite: "reconcile", test: "TestForgottenRecord"},
	{name: "DC-1 a stop never gets to its end", file: "reconcile/ladder.go", old: "\treturn rung{next: min(next, len(ladder))}\n", new: "\treturn rung{next: min(next, len(ladder)-1)}\n"},
	{name: "DC-1 a failed start is not tried again", file: "reconcile/backoff.go", old: "\treturn sequels[policy.Action(", new: "\tif e.Reason == spec.ReasonStartFailed {\n\t\treturn sequelFail\n\t}\n\treturn sequels[policy.Action(", suite: "reconcile", test: "TestPatienceByRules"},
	{name: "DC-1 a declared restart is the last", file: "reconcile/backoff.go", old: "spec.ExitRestart: sequelRestart", new: "spec.ExitRestart: sequelFail"},
	{name: "I5 the rules do not speak of a run that left something", file: "keeper/classify.go", old: "\tcase told[how] && action == spec.ExitComplete:", new: "\tcase told[how] && action == spec.ExitComplete && why == intentNone:"},
	{name: "I5 the rules speak of what was asked for", file: "keeper/classify.go", old: "\tcase intentStop:\n\t\treturn verdict", new: "\tcase intentStop:\n\t\tif action == spec.ExitFail {\n\t\t\treturn unasked[how]\n\t\t}\n\t\treturn verdict"},
	{name: "I5 the rules change under an end", file: "keeper/core_live.go", old: "\tif run.MainExit != nil {\n", new: "\tif run.MainExit != nil && o.RunID == \"\" {\n", suite: "keeper", test: "TestEndIsJudgedByItsRecord"},
	{name: "I5 a signal's rule does not know its exit code", file: "spec/exits.go", old: "name == signal || code != nil && *code == 128+signals[name]", new: "name == signal"},
	{name: "I8 what is complete starts again", file: "reconcile/backoff.go", old: "spec.ExitComplete: sequelComplete", new: "spec.ExitComplete: sequelRetry"},
	{name: "EN-6 a line is handed over before it is journaled", file: "keeper/core_stop.go", old: "\terr := c.edit(s, func(r *state.Record) {\n\t\tr.Run.Stop.Steps", new: "\tif isDelivered(&step) && s.hears(&step) {\n\t\tc.handOver(s, stepDelivery(s.rec.Run.ID, index, &step))\n\t}\n\terr := c.edit(s, func(r *state.Record) {\n\t\tr.Run.Stop.Steps"},
	{name: "EN-6 a step's request is another's", file: "keeper/core_stop.go", old: "Step: index}, HTTP: step.HTTP,", new: "Step: index}, HTTP: func() *spec.HTTPAction {\n\t\tif step.HTTP != nil {\n\t\t\treturn &spec.HTTPAction{Path: \"/exit\"}\n\t\t}\n\t\treturn nil\n\t}(),"},
	{name: "EN-6 a line of which nobody knows is told to be sent", file: "keeper/core_deliver.go", old: "Outcome{Result: state.Indeterminate}", new: "Outcome{Result: state.Sent}"},
	{name: "EN-6 a delivery that is on record is made again", file: "keeper/core_deliver.go", old: "\tif known := s.rec.Delivery(o.ID); known != nil {\n", new: "\tif known := s.rec.Delivery(o.ID); known != nil && known.Result == \"\" {\n"},
	{name: "EN-6 the end of a line is lost", file: "keeper/core_deliver.go", old: "\t\tif err := c.settleDelivery(s, a.ref, a.outcome); err != nil {", new: "\t\tif err := c.settleDelivery(s, a.ref, Outcome{Result: state.Done}); err != nil {"},
	{name: "EN-3 a line to a run that is being stopped", file: "keeper/core_deliver.go", old: "\tcase run.Stop != nil:\n", new: "\tcase run.Stop != nil && run.Stop.Killed != nil:\n"},
	{name: "I2 a program is released before its identity is on record", file: "keeper/core_program.go", old: "\tif err := c.editProgram(s, ref, func(j *state.Program) { j.Identity = &identity }); err != nil {\n", new: "\tif err := error(nil); err != nil {\n"},
	{name: "EN-6 a command that is on record is done again", file: "keeper/core_do.go", old: "\tif known := s.delivery(o.ID); known != nil {\n", new: "\tif known := s.delivery(o.ID); known != nil && known.Result == \"\" {\n"},
	{name: "I9 a command is done beside another run", file: "keeper/core_do.go", old: "\tif err := s.check(o.RunID, nil); err != nil {\n\t\treturn err\n\t}\n", new: ""},
	{name: "EN-3 what is only asked about is done", file: "keeper/core_do.go", old: "\tif o.Recall {\n", new: "\tif o.Recall && o.Command == \"\" {\n"},
	{name: "EN-6 a program of which nobody knows is told to be done", file: "keeper/core_program.go", old: "\t\treturn Outcome{Result: state.Indeterminate, Reason: string(spec.ReasonUnknown)}\n", new: "\t\treturn Outcome{Result: state.Done}\n"},
	{name: "EN-6 a program that never ran is told to have failed", file: "keeper/core_program.go", old: "\t\treturn Outcome{Result: state.Undeliverable, Reason: p.never}\n", new: "\t\treturn Outcome{Result: state.Failed, Reason: p.never}\n"},
	{name: "I6 a program is over with its main process", file: "keeper/core_program.go", old: "\tif err != nil || tree.State != observe.TreePopulated {\n\t\treturn err == nil, err\n\t}\n", new: "\tif err != nil || tree.State != \"\" {\n\t\treturn err == nil, err\n\t}\n"},
	{name: "I6 a run is over while its program lives", file: "keeper/core_settle.go", old: "return len(s.openPrograms()) > 0 || len(", new: "return len(", suite: "keeper", test: "TestStuckProgramIsNotOver"},
	{name: "I6 a run is over while the program of a probe lives", file: "keeper/core_settle.go", old: " > 0 || len(s.probes) > 0 }", new: " > 0 }", suite: "keeper", test: "TestStuckProbeProgram"},
	{name: "EC-7 what a dead keeper's probe has left stays", file: "keeper/core_adopt.go", old: "\t\ts.findProbes(folders)\n", new: "", suite: "keeper", test: "TestProbeProgramSurvivesCrashes"},
	{name: "EC-11 the end of a run is a failure of its probe", file: "keeper/core_probeprogram.go", old: "run == nil || run.Stop != nil || run.MainExit != nil || s.dead:", new: "run == nil && s.dead:", suite: "keeper", test: "TestProbeProgram$"},
	{name: "EC-7 what is left of all programs but one is forgotten", file: "keeper/core_program.go", old: "folders[p.ID] {\n", new: "folders[p.ID] && len(all) == 0 {\n", suite: "keeper", test: "TestWhatIsLeftOfAProgram"},
	{name: "I1 a run starts while a command needs rest", file: "keeper/core_start.go", old: "\tif len(s.openPrograms()) > 0 {\n\t\treturn refuse(CheckBusy", new: "\tif len(s.openPrograms()) > 9 {\n\t\treturn refuse(CheckBusy"},
	{name: "I1 another profile starts while a command needs rest", file: "keeper/core_start.go", old: "\t\tif len(f.Programs()) > 0 && f.Run.Over() {\n", new: "\t\tif len(f.Programs()) > 9 && f.Run.Over() {\n"},
	{name: "I3 a program is killed before its time is over", file: "keeper/core_program.go", old: "\tover := c.kernel.Now().Uptime >= deadline(e.Program)\n", new: "\tover := c.kernel.Now().Uptime >= deadline(e.Program)-2*time.Second\n"},
	{name: "I3 a program is killed before that is on record", file: "keeper/core_program.go", old: "\tif over && !e.TimedOut {\n", new: "\tif over && !e.TimedOut && e.Number > 9 {\n"},
	{name: "I4 a program is reaped before its end is on record", file: "keeper/core_program.go", old: "\tif ended {\n\t\tp.exit = &end\n", new: "\tif ended {\n\t\t_ = p.proc.Reap()\n\t\tp.exit = &end\n"},
	{name: "DC-1 a program has all the time in the world", file: "keeper/core_program.go", old: "\tif !over && !p.orphan {\n", new: "\tif !p.orphan {\n"},
	{name: "EC-3 what runs is ended for what cannot run", file: "keeper/core_stop.go", old: "if o.Next != nil && run.MainExit == nil {", new: "if o.Next != nil && run.MainExit != nil {"},
	{name: "EC-11 a run is ended for another's silence", file: "reconcile/probing.go", old: "if p.runID != c.RunID || q.probe != c.Probe || q.players", new: "if q.probe != c.Probe || q.players", suite: "reconcile", test: "TestLivenessIsOfOneRun"},
	{name: "EC-11 it is asked whether it lives before it was Ready", file: "reconcile/probing.go", old: "if why != spec.ForReadiness && run.ReadyAt.IsZero() {", new: "if why != spec.ForReadiness && run.StartedAt.IsZero() {"},
	{name: "EC-11 it is asked whether it lives while it ends", file: "reconcile/probing.go", old: "if !s.heard || d.sit != up || s.probing", new: "if !s.heard || s.probing"},
	{name: "EC-11 one failure is enough", file: "observe/probe/threshold.go", old: "if t.inRow < max(threshold, 1) {", new: "if t.inRow < min(max(threshold, 1), 1) {"},
	{name: "EC-11 failures need not be in a row", file: "observe/probe/threshold.go", old: "\tif success == t.Passing {\n\t\tt.inRow = 0\n", new: "\tif success == t.Passing {\n", suite: "observe/probe", test: "TestTally"},
	{name: "EC-11 a probe that could not be carried out is a failure", file: "reconcile/probing.go", old: "\tcase probe.NotRun(err):\n", new: "\tcase probe.NotRun(err) && c.For != spec.ForLiveness:\n"},
	{name: "EC-11 a start is cut short", file: "reconcile/ailing.go", old: "now.Uptime < by {", new: "now.Uptime < by-2*time.Second {", suite: "reconcile", test: "TestStartDeadline"},
	{name: "EC-11 a run is Ready before it was seen to listen", file: "reconcile/ready.go", old: "\tcase heard.reason == endpointsPending:\n", new: "\tcase heard.reason == \"\":\n"},
	{name: "EC-11 a run is Ready and nobody listens", file: "reconcile/ready.go", old: "\tcase heard.status == conditionFalse:\n", new: "\tcase heard.status == \"\":\n"},
	{name: "EC-11 a run is Ready once it is started", file: "keeper/core_start.go", old: "l.Readiness == nil && len(l.Endpoints) == 0 {", new: "l.Readiness == nil {"},
	{name: "EC-11 a port is claimed twice by starts", file: "reconcile/plan.go", old: "\tif s.contest != nil {\n", new: "\tif s.contest != nil && s.closing {\n"},
	{name: "EC-11 a port is claimed twice by a change", file: "reconcile/plan.go", old: "(again || act == live || act == reload):", new: "again:"},
	{name: "S24 a run begins before what its server depends on", file: "reconcile/plan.go", old: "\tif s.awaits != nil {\n", new: "\tif s.awaits != nil && s.closing {\n"},
	{name: "S24 a run is replaced before what its server depends on", file: "reconcile/plan.go", old: "\tcase s.awaits != nil && again:\n", new: "\tcase s.awaits != nil && s.closing:\n", suite: "reconcile", test: "TestDependencyGatesStarts"},
	{name: "S24 those that depend on it are not waited for at the end", file: "reconcile/plan.go", old: "case len(s.first) > 0 &&", new: "case len(s.first) > 9 &&", suite: "reconcile", test: "TestDependentsEndFirst"},
	{name: "I8 the old spec is started before the new one is durable", file: "reconcile/plan.go", old: "s.doubtful || s.recording ||", new: "s.doubtful ||", suite: "reconcile", test: "TestEditWhileNobodyRan"},
	{name: "I8 what was being removed is started again", file: "reconcile/plan.go", old: "s.recording || s.removing()", new: "s.recording", suite: "reconcile", test: "TestRemovalGoesOnOverOurRestart"},
	{name: "S23 nobody knows how many play, and a change is made", file: "reconcile/disruption.go", old: "!crowd.known:", new: "s.closing:", suite: "reconcile", test: "TestPeopleFirst"},
	{name: "S23 a change does not wait for its window", file: "reconcile/disruption.go", old: "\t\tif open {\n", new: "\t\tif !open {\n", suite: "reconcile", test: "TestWindows"},
	{name: "S23 a scheduled restart does not wait for people", file: "reconcile/plan.go", old: "act == stop && d.scheduled(s))", new: "act == stop && s.closing)", suite: "reconcile", test: "TestScheduledRestartWaitsForPeople"},
	{name: "S23 a change does not wait for what is announced of it", file: "reconcile/plan.go", old: "!s.granted || d.gate != \"\" || d.announce(s, run, now) {", new: "d.announce(s, run, now) && s.closing || !s.granted || d.gate != \"\" {", suite: "reconcile", test: "TestChangeIsAnnounced"},
	{name: "S23 people have less time than they were told, as we were away", file: "reconcile/countdown.go", old: "s.inherited && passed > 0", new: "s.inherited && passed < 0", suite: "reconcile", test: "TestAnnouncementsSurviveUs"},
	{name: "S23 the next run hears what was announced to the last", file: "reconcile/jobask.go", old: "!l.stillAnnounces(j.server, m.Origin):", new: "l.closing:", suite: "reconcile", test: "TestNextRunHearsNothing"},
	{name: "S23 what is announced comes although people have come", file: "reconcile/countdown.go", old: "d.forbidden != nil && d.forbidden.unknown", new: "d.forbidden != nil", suite: "reconcile", test: "TestAnnouncementsArePutOff"},
	{name: "S6 a schedule overlaps itself", file: "reconcile/scheduling.go", old: "ofSchedule(schedule) && !j.mem.Phase.Over()", new: "ofSchedule(schedule) && j.mem.Phase == \"\"", suite: "reconcile", test: "TestScheduleNeverOverlaps"},
	{name: "BP-12 a job is made before its time is on record", file: "reconcile/scheduling.go", old: "\tfor i := range s.mem.Schedules { // what is on record, and still is to be done\n\t\tm := &s.mem.Schedules[i]\n\t\tstill := slices.ContainsFunc(s.timetable, func(n Scheduled) bool { return n.Name == m.Name && n.Due != nil && m.Due != nil && *n.Due == *m.Due })\n", new: "\tfor i := range s.timetable {\n\t\tm := &s.timetable[i]\n\t\tstill := m.Due != nil\n", suite: "reconcile", test: "TestScheduleIsRecordedFirst"},
	{name: "BP-12 what has come of a schedule is forgotten with us", file: "reconcile/schedule.go", old: "\t\t\t\tnext = m\n", new: "\t\t\t\tnext.Last, next.Missed = m.Last, m.Missed\n", suite: "reconcile", test: "TestScheduleCatchesUp|TestScheduleMakesJobs"},
	{name: "DC-1 missed times are told by nobody", file: "reconcile/scheduling.go", old: "if before < 0 || m.Missed <= was[before].Missed {", new: "if before < 0 || m.Missed > was[before].Missed {", suite: "reconcile", test: "TestScheduleCatchesUp"},
	{name: "S24 servers wait for themselves", file: "reconcile/depend.go", old: "\t\tif s.res.good == nil {\n", new: "\t\tif s.res.good != nil {\n", suite: "reconcile", test: "TestDependencyCycle"},
	{name: "EC-11 a port is claimed by nobody until its run is seen", file: "reconcile/ledger.go", old: "\tif s.asksToStart() || s.asksToApply() {\n", new: "\tif s.closing {\n"},
	{name: "I5 a failed probe is what was asked for", file: "keeper/classify.go", old: "\tcase spec.ReasonLivenessFailed, spec.ReasonStartDeadlineExceeded:\n\t\treturn intentLiveness, r\n", new: "\tcase spec.ReasonLivenessFailed, spec.ReasonStartDeadlineExceeded:\n\t\treturn intentStop, r\n"},
	{name: "BP-9 restart does not follow the newest spec", file: "reconcile/plan.go", old: "f != nil && (!s.granted ||", new: "f != nil && (s.closing ||", suite: "reconcile", test: "TestRestartFollowsTheNewestSpec"},
	{name: "I12 declared restarts have no floor", file: "reconcile/backoff.go", old: "p.quick > restartsAtOnce", new: "p.quick > 1<<30", suite: "reconcile", test: "TestDeclaredRestartsHaveAFloor"},
	{name: "I3 another process of the same number is the recorded one", file: "observe/proc/identity.go", old: "\t\tif ino != id.PidfdInode {\n", new: "\t\tif ino == 0 {\n", suite: "observe/proc", test: "TestOpenRefusesWhatIsNotTheProcess|TestReusedNumber"},
	{name: "I4 an exit is taken from the kernel before it is recorded", file: "observe/proc/exit.go", old: "wait.Exited|wait.NoWait|wait.NoHang", new: "wait.Exited|wait.NoHang", suite: "observe/proc", test: "TestExitOfAChild|TestReapKeepsTheExit"},
	{name: "I4 the anchor lets go of a child whose end it tells", file: "keeper/anchor/shelf.go", old: "options |= wait.NoWait", new: "options |= 0", suite: "keeper/anchor", test: "TestEndsOfChildren"},
	{name: "BP-11 a command begins that was withdrawn", file: "reconcile/jobcommand.go", old: "\tcase step.Stage != StageAfter && (withdrawn || failed):\n", new: "\tcase step.Stage != StageAfter && failed:\n"},
	{name: "BP-11 a restart begins that was withdrawn", file: "reconcile/wish.go", old: "r.Job == \"\" || r.Job != s.void || run.Stop != nil", new: "r.Job == \"\" || r.Job != \"\" || run.Stop != nil"},
	{name: "BP-12 a restart is of whichever run there is", file: "reconcile/ask.go", old: "if q.action == ActionRestart && !q.job.On.is(last) {", new: "if q.action == ActionRestart && q.job.On == nil {"},
	{name: "BP-12 an attempt is carried out again and again", file: "reconcile/ask.go", old: "\t\tnext.LastJob = q.job.id()\n", new: ""},
	{name: "BP-12 a command is for whichever run there is", file: "reconcile/jobcommand.go", old: "live := j.d.sit == up && run.ID == m.On.Run && j.d.lane", new: "live := j.d.sit == up && j.d.lane"},
	{name: "DC-1 a job keeps its server from running", file: "reconcile/job.go", old: "\tif s.mem == nil {\n\t\treturn false\n\t}\n\tif s.pause == nil ||", new: "\tif s.mem == nil || s.pause == nil {\n\t\treturn false\n\t}\n\tif s.pause == nil ||"},
	{name: "EN-6 a command is carried out again after a reset", file: "reconcile/jobcommand.go", old: "\tif ordered.BootID != now.BootID {\n\t\treturn true\n\t}\n", new: "", suite: "reconcile", test: "TestAtMostOnce"},
	{name: "EN-6 a command is carried out again that the journal has lost", file: "reconcile/jobcommand.go", old: "len(f.Deliveries) >= state.DeliveryLimit", new: "len(f.Deliveries) > state.DeliveryLimit", suite: "reconcile", test: "TestAtMostOnce"},
	{name: "BP-12 a job changes with its file", file: "reconcile/jobask.go", old: "\t\tif !f.same {\n", new: "\t\tif !f.same && f.name == \"\" {\n", suite: "reconcile", test: "TestJobIsImmutable"},
	{name: "EC-6 a secret that somebody writes is on record", file: "keeper/core_written.go", old: "text, err = c.kernel.Redact(run, c.Host(), line)", new: "text, err = line, nil", suite: "keeper", test: "TestLinesAreOnRecord"},
	{name: "EC-6 what a terminal does not show is on record", file: "keeper/core_written.go", old: "case l.hidden || !shown ||", new: "case l.hidden ||", suite: "keeper", test: "TestTypedLines"},
	{name: "EC-6 a password for a terminal is on record", file: "keeper/core_written.go", old: "\tcase o.Mute:\n", new: "\tcase o.Mute && len(line) == 0:\n", suite: "keeper", test: "TestLineForAPassword"},
	{name: "EN-6 a line is handed over before its text is on record", file: "keeper/core_deliver.go", old: "c.journal(s, d, c.lineBefore(s, d, o.Line)...)", new: "c.journal(s, d)", suite: "keeper", test: "TestLinesAreOnRecord"},
	{name: "EN-5 the text of deliveries grows for ever", file: "state/written.go", old: "\tfor size > WrittenLimit {\n", new: "\tfor size < 0 {\n", suite: "state", test: "TestWrittenIsBounded"},
	{name: "EC-11 who has gone meanwhile is a stranger", file: "keeper/linux_rails.go", old: "\t\tcase slices.Equal(sockets, strange):\n", new: "\t\tcase slices.Equal(strange, strange):\n", suite: "keeper", test: "TestOwnReceivers"},
	{name: "I7 an incomplete scan removes", file: "spec/dir/state.go", old: "func (c cause) counts() bool { return c == complete ||", new: "func (c cause) counts() bool { return c.saw() || c == complete ||", suite: "spec/dir", test: "TestOnlyACompleteScanRemoves"},
	{name: "I7 one scan is enough to remove", file: "spec/dir/removal.go", old: "\t\tif rested && scan.start.Sub(since) >= confirmGap {\n", new: "\t\tif rested || scan.start.Sub(since) >= confirmGap {\n", suite: "spec/dir", test: "TestRemovalNeedsTwoScans|TestDeletionIsJudgedAtRest"},
}

// TestMutants puts each fault into the shipped source, one at a time, and expects the simulation to fail.
func TestMutants(t *testing.T) {
	root, err := filepath.Abs("../../../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutants {
		t.Run(strings.ReplaceAll(m.name, " ", "-"), func(t *testing.T) {
			t.Parallel() // each is one thread most of the time
			dir := t.TempDir()
			binary := filepath.Join(dir, "sim.test")
			build := exec.Command("go", "test", "-c", "-o", binary, "-overlay", overlay(t, dir, root, m), m.dir())
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("the mutant does not build: %v\n%s", err, out)
			}
			run := exec.Command(binary, m.args()...)
			run.Dir = m.dir()
			out, err := run.CombinedOutput()
			if err == nil {
				t.Fatal("nothing sees it")
			}
			mark := []byte("seed ")
			if m.suite != "" {
				mark = []byte("--- FAIL: ")
			}
			_, said, ok := bytes.Cut(out, mark)
			if !ok {
				t.Fatalf("it fails for another reason:\n%s", out)
			}
			said, _, _ = bytes.Cut(said, []byte("\n"))
			t.Logf("%s%s", mark, said)
		})
	}
}

// dir is where the package lies whose tests must fail.
func (m mutant) dir() string {
	if m.suite == "" {
		return "."
	}
	return filepath.Join("../../../..", m.suite)
}

func (m mutant) args() []string {
	if m.suite == "" {
		return []string{"-test.run", "^TestSimulation$", "-sim.whole", "-sim.steps", "1000000", "-test.timeout", "30m"}
	}
	return []string{"-test.run", "^(" + m.test + ")", "-test.timeout", "30m"}
}

// overlay writes the mutated file and the list that puts it in place of the shipped one.
func overlay(t *testing.T, dir, root string, m mutant) string {
	t.Helper()
	file := filepath.Join(root, m.file)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(text, []byte(m.old)); n != 1 {
		t.Fatalf("%s has %d places like the one that the mutant changes: renew the mutant", m.file, n)
	}
	mutated := filepath.Join(dir, "mutated.go")
	if err := os.WriteFile(mutated, bytes.Replace(text, []byte(m.old), []byte(m.new), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	list, err := json.Marshal(map[string]any{"Replace": map[string]string{file: mutated}})
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(name, list, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}
