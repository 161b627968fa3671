package keeper

import (
	"slices"

	"golang.org/x/sys/unix"
)

// inside tells which of the live runs a process belongs to, by what the kernel says alone: never by its environment, its directory or its
// parents (EN-8). A number proves nothing of who had it a moment ago, so who is not a main process that we have not reaped needs a
// pidfd from the kernel (SO_PEERPIDFD, SCM_PIDFD: Linux 6.5), which is asked last whether the process is still the one.
func (k *linux) inside(who peer, live []Place) (Place, bool) {
	if i := slices.IndexFunc(live, func(p Place) bool { return p.Main != nil && p.Main.PID == who.pid }); i >= 0 && k.isMain(who, live[i]) {
		return live[i], true
	}
	if who.pidfd < 0 {
		return Place{}, false
	}
	place, found := k.insideCgroup(who.pid, live)
	if !found {
		place, found = k.insideSession(who.pid, live)
	}
	same := unix.PidfdSendSignal(who.pidfd, 0, nil, 0) != unix.ESRCH
	return place, found && same
}

// isMain reports whether a process of a run's main process's number is that one.
func (k *linux) isMain(who peer, of Place) bool {
	var st unix.Stat_t
	if who.pidfd >= 0 && of.Main.PidfdInode != 0 && unix.Fstat(who.pidfd, &st) == nil {
		return st.Ino == of.Main.PidfdInode
	}
	return k.isUnreaped(who.pid)
}

// isUnreaped reports whether a number is that of a main process which was not reaped, so that nobody else has it.
func (k *linux) isUnreaped(pid int) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, ok := k.mains[pid]
	return ok
}

func (k *linux) insideCgroup(pid int, live []Place) (Place, bool) {
	if k.cgroups == nil {
		return Place{}, false
	}
	runs := k.cgroups.RunsOf(pid)
	i := slices.IndexFunc(live, func(p Place) bool { return p.Cgroup != "" && slices.Contains(runs, p.RunID) })
	if i < 0 {
		return Place{}, false
	}
	g, err := k.cgroup(live[i])
	if err != nil {
		return Place{}, false
	}
	members, err := g.Members()
	return live[i], err == nil && slices.Contains(members, pid)
}

// insideSession finds a process of a run without a cgroup: whoever is in the session that its living main process leads.
func (k *linux) insideSession(pid int, live []Place) (Place, bool) {
	session, err := unix.Getsid(pid)
	if err != nil || !k.isUnreaped(session) {
		return Place{}, false
	}
	i := slices.IndexFunc(live, func(p Place) bool { return p.Cgroup == "" && p.Main != nil && p.Main.PID == session })
	if i < 0 {
		return Place{}, false
	}
	return live[i], true
}
