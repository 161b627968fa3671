package spec

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// orderOf reads "a: b job/m, b: c" as servers and what they depend on. Each job is a command of the server it is listed for.
func orderOf(text string, jobs map[string]*JobSpec) Order {
	o := Order{Launches: map[Key]*Launch{}, Job: func(k Key) *JobSpec { return jobs[k.Name] }}
	for line := range strings.SplitSeq(text, ", ") {
		name, on, _ := strings.Cut(line, ":")
		l := &Launch{Commands: []LaunchCommand{
			{Name: "live", LaunchAction: LaunchAction{Exec: &LaunchExec{}}, Requires: RequiresRunning},
			{Name: "dead", LaunchAction: LaunchAction{Exec: &LaunchExec{}}, Requires: RequiresStopped},
			{Name: "said", LaunchAction: LaunchAction{Console: &ConsoleAction{}}, Requires: RequiresAny},
		}}
		for d := range strings.FieldsSeq(on) {
			if job, is := strings.CutPrefix(d, "job/"); is {
				l.DependsOn = append(l.DependsOn, Dependency{Kind: KindJob, Name: job})
				continue
			}
			l.DependsOn = append(l.DependsOn, Dependency{Name: d})
		}
		l.DependsOn = dependencies(l.DependsOn)
		o.Launches[Key{DefaultNamespace, name}] = l
	}
	return o
}

// Every server on a cycle is told its way back, and no other is.
func TestCycles(t *testing.T) {
	jobs := map[string]*JobSpec{
		"live": {Server: "b", Command: "live"}, "dead": {Server: "b", Command: "dead"}, "said": {Server: "b", Command: "said"}, "again": {Server: "b", Type: JobRestart},
	}
	for _, c := range []struct {
		order string
		want  []string
	}{
		{"a:, b:", nil},
		{"a: b, b: c, c:", nil},
		{"a: b c, b: d, c: d, d:", nil},
		{"a: gone job/gone", nil},
		{"a: b, b: a", []string{"server/a -> server/b -> server/a", "server/b -> server/a -> server/b"}},
		{"a: b, b: c, c: b, d: a, e: d", []string{"server/b -> server/c -> server/b", "server/c -> server/b -> server/c"}},
		{"a: b, b: a, c: a d, d: e, e: d", []string{
			"server/a -> server/b -> server/a", "server/b -> server/a -> server/b", "server/d -> server/e -> server/d", "server/e -> server/d -> server/e"}},
		{"a: b, b: c, c: d a, d: a", []string{
			"server/a -> server/b -> server/c -> server/a", "server/b -> server/c -> server/a -> server/b",
			"server/c -> server/a -> server/b -> server/c", "server/d -> server/a -> server/b -> server/c -> server/d"}},
		{"b: job/dead", nil},
		{"b: job/live", []string{"server/b -> job/live -> server/b"}},
		{"b: job/said", []string{"server/b -> job/said -> server/b"}},
		{"a: job/again, b: a", []string{"server/a -> job/again -> server/b -> server/a", "server/b -> server/a -> job/again -> server/b"}},
	} {
		var got []string
		cycles := orderOf(c.order, jobs).Cycles()
		for _, k := range slices.SortedFunc(maps.Keys(cycles), func(a, b Key) int { return strings.Compare(a.Name, b.Name) }) {
			text, _ := strings.CutPrefix(cycles[k].Detail, "must not lead back to the server itself, as ")
			text, _ = strings.CutSuffix(text, " does: take one of these out")
			got = append(got, text)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s:\n got %q\nwant %q", c.order, got, c.want)
		}
	}
}

// A long chain and a wide star are no cycles, however many there are.
func BenchmarkCycles(b *testing.B) {
	var chain strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&chain, "s%d: s%d hub, ", i, i+1)
	}
	o := orderOf(chain.String()+"s10000:, hub:", nil)
	b.ResetTimer()
	for b.Loop() {
		if n := len(o.Cycles()); n != 0 {
			b.Fatal(n)
		}
	}
}
