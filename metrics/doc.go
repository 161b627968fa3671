// Package metrics tells Prometheus what the reconciler knows.
//
// It owns the names, labels and help texts of every series. It holds no state of its own but what the loop's meter has
// counted since the start of this process: each scrape reads the newest snapshot, so that a removed server's series are
// gone with it, and what must survive a restart is counted where it is kept, in the records.
//
// It promises: every series of a server exists from its first snapshot on, at zero where it counts; labels are
// namespace, server, profile and words of closed lists, and no PID, path, user, argument or hash (I10, a git revision is
// none); a scrape never waits for the loop, and for what the keeper measures no longer than the caller of [Usage] does.
package metrics
