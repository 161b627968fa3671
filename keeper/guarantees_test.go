package keeper

import (
	"regexp"
	"testing"

	"reconciler.dev/reconciler/observe/proc"
	"reconciler.dev/reconciler/spec"
)

// Whatever a kernel can and cannot do: a promise that the kernel is said to keep has no exception, and one that it does not says what is missing.
func TestGuaranteesSayWhatTheyAre(t *testing.T) {
	exception := regexp.MustCompile(`\b(may|unknown|only|most|missed|not)\b`)
	rank := map[string]int{tierKernel: 3, tierEmulated: 2, tierWeak: 1}
	for bits := range 1 << 8 {
		on := func(i int) bool { return bits>>i&1 == 1 }
		has := proc.Features{
			PidfdInode: on(0), PidfdInfo: on(1), PidfdInfoExit: on(1), CgroupKill: on(2), CloneIntoCgroup: on(3), Ptrace: on(4), Subreaper: on(5), Cgroups: on(6),
		}
		seen := map[string]spec.Guarantee{}
		for _, g := range guaranteesOf(has, on(6), on(7)) {
			seen[g.Name] = g
			switch {
			case rank[g.Tier] == 0:
				t.Errorf("%+v: %s is %q", has, g.Name, g.Tier)
			case g.Tier == tierKernel && exception.MatchString(g.Note):
				t.Errorf("%+v: %s is the kernel's, and yet %q", has, g.Name, g.Note)
			case g.Tier != tierKernel && g.Note == "":
				t.Errorf("%+v: %s is %s and does not say what is missing", has, g.Name, g.Tier)
			}
		}
		// An exit while no keeper is there goes to whoever reaps orphans, and no kernel keeps it for us: the anchor does, if it lives.
		if exit := seen["ExitAfterKeeperDeath"]; exit.Tier == tierKernel || (exit.Tier == tierEmulated) != (has.PidfdInfoExit || on(7)) {
			t.Errorf("%+v: %+v", has, exit)
		}
		if tree := seen["WholeTree"]; tree.Tier == tierKernel && !(on(6) && has.CgroupKill) {
			t.Errorf("%+v: %+v", has, tree)
		}
	}
}
