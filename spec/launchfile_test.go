package spec

import (
	"reflect"
	"strings"
	"testing"
)

func TestResolveFiles(t *testing.T) {
	l, faults := resolveText(t, string(corpus(t, "good")["files.yaml"]), smallHost)
	if len(faults) > 0 {
		t.Fatal(faultLines(faults))
	}
	content := "port 6379\nrequirepass " + MarkSecret("scores/redis") + "\ndir /var/lib/data/scores\n# $host and $(literal)\n"
	want := []LaunchFile{
		{Path: "conf/store.conf", Content: content, Write: WriteEachStart, OnChange: ChangeApply},
		{Path: "empty", Write: WriteEachStart, OnChange: ChangeApply},
		{Path: "users.acl", Content: "user default on\n", Write: WriteIfMissing, OnChange: ChangeIgnore},
		{Path: "shared/motd", Workspace: "data", Content: "\x01 any byte but NUL", Write: WriteEachStart, OnChange: ChangeApply},
	}
	if !reflect.DeepEqual(l.Files, want) {
		t.Errorf("the files are\n%q, want\n%q", l.Files, want)
	}
	check := &LaunchCheck{Exec: LaunchExec{Workspace: "usr", Executable: "bin/redis-server", Args: []string{"conf/store.conf", "--test-memory", "6379"}}, TimeoutSeconds: 30}
	if !reflect.DeepEqual(l.Check, check) {
		t.Errorf("the check is %+v, want %+v", l.Check, check)
	}
	if c := l.Checking(); !reflect.DeepEqual(c.Files, l.Files) || !reflect.DeepEqual(c.Args, check.Exec.Args) || l.Beside(&check.Exec).Files != nil {
		t.Errorf("the check is run with %+v; what is run beside a run has files: %v", c, l.Beside(&check.Exec).Files)
	}
	if f := l.File("users.acl"); f != &l.Files[2] || l.File("users") != nil {
		t.Errorf("found %v", f)
	}
}

func TestResolveRefusesFiles(t *testing.T) {
	const profile = `
apiVersion: reconciler.dev/v1alpha1
kind: Profile
metadata: {name: p}
spec:
  actions: {start: {executable: bin/a}}
  files: FILES
---
apiVersion: reconciler.dev/v1alpha1
kind: Server
metadata: {name: s}
spec: {profile: p}
`
	for files, want := range map[string]string{
		"[{path: a}]": "spec.files[0]: Forbidden: a file without `content`, which is watched: not available in this version\n",
		"[{path: a, content: b, workspace: dat}]":               "spec.files[0].workspace: Not found: \"dat\": this host opens no such workspace: did you mean 'data'?: name it with --workspace NAME=DIR or in the host configuration\n",
		"[{path: a/b, content: b}, {path: ./a//b, content: c}]": "spec.files[1].path: Duplicate value: \"a/b\": must be unique in this list\n",
		"[{path: a, content: " + strings.Repeat("a", 256<<10) + "}, {path: b, content: " + strings.Repeat("a", 256<<10) + "}, {path: c, content: a}]": "spec.files: Too long: must have at most 524288 bytes of content together; there are 524289\n",
	} {
		_, faults := resolveText(t, strings.Replace(profile, "FILES", files, 1), smallHost)
		if got := faultLines(faults); got != want {
			t.Errorf("%.60s is refused with\n%swant\n%s", files, got, want)
		}
	}
}
