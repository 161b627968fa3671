package spec

import (
	"slices"
	"strings"
)

// The conditions of a [Dependency].
const (
	DependReady     = "Ready"     // of a Server
	DependRunning   = "Running"   // of a Server: its process lives
	DependSucceeded = "Succeeded" // of a Job
)

// String is the kind and the name, as a client names an object.
func (d Dependency) String() string { return strings.ToLower(d.Kind) + "/" + d.Name }

// dependencies are a server's, with every default filled in.
func dependencies(list []Dependency) []Dependency {
	out := slices.Clone(list)
	for i := range out {
		d := &out[i]
		d.Kind = or(d.Kind, KindServer)
		if d.Condition == "" {
			d.Condition = DependReady
			if d.Kind == KindJob {
				d.Condition = DependSucceeded
			}
		}
	}
	return out
}

// Order is what servers wait for before they are started: it finds those that would wait for themselves.
type Order struct {
	// Launches are those of all servers, by their keys. A server of another one's dependencies that is missing leads on nowhere.
	Launches map[Key]*Launch
	// Job is a job that may still have to be done; nil = there is none of this name.
	Job func(Key) *JobSpec
}

// Cycles answers for each server that waits for itself with a fault that names the way back to it. It takes time in
// proportion to the dependencies, but for those on cycles.
func (o Order) Cycles() map[Key]Fault {
	left := o.tangled()
	cycles := map[Key]Fault{}
	for k := range left {
		if way := o.wayBack(k, left); way != "" {
			cycles[k] = Fault{Field: "spec.dependsOn", Kind: FaultInvalid, Detail: "must not lead back to the server itself, as " + way + " does: take one of these out"}
		}
	}
	return cycles
}

// edge is a dependency that leads to a server.
type edge struct {
	to  Key
	via string // what is depended on, as its author wrote it
}

// edges are the ways on from a server: to each that it waits for, and for a job that needs a run, to that run's.
func (o Order) edges(from Key) (out []edge) {
	launch := o.Launches[from]
	if launch == nil {
		return nil
	}
	for _, d := range launch.DependsOn {
		to := Key{Namespace: from.Namespace, Name: d.Name}
		if d.Kind == KindJob {
			job := o.Job(to)
			if job == nil {
				continue
			}
			if to = job.ServerKey(from.Namespace); !o.needsRun(job, to) {
				continue
			}
		}
		if o.Launches[to] != nil {
			out = append(out, edge{to, d.String()})
		}
	}
	return out
}

// needsRun reports whether a job can do nothing before its server runs.
func (o Order) needsRun(job *JobSpec, server Key) bool {
	if job.Kind() == JobRestart {
		return true
	}
	launch := o.Launches[server]
	if launch == nil || job.Kind() != JobCommand {
		return false
	}
	command := launch.Command(job.Command)
	return command != nil && (command.Requires == RequiresRunning || command.Exec == nil)
}

// tangled are the servers that are on a cycle or between two: all others go one by one, from either end.
func (o Order) tangled() map[Key]bool {
	left, out, in := map[Key]bool{}, map[Key][]Key{}, map[Key][]Key{}
	var loose []Key
	for k := range o.Launches {
		for _, e := range o.edges(k) {
			out[k], in[e.to] = append(out[k], e.to), append(in[e.to], k)
		}
	}
	ins, outs := map[Key]int{}, map[Key]int{}
	for k := range o.Launches {
		if len(out[k])+len(in[k]) == 0 {
			continue
		}
		left[k] = true
		if ins[k], outs[k] = len(in[k]), len(out[k]); ins[k] == 0 || outs[k] == 0 {
			loose = append(loose, k)
		}
	}
	for len(loose) > 0 {
		k := loose[len(loose)-1]
		loose = loose[:len(loose)-1]
		if !left[k] {
			continue
		}
		delete(left, k)
		for _, to := range out[k] {
			if ins[to]--; ins[to] == 0 {
				loose = append(loose, to)
			}
		}
		for _, from := range in[k] {
			if outs[from]--; outs[from] == 0 {
				loose = append(loose, from)
			}
		}
	}
	return left
}

// wayBack is the shortest way from a server to itself, in words; "" = there is none.
func (o Order) wayBack(start Key, within map[Key]bool) string {
	type step struct {
		at  Key
		way string
	}
	seen := map[Key]bool{}
	for todo := []step{{start, "server/" + start.Name}}; len(todo) > 0; todo = todo[1:] {
		for _, e := range o.edges(todo[0].at) {
			way := todo[0].way + " -> " + e.via
			if e.via != "server/"+e.to.Name {
				way += " -> server/" + e.to.Name
			}
			if e.to == start {
				return way
			}
			if within[e.to] && !seen[e.to] {
				seen[e.to] = true
				todo = append(todo, step{e.to, way})
			}
		}
	}
	return ""
}
