package keeper_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"reconciler.dev/reconciler/keeper"
	"reconciler.dev/reconciler/keeper/faultd"
	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
)

const canary = "kanarienvogel-7391"

// writeSecret lays a secret of the rig's host down.
func (r *rig) writeSecret(ref, content string, mode fs.FileMode) {
	r.t.Helper()
	path := filepath.Join(r.layout.Secrets(), ref)
	next := path + ".next"
	err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(next, []byte(content), 0o600), os.Chmod(next, mode), os.Rename(next, path))
	if err != nil {
		r.t.Fatal(err)
	}
}

// EC-6: a workload is given its secrets in its environment and its arguments; the record has what they are called.
func TestSecretsReachTheWorkload(t *testing.T) {
	r := newRig(t)
	r.writeSecret("town/rcon", canary+"\n", 0o600)
	r.writeSecret("town/lines", "first\nsecond\n\n", 0o400)
	l := r.launch("town", "inspect", "-note", "--password="+spec.MarkSecret("town/rcon"))
	l.Readiness = nil
	l.Env = []spec.LaunchEnv{
		{Name: "PASSWORD", Value: spec.MarkSecret("town/rcon")},
		{Name: "URL", Value: "db://me:" + spec.MarkSecret("town/rcon") + "@host/" + spec.MarkSecret("town/rcon")},
		{Name: "PEM", Value: spec.MarkSecret("town/lines")},
		{Name: "PLAIN", Value: "town/rcon"},
	}
	if err := r.client.Start(t.Context(), r.order(l)); err != nil {
		t.Fatal(err)
	}
	r.awaitOver(l.Scope)
	var got faultd.Inspection
	if err := json.Unmarshal([]byte(r.log(l.Scope)), &got); err != nil {
		t.Fatalf("%v: %s", err, r.log(l.Scope))
	}
	for _, want := range []string{"PASSWORD=" + canary, "URL=db://me:" + canary + "@host/" + canary, "PEM=first\nsecond\n", "PLAIN=town/rcon"} {
		if !slices.Contains(got.Env, want) {
			t.Errorf("the environment lacks %q: %q", want, got.Env)
		}
	}
	if last := got.Argv[len(got.Argv)-1]; last != "--password="+canary {
		t.Errorf("the argument is %q", last)
	}
	record, err := os.ReadFile(filepath.Join(r.layout.Keeper(), "records", l.Scope.ID()+".json"))
	if err != nil || strings.Contains(string(record), canary) || !strings.Contains(string(record), "town/rcon") {
		t.Errorf("the record holds the secret, or no reference: %v: %s", err, record)
	}
}

// A secret that is missing, not safe, or no text for its place refuses the start: nothing is executed, recorded or left, and
// the refusal names the reference and neither its path nor its content.
func TestSecretsRefuseAStart(t *testing.T) {
	r := newRig(t)
	const env, arg = "spec.env[1].value: ", "spec.actions.start.args[3]: "
	for name, c := range map[string]struct {
		content string
		mode    fs.FileMode // 0 = there is no file
		inArgs  bool
		want    string
	}{
		"missing":                        {"", 0, false, env + "secret town/rcon: there is no such file: put it below the secrets directory, with mode 0600"},
		"missing, in an argument":        {"", 0, true, arg + "secret town/rcon: there is no such file: put it below the secrets directory, with mode 0600"},
		"readable by the group":          {canary, 0o640, false, env + "secret town/rcon: the file has mode 0640: give it mode 0600 or 0400"},
		"with NUL":                       {canary + "\x00", 0o600, false, env + "with secret town/rcon in its place it must not contain NUL"},
		"no text":                        {canary + "\xff", 0o600, false, env + "with secret town/rcon in its place it must be UTF-8"},
		"two lines, in an argument":      {canary + "\n" + canary, 0o600, true, arg + "with secret town/rcon in its place it must be one line without control characters (a tab is allowed)"},
		"longer than a variable can be":  {strings.Repeat("v", 131072), 0o600, false, env + "with secret town/rcon in its place it must be at most 131071 bytes: Linux takes no longer one"},
		"longer than an argument can be": {strings.Repeat("v", 131072), 0o600, true, arg + "with secret town/rcon in its place it must be at most 131071 bytes: Linux takes no longer one"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.RemoveAll(filepath.Join(r.layout.Secrets(), "town")); err != nil {
				t.Fatal(err)
			}
			if c.mode != 0 {
				r.writeSecret("town/rcon", c.content, c.mode)
			}
			l := r.launch("refused", "run", "-note", "x")
			l.Env = []spec.LaunchEnv{{Name: "PLAIN", Value: "x"}, {Name: "SECRET", Value: "x"}}
			if c.inArgs {
				l.Args = append(l.Args, "x")
				l.Args[3] = "x" + spec.MarkSecret("town/rcon")
			} else {
				l.Env[1].Value = "x" + spec.MarkSecret("town/rcon")
			}
			err := r.client.Start(t.Context(), r.order(l))
			if check, ok := keeper.IsRefused(err); !ok || check != keeper.CheckSecret {
				t.Fatalf("it is not refused for its secret: %v", err)
			}
			refused := new(keeper.Refused)
			if errors.As(err, &refused); refused.Public() != c.want {
				t.Errorf("it says %q, not %q", refused.Public(), c.want)
			}
			if f := r.facts(l.Scope); f != nil {
				t.Errorf("it is on record: %+v", f)
			}
			if _, err := os.Stat(filepath.Join(r.layout.Data(), "refused")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("its directory was left: %v", err)
			}
		})
	}
}

// The longest variable that Linux takes reaches the workload.
func TestTheLongestSecret(t *testing.T) {
	r := newRig(t)
	long := strings.Repeat("v", 131071-len("SECRET="))
	r.writeSecret("town/long", long, 0o600)
	l := r.launch("town", "inspect")
	l.Readiness, l.Env = nil, []spec.LaunchEnv{{Name: "SECRET", Value: spec.MarkSecret("town/long")}}
	if err := r.client.Start(t.Context(), r.order(l)); err != nil {
		t.Fatal(err)
	}
	if e := r.awaitOver(l.Scope); e.ExitCode == nil || *e.ExitCode != 0 {
		t.Errorf("the end is %+v", e)
	}
}

// A keeper looks at the secrets of live runs by itself, one of another life too.
func TestChangedSecretsAreSeen(t *testing.T) {
	r := newRigWithoutKeeper(t)
	r.startKeeper("-secrets-every", "10ms")
	r.connect()
	r.writeSecret("town/rcon", canary, 0o600)
	r.writeSecret("town/token", canary, 0o600)
	l := r.launch("town", "run", "-note", spec.MarkSecret("town/token"))
	l.Env = []spec.LaunchEnv{{Name: "SECRET", Value: spec.MarkSecret("town/rcon")}}
	r.ready(l)
	pid := r.pid(l.Scope)
	changed := func(refs ...string) func(*observe.Facts) bool {
		return func(f *observe.Facts) bool {
			if f.Run.Changed == nil {
				return len(refs) == 0
			}
			return slices.Equal(f.Run.Changed.Refs, refs)
		}
	}
	r.writeSecret("town/rcon", "another", 0o600)
	r.await(l.Scope, "seen to have another secret", changed("town/rcon"))
	r.killKeeper()
	r.startKeeper("-secrets-every", "10ms")
	r.await(l.Scope, "seen to have another secret by another keeper", changed("town/rcon"))
	r.writeSecret("town/token", "two\nlines", 0o600) // no argument
	r.await(l.Scope, "left alone, as no new run could be started", changed())
	r.writeSecret("town/token", "another", 0o400)
	r.await(l.Scope, "seen to have two other secrets", changed("town/rcon", "town/token"))
	r.writeSecret("town/token", canary+"\n", 0o400)
	r.writeSecret("town/rcon", canary+"\n", 0o400)
	r.await(l.Scope, "as it was", changed())
	if r.pid(l.Scope) != pid || r.facts(l.Scope).Run.Alive != observe.Alive {
		t.Error("the run was touched")
	}
}
