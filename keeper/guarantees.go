package keeper

import (
	"reconciler.dev/reconciler/observe/proc"
	"reconciler.dev/reconciler/spec"
)

// The tiers of a guarantee.
const (
	tierKernel   = "Kernel"   // the kernel itself keeps the promise
	tierEmulated = "Emulated" // we do, by looking
	tierWeak     = "Weak"     // as well as can be
)

// guarantees is what this host lets us promise, and what it does not.
func (k *linux) guarantees() []spec.Guarantee {
	return guaranteesOf(k.proc.Features, k.cgroups != nil, k.anchored())
}

// guaranteesOf is what a kernel of these features lets us promise; cgroups says whether runs have some of their own, anchored whether an
// anchor is there. A promise that the kernel keeps has no exception in its note.
func guaranteesOf(has proc.Features, cgroups, anchored bool) []spec.Guarantee {
	g := []spec.Guarantee{
		{Name: "NothingRunsUnrecorded", Tier: tierKernel, Note: "a start waits at a stage until its record is written"},
		{Name: "OutputSurvives", Tier: tierKernel, Note: "standard files are FIFOs that need no living reader"},
		{Name: "Identity", Tier: tierKernel},
		{Name: "WholeTree", Tier: tierKernel},
		{Name: "ExitAfterKeeperDeath", Tier: tierEmulated, Note: "no anchor is there: the next keeper learns of every exit that it lives to see; one while no keeper is there may stay unknown"},
		{Name: "Orphans", Tier: tierKernel},
		{Name: "Endpoints", Tier: tierKernel, Note: "by the kernel's tables of sockets, and what each process has open"},
	}
	weaken := func(name, tier, note string) {
		for i := range g {
			if g[i].Name == name {
				g[i].Tier, g[i].Note = tier, note
			}
		}
	}
	if !has.PidfdInode {
		weaken("Identity", tierEmulated, "by boot, number and start time: this kernel has no pidfs")
	}
	switch {
	case !cgroups:
		weaken("WholeTree", tierWeak, "no cgroups for runs here: descendants that leave session and standard files may be missed")
	case !has.CgroupKill:
		weaken("WholeTree", tierEmulated, "this kernel has no cgroup.kill: processes are killed one by one")
	case !has.CloneIntoCgroup:
		weaken("WholeTree", tierKernel, "processes are moved into their cgroup before they are released")
	}
	switch {
	case anchored:
		weaken("ExitAfterKeeperDeath", tierEmulated, "the anchor keeps how a run has ended until a keeper has recorded it; unknown only where both have died")
	case has.PidfdInfoExit:
	case has.Ptrace:
		weaken("ExitAfterKeeperDeath", tierWeak, "no anchor is there: read off zombies, known only while nobody else reaps them")
	default:
		weaken("ExitAfterKeeperDeath", tierWeak, "no anchor is there: after the keeper's death most exits stay unknown on this kernel")
	}
	if !has.Subreaper {
		weaken("Orphans", tierWeak, "orphans of runs do not come to us")
	}
	if !has.Ptrace {
		weaken("Endpoints", tierWeak, "of another user's process, and of one that gained capabilities by its executable, it may not be seen which sockets it has: its endpoints are Unknown and do not count for Ready")
	}
	return g
}
