package cli

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"reconciler.dev/reconciler/cmd/reconciler/internal/api"
	"reconciler.dev/reconciler/spec"
)

func newDescribe(e *env) *cobra.Command {
	var p place
	var scope scopeFlags
	cmd := &cobra.Command{
		Use:     "describe server|profile|job NAME",
		Short:   "Tell all that is known of one server, profile or job",
		Example: "  reconciler describe server town\n  reconciler describe profile/openttd",
		RunE: func(cmd *cobra.Command, args []string) error {
			resource, name, err := describeTarget(args)
			if err != nil {
				return err
			}
			k, err := key(scope.namespace, name)
			if err != nil {
				return err
			}
			if resource == api.Jobs {
				return describeJob(cmd.Context(), e, p, k)
			}
			if resource == api.Profiles {
				return describeProfile(cmd.Context(), e, p, k)
			}
			return describeServer(cmd.Context(), e, p, k)
		},
	}
	placeFlags(cmd, &p)
	namespaceFlag(cmd, &scope)
	return cmd
}

func describeTarget(args []string) (resource, name string, err error) {
	if len(args) == 1 {
		kind, rest, found := strings.Cut(args[0], "/")
		if !found {
			return "", "", usagef("describe needs a type and a name, as in 'describe server %s'", args[0])
		}
		args = []string{kind, rest}
	}
	if len(args) != 2 {
		return "", "", usagef("describe needs a type and a name: server NAME, profile NAME or job NAME")
	}
	resource, err = parseResource(args[0])
	if err != nil {
		return "", "", err
	}
	if resource != api.Servers && resource != api.Profiles && resource != api.Jobs {
		return "", "", usagef("describe knows servers, profiles and jobs; 'reconciler get %s -o yaml' shows the rest", resource)
	}
	return resource, args[1], nil
}

func describeServer(ctx context.Context, e *env, p place, k spec.Key) error {
	c, err := e.dial(p)
	if err != nil {
		return err
	}
	defer c.Close()
	var s api.Server
	if err := c.Get(ctx, api.ObjectPath(api.Servers, k), nil, &s); err != nil {
		return err
	}
	var events api.EventList
	if err := c.Get(ctx, api.ListPath(api.Events, k.Namespace), url.Values{api.QueryName: {k.Name}}, &events); err != nil {
		return err
	}
	var h api.History
	if s.Status.Console != nil && s.Status.Console.Last != nil {
		if err := c.Get(ctx, api.ObjectPath(api.Servers, k, "history"), nil, &h); err != nil {
			return err
		}
	}
	return writeServer(e.stdout, s, h.Console, events.Items, e.now())
}

// sheet writes "Name:  value" lines, the values below one another, as kubectl describe does.
type sheet struct {
	lines [][2]string
}

func (s *sheet) add(name, value string) { s.lines = append(s.lines, [2]string{name + ":", value}) }

func (s *sheet) addTime(name string, t *time.Time, now time.Time) {
	if t != nil {
		s.add(name, t.UTC().Format(time.RFC1123Z)+" ("+age(now, t)+" ago)")
	}
}

func (s *sheet) write(w io.Writer) error {
	width := 0
	for _, l := range s.lines {
		width = max(width, len(l[0]))
	}
	var b strings.Builder
	for _, l := range s.lines {
		line := fmt.Sprintf("%-*s  %s", width, l[0], l[1])
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func writeServer(w io.Writer, s api.Server, written []api.ConsoleEntry, events []api.Event, now time.Time) error {
	k, st, sum := s.Metadata.Key(), s.Status, s.Spec
	var sh sheet
	sh.add("Name", k.Name)
	sh.add("Namespace", k.Namespace)
	addMap(&sh, "Labels", s.Metadata.Labels)
	addMap(&sh, "Annotations", s.Metadata.Annotations)
	sh.addTime("Created", s.Metadata.CreationTimestamp, now)
	if s.Metadata.DeletionTimestamp != nil {
		sh.addTime("Removed", s.Metadata.DeletionTimestamp, now)
	}
	sh.add("Profile", or(sum.Profile, none))
	sh.add("State", stateText(st, now))
	sh.add("Manifest", or(sum.State, none))
	sh.add("Hold", holdSentence(st.Hold, now))
	sh.add("Source", sourceSentence(st.Source))
	sh.add("Generation", fmt.Sprintf("%d (observed %d)", s.Metadata.Generation, st.ObservedGeneration))
	if a := st.LastAction; a != nil {
		sh.add("Last Action", fmt.Sprintf("%s by %s, %s ago", a.Type, a.By, age(now, &a.At)))
	}
	if r := st.Run; r != nil {
		sh.add("Run", "")
		sh.add("  Number", strconv.FormatInt(r.Number, 10))
		sh.addTime("  Started", r.StartedAt, now)
		sh.addTime("  Ready", r.ReadyAt, now)
		if r.ReadyBy != nil {
			sh.add("  Ready By", r.ReadyBy.UTC().Format(time.RFC1123Z)+" (in "+left(now, *r.ReadyBy)+")")
		}
		sh.add("  Restarts", strconv.FormatInt(r.Restarts, 10))
	}
	if p := st.Players; p != nil {
		sh.add("Players", playersText(p)+", since "+age(now, &p.At)+" ago")
	}
	addConsole(&sh, st.Console, written, now)
	if st.Leftovers != "" {
		sh.add("Leftovers", st.Leftovers)
	}
	addExit(&sh, st.LastExit, now)
	if err := sh.write(w); err != nil {
		return err
	}
	if err := writeConditions(w, st.Conditions); err != nil {
		return err
	}
	if err := writeSchedules(w, st.Schedules, now); err != nil {
		return err
	}
	if err := writeGuarantees(w, st.Guarantees); err != nil {
		return err
	}
	return writeEvents(w, events, now)
}

func addMap(sh *sheet, name string, m map[string]string) {
	if len(m) == 0 {
		return
	}
	first := name
	for _, k := range sortedKeys(m) {
		if first != "" {
			sh.add(first, k+"="+m[k])
			first = ""
			continue
		}
		sh.lines = append(sh.lines, [2]string{"", k + "=" + m[k]})
	}
}

func addConsole(sh *sheet, c *spec.ConsoleStatus, written []api.ConsoleEntry, now time.Time) {
	if c == nil {
		return
	}
	sh.add("Console", or(c.Input, none))
	if d := c.Last; d != nil {
		result := or(d.Result, "on its way")
		if d.Reason != "" {
			result += " (" + d.Reason + ")"
		}
		to := fmt.Sprintf(", by %s to run %d, %s ago", or(d.By, none), d.Run, age(now, &d.At))
		switch {
		case d.Keys && d.Result == "":
			sh.add("  Terminal", "somebody types"+to)
		case d.Keys && d.Until.IsZero():
			sh.add("  Terminal", "nobody knows how much was typed"+to)
		case d.Keys:
			sh.add("  Terminal", fmt.Sprintf("%d bytes were typed within %s%s", d.Bytes, age(d.Until, &d.At), to))
		default:
			sh.add("  Last Line", result+to)
		}
		addWritten(sh, written, d.At)
	}
}

// addWritten adds the newest line of the delivery of a moment, for those who are told.
func addWritten(sh *sheet, written []api.ConsoleEntry, at time.Time) {
	i := slices.IndexFunc(written, func(e api.ConsoleEntry) bool { return e.Command == "" && e.At.Equal(at) })
	if i >= 0 && len(written[i].Lines) > 0 {
		lines := written[i].Lines
		sh.add("  Text", lineText(&lines[len(lines)-1]))
	}
}

func addExit(sh *sheet, x *spec.ExitStatus, now time.Time) {
	if x == nil {
		return
	}
	sh.add("Last Exit", "")
	sh.add("  Class", string(x.Class))
	sh.add("  Reason", string(x.Reason))
	sh.add("  End", endText(x))
	sh.addTime("  Started", x.StartedAt, now)
	sh.addTime("  Finished", &x.FinishedAt, now)
	if step := stepText(x); step != none {
		sh.add("  Stop Step", step)
	}
}

// endText is how a process ended, in the kernel's terms.
func endText(x *spec.ExitStatus) string {
	switch {
	case x.Signal != "" && x.CoreDumped:
		return x.Signal + " (core dumped)"
	case x.Signal != "":
		return x.Signal
	case x.ExitCode != nil:
		return "exit code " + strconv.Itoa(*x.ExitCode)
	}
	return none
}

// stepText is which step of the ladder was the last.
func stepText(x *spec.ExitStatus) string {
	switch {
	case x.Killed:
		return "killed"
	case x.StopStep != nil:
		return strconv.Itoa(*x.StopStep)
	}
	return none
}

func holdSentence(h *spec.HoldStatus, now time.Time) string {
	if h == nil {
		return none
	}
	s := fmt.Sprintf("%s by %s, %s ago", h.State, h.By, age(now, &h.Since))
	if h.Until != nil {
		s += ", ends in " + left(now, *h.Until)
	}
	if h.Reason != "" {
		s += ": " + h.Reason
	}
	return s
}

func sourceSentence(s *spec.SourceStatus) string {
	if s == nil || s.File == "" {
		return none
	}
	text := fmt.Sprintf("%s, document %d", s.File, s.Document)
	if s.Revision != "" {
		text += ", revision " + s.Revision
	}
	return text
}

// indented prints t under a title, two columns in.
func indented(w io.Writer, title string, t *table) error {
	if len(t.rows) == 0 {
		_, err := fmt.Fprintf(w, "%s:  %s\n", title, none)
		return err
	}
	rule := make([]string, len(t.header))
	for i, h := range t.header {
		rule[i] = strings.Repeat("-", len(h))
	}
	t.rows = append([][]string{rule}, t.rows...)
	var b strings.Builder
	if err := t.print(&b, true); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "%s:\n  %s\n", title, strings.ReplaceAll(strings.TrimRight(b.String(), "\n"), "\n", "\n  "))
	return err
}

func writeConditions(w io.Writer, conditions []spec.Condition) error {
	t := &table{header: []string{"Type", "Status", "Reason", "Message"}}
	for _, c := range conditions {
		t.add(c.Type, c.Status, c.Reason, c.Message)
	}
	return indented(w, "Conditions", t)
}

func writeSchedules(w io.Writer, schedules []spec.ScheduleStatus, now time.Time) error {
	if len(schedules) == 0 {
		return nil
	}
	t := &table{header: []string{"Name", "Next", "Last", "Job", "Missed"}}
	for _, s := range schedules {
		next, last := none, none
		switch {
		case s.NextAt != nil && s.NextAt.After(now):
			next = s.NextAt.UTC().Format(time.RFC3339) + " (in " + left(now, *s.NextAt) + ")"
		case s.NextAt != nil:
			next = s.NextAt.UTC().Format(time.RFC3339) + " (waits)"
		}
		if s.LastAt != nil {
			last = age(now, s.LastAt) + " ago"
		}
		t.add(s.Name, next, last, or(s.LastJob, none), strconv.FormatInt(s.Missed, 10))
	}
	return indented(w, "Schedules", t)
}

func writeGuarantees(w io.Writer, guarantees []spec.Guarantee) error {
	if len(guarantees) == 0 {
		return nil
	}
	t := &table{header: []string{"Name", "Tier", "Note"}}
	for _, g := range guarantees {
		t.add(g.Name, g.Tier, g.Note)
	}
	return indented(w, "Guarantees", t)
}

func writeEvents(w io.Writer, events []api.Event, now time.Time) error {
	t := &table{header: []string{"Type", "Reason", "Age", "Message"}}
	for _, ev := range events {
		t.add(ev.Type, ev.Reason, eventAge(ev, now), ev.Message)
	}
	return indented(w, "Events", t)
}

func describeProfile(ctx context.Context, e *env, p place, k spec.Key) error {
	c, err := e.dial(p)
	if err != nil {
		return err
	}
	defer c.Close()
	var prof api.Profile
	if err := c.Get(ctx, api.ObjectPath(api.Profiles, k), nil, &prof); err != nil {
		return err
	}
	var list api.ServerList
	if err := c.Get(ctx, api.ListPath(api.Servers, k.Namespace), url.Values{api.QueryView: {api.ViewSummary}}, &list); err != nil {
		return err
	}
	var events api.EventList
	if err := c.Get(ctx, api.ListPath(api.Events, k.Namespace), nil, &events); err != nil {
		return err
	}
	return writeProfile(e.stdout, prof, list.Items, events.Items, e.now())
}

func writeProfile(w io.Writer, prof api.Profile, servers []api.Server, events []api.Event, now time.Time) error {
	k := prof.Metadata.Key()
	var sh sheet
	sh.add("Name", k.Name)
	sh.add("Namespace", k.Namespace)
	addMap(&sh, "Labels", prof.Metadata.Labels)
	addMap(&sh, "Annotations", prof.Metadata.Annotations)
	sh.add("Source", sourceSentence(prof.Status.Source))
	sh.add("Servers", fmt.Sprintf("%d, %d ready", prof.Status.Servers, prof.Status.Ready))
	if err := sh.write(w); err != nil {
		return err
	}
	t := &table{header: []string{"Name", "Ready", "State"}}
	mine := map[string]bool{}
	for _, s := range servers {
		if s.Spec.Profile != k.Name {
			continue
		}
		mine[s.Metadata.Name] = true
		t.add(s.Metadata.Name, conditionStatus(s.Status, spec.ConditionReady), stateText(s.Status, now))
	}
	if err := indented(w, "Used By", t); err != nil {
		return err
	}
	var own []api.Event
	for _, ev := range events {
		if mine[ev.InvolvedObject.Name] {
			ev.Message = ev.InvolvedObject.Name + ": " + ev.Message
			own = append(own, ev)
		}
	}
	return writeEvents(w, own, now)
}
