package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"reconciler.dev/reconciler/cmd/reconciler/internal/api"
	"reconciler.dev/reconciler/cmd/reconciler/internal/client"
	"reconciler.dev/reconciler/reconcile"
	"reconciler.dev/reconciler/spec"
)

// jobFlags are those of every command that asks for a job.
type jobFlags struct {
	profile  string
	deadline time.Duration
}

func (f *jobFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.profile, "profile", "", "of a job: only while the server has this profile")
	cmd.Flags().DurationVar(&f.deadline, "deadline", 0, "of a job: by when it must have ended, as in 10m; 0 = an hour")
}

func (f *jobFlags) given() bool { return f.profile != "" || f.deadline != 0 }

// jobTypes says what a verb does as a job.
var jobTypes = map[string]spec.JobType{
	api.VerbStart: spec.JobStart, api.VerbStop: spec.JobStop, api.VerbRestart: spec.JobRestart,
}

// run asks for a job and waits for its end.
func (f *jobFlags) run(ctx context.Context, e *env, c *client.Client, k spec.Key, s spec.JobSpec, timeout time.Duration) error {
	if f.deadline < 0 || f.deadline%time.Second != 0 {
		return usagef("--deadline %s: must be whole seconds, 0 or more", f.deadline)
	}
	if _, err := key(k.Namespace, k.Name); err != nil {
		return err
	}
	s.Profile = f.profile
	if f.deadline > 0 {
		seconds := int64(f.deadline / time.Second)
		s.DeadlineSeconds = &seconds
	}
	if err := c.Post(ctx, api.ListPath(api.Jobs, k.Namespace), api.NewJob(k, s), nil); err != nil {
		return err
	}
	var ended api.Job
	w := &waiter{e: e, client: c, resource: api.Jobs, namespace: k.Namespace, timeout: timeout, whole: true}
	there := false
	w.addLook(k, func(raw json.RawMessage) (string, verdict, error) {
		if raw == nil {
			if there {
				return "", missed, api.NotFound(api.Jobs, k.Name)
			}
			return "", notYet, nil // it is about to be shown
		}
		there = true
		j, err := readJob(raw)
		switch {
		case err != nil:
			return "", missed, err
		case j.Status.Phase.Over():
			ended = j
			return string(j.Status.Phase), reached, nil
		}
		return phaseText(j.Status), notYet, nil
	}, func() {})
	err := w.run(ctx)
	if late := new(timeoutError); errors.As(err, &late) {
		late.what = "the end"
		return hintf(late, "the job goes on; 'reconciler describe job %s' says what it waits for", k.Name)
	}
	if err != nil {
		return err
	}
	return printJob(e.stdout, ended)
}

// readJob reads a Job, also one that is shown with all that its file says.
func readJob(raw json.RawMessage) (api.Job, error) {
	var j api.Job
	if err := json.Unmarshal(raw, &j); err != nil {
		return api.Job{}, fmt.Errorf("cannot read the answer: %w", err)
	}
	if j.Spec.Type == "" {
		j.Spec.Type = spec.JobCommand
	}
	return j, nil
}

// printJob says how a job has ended, after what its commands have written. What is no success is an error.
func printJob(w io.Writer, j api.Job) error {
	for _, s := range j.Status.Steps {
		if s.Output == "" {
			continue
		}
		if _, err := fmt.Fprintln(w, strings.TrimRight(s.Output, "\n")); err != nil {
			return err
		}
	}
	k := j.Metadata.Key()
	if j.Status.Phase == spec.JobSucceeded {
		_, err := fmt.Fprintf(w, "%s succeeded\n", ref(api.Jobs, k))
		return err
	}
	return jobError(k, j.Status)
}

// jobError is how a job ended that did not succeed.
func jobError(k spec.Key, st spec.JobStatus) error {
	text := ref(api.Jobs, k) + " " + strings.ToLower(string(st.Phase))
	if why := or(st.Message, st.Reason); why != "" {
		text += ": " + why
	}
	err := errors.New(text)
	if st.Reason == reconcile.JobReasonIndeterminate {
		return &exitError{exitUnknown, hintf(err, "nobody knows whether it was done, and it is not done again; 'reconciler describe job %s' and the server's log may tell", k.Name)}
	}
	return err
}

// waitJobs waits for jobs.
func waitJobs(ctx context.Context, e *env, p place, scope scopeFlags, args []string, cond string, timeout time.Duration) error {
	judge, err := parseJobCondition(cond)
	if err != nil {
		return err
	}
	if timeout < 0 {
		timeout = 7 * 24 * time.Hour
	}
	c, err := e.dial(p)
	if err != nil {
		return err
	}
	defer c.Close()
	w := &waiter{e: e, client: c, resource: api.Jobs, namespace: scope.namespace, timeout: timeout, once: timeout == 0, awaits: true, whole: strings.HasPrefix(cond, "jsonpath")}
	for _, arg := range args {
		k, err := parseJob(arg, scope.namespace)
		if err != nil {
			return err
		}
		there := false
		w.addLook(k, func(raw json.RawMessage) (string, verdict, error) {
			if raw == nil {
				switch {
				case cond == "delete":
					return "", reached, nil
				case there:
					return "", missed, api.NotFound(api.Jobs, k.Name)
				}
				return "", notYet, nil
			}
			there = true
			j, err := readJob(raw)
			if err != nil {
				return "", missed, err
			}
			v, err := judge(k, j, raw)
			return phaseText(j.Status), v, err
		}, func() { fmt.Fprintf(e.stdout, "%s condition met\n", ref(api.Jobs, k)) })
	}
	return w.run(ctx)
}

// parseJobCondition reads --for of a job.
func parseJobCondition(text string) (func(spec.Key, api.Job, json.RawMessage) (verdict, error), error) {
	kind, rest, _ := strings.Cut(text, "=")
	switch kind {
	case "delete":
		return func(spec.Key, api.Job, json.RawMessage) (verdict, error) { return notYet, nil }, nil
	case "jsonpath":
		of, err := parsePath(rest)
		if err != nil {
			return nil, err
		}
		return func(_ spec.Key, _ api.Job, raw json.RawMessage) (verdict, error) { return of(raw) }, nil
	case "condition":
		name, status, found := strings.Cut(rest, "=")
		if !found {
			status = "True"
		}
		if !strings.EqualFold(name, spec.ConditionSucceeded) {
			return nil, usagef("unknown condition %q; a job has %s", name, spec.ConditionSucceeded)
		}
		return func(k spec.Key, j api.Job, _ json.RawMessage) (verdict, error) {
			succeeded := map[bool]string{true: "True", false: "False"}[j.Status.Phase == spec.JobSucceeded]
			switch {
			case !j.Status.Phase.Over():
				return notYet, nil
			case strings.EqualFold(status, succeeded):
				return reached, nil
			case strings.EqualFold(status, "True"):
				return missed, jobError(k, j.Status)
			}
			return missed, fmt.Errorf("%s succeeded", ref(api.Jobs, k))
		}, nil
	}
	return nil, usagef("cannot wait for %q: --for takes condition=Succeeded[=STATUS], delete or jsonpath=TEMPLATE=VALUE", text)
}

// parseJob reads NAME, which is `save-1` or `job/save-1`.
func parseJob(arg, namespace string) (spec.Key, error) {
	kind, name, found := strings.Cut(arg, "/")
	if !found {
		kind, name = "job", arg
	}
	if resources[strings.ToLower(kind)] != api.Jobs {
		return spec.Key{}, usagef("%q is no job: a name is NAME or job/NAME", arg)
	}
	return key(namespace, name)
}

// phaseText is the phase, and why where there is more to say: "Refused, profile".
func phaseText(st spec.JobStatus) string {
	switch {
	case st.Check != "":
		return string(st.Phase) + ", " + st.Check
	case st.Reason != "" && st.Reason != string(st.Phase):
		return string(st.Phase) + ", " + st.Reason
	}
	return string(st.Phase)
}

func jobRow(j api.Job, o tableOptions) []string {
	k := j.Metadata.Key()
	row := []string{k.Namespace, k.Name, j.Spec.Server, string(j.Spec.Type), or(j.Spec.Command, none), phaseText(j.Status), age(o.now, j.Metadata.CreationTimestamp)}
	if o.wide {
		row = append(row, strconv.FormatInt(j.Status.Attempt, 10), or(j.Status.By, none), revisionText(j.Status.Source), sourceText(j.Status.Source))
	}
	return row
}

func describeJob(ctx context.Context, e *env, p place, k spec.Key) error {
	c, err := e.dial(p)
	if err != nil {
		return err
	}
	defer c.Close()
	var raw json.RawMessage
	if err := c.Get(ctx, api.ObjectPath(api.Jobs, k), nil, &raw); err != nil {
		return err
	}
	j, err := readJob(raw)
	if err != nil {
		return err
	}
	return writeJob(e.stdout, j, e.now())
}

func writeJob(w io.Writer, j api.Job, now time.Time) error {
	k, st := j.Metadata.Key(), j.Status
	var sh sheet
	sh.add("Name", k.Name)
	sh.add("Namespace", k.Namespace)
	addMap(&sh, "Labels", j.Metadata.Labels)
	sh.addTime("Created", j.Metadata.CreationTimestamp, now)
	sh.add("Server", j.Spec.Server)
	sh.add("Type", string(j.Spec.Type))
	if j.Spec.Command != "" {
		sh.add("Command", j.Spec.Command)
	}
	sh.add("Phase", phaseText(st))
	if st.Message != "" {
		sh.add("Message", st.Message)
	}
	sh.add("Attempt", strconv.FormatInt(st.Attempt, 10))
	sh.add("Asked By", or(st.By, none))
	sh.add("Source", sourceSentence(st.Source))
	if st.Profile != "" {
		sh.add("Profile", st.Profile)
	}
	if st.Run != 0 {
		sh.add("Run", strconv.FormatInt(st.Run, 10))
	}
	if st.Deadline != nil {
		sh.add("Deadline", "in "+left(now, *st.Deadline))
	}
	sh.addTime("Started", st.StartedAt, now)
	sh.addTime("Finished", st.FinishedAt, now)
	if err := sh.write(w); err != nil {
		return err
	}
	if len(st.Steps) > 0 {
		if err := writeSteps(w, st.Steps); err != nil {
			return err
		}
	}
	return writeConditions(w, st.Conditions)
}

// writeSteps prints a job's commands, and below them what they have written.
func writeSteps(w io.Writer, steps []spec.JobStepStatus) error {
	t := &table{header: []string{"Command", "Result", "End", "Took"}}
	var written strings.Builder
	for _, s := range steps {
		result, end, took := or(s.Result, "under way"), none, none
		if s.Reason != "" {
			result += " (" + s.Reason + ")"
		}
		switch {
		case s.Signal != "":
			end = s.Signal
		case s.ExitCode != nil:
			end = "exit code " + strconv.Itoa(*s.ExitCode)
		}
		if s.StartedAt != nil && s.FinishedAt != nil {
			took = left(*s.StartedAt, *s.FinishedAt)
		}
		t.add(s.Command, result, end, took)
		if s.Output != "" {
			fmt.Fprintf(&written, "Output of %s:\n  %s\n", s.Command, strings.ReplaceAll(strings.TrimRight(s.Output, "\n"), "\n", "\n  "))
		}
	}
	if err := indented(w, "Steps", t); err != nil {
		return err
	}
	_, err := io.WriteString(w, written.String())
	return err
}
