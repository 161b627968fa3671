package crdtest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"reconciler.dev/reconciler/spec"
)

// Every value of the good manifests is spoiled in every way that the test knows, one at a time; a cluster and we must
// agree about each result.
func TestMutationsGetOneVerdict(t *testing.T) {
	c := newCluster(t)
	tried, refused := 0, 0
	for name, data := range corpus(t, "good") {
		if marker(data) != "" {
			continue
		}
		for _, object := range documents(t, data) {
			mutate(object, "", func(what string) {
				text, err := json.Marshal(object)
				if err != nil {
					t.Fatal(err)
				}
				var clone map[string]any
				if err := json.Unmarshal(text, &clone); err != nil {
					t.Fatal(err)
				}
				errs := c.create(integers(clone).(map[string]any))
				ours := spec.Decode("m.json", text).Faults
				tried++
				if len(ours) > 0 {
					refused++
				}
				switch {
				case len(errs) > 0 && len(ours) == 0:
					t.Errorf("%s, %s: only a cluster refuses it: %v", name, what, errs)
				case len(errs) == 0 && len(ours) > 0 && !unseen(ours):
					t.Errorf("%s, %s: only we refuse it: %s", name, what, ours[0].Error())
				}
			})
		}
	}
	if tried < 2000 || refused < tried/3 || refused == tried {
		t.Errorf("%d mutations were tried and %d refused: the walk is broken", tried, refused)
	}
}

// unseen reports faults of which at least one is beyond a schema: what a reference inside a text names, the annotations that are ours,
// calendars, and what one part of an object says of another.
func unseen(faults []spec.Fault) bool {
	for _, f := range faults {
		for _, beyond := range []string{"names no parameter", "must close every '$('", "reconciler.dev", "must match the pattern",
			"say where the directory is", "a Secret must not stand here", "is a Secret and arguments are seen",
			"must be a time zone", "must be a cron schedule", "there is no such command", "command 'keep' has no"} {
			if strings.Contains(f.Detail, beyond) {
				return true
			}
		}
		if strings.Contains(f.Field, ".job.parameters[") || strings.Contains(f.Field, "announce[") && strings.Contains(f.Field, ".parameters[") {
			return true
		}
	}
	return false
}

// mutate spoils every value below v in turn, calls try, and mends it again.
func mutate(v any, at string, try func(what string)) {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			if at == "" && (key == "apiVersion" || key == "kind" || key == "status") || at == ".metadata" && key != "name" {
				continue // the rest of metadata is the API server's own, not the CRD's
			}
			path := at + "." + key
			for what, bad := range spoiled(value) {
				v[key] = bad
				try(path + " " + what)
			}
			delete(v, key)
			try(path + " taken away")
			v[key] = value
			mutate(value, path, try)
		}
		v["nonesuch"] = "a"
		try(at + " with an unknown key")
		delete(v, "nonesuch")
	case []any:
		for i, value := range v {
			path := fmt.Sprintf("%s[%d]", at, i)
			for what, bad := range spoiled(value) {
				v[i] = bad
				try(path + " " + what)
			}
			v[i] = value
			mutate(value, path, try)
		}
	}
}

// spoiled are the values that stand in for one in turn.
func spoiled(v any) map[string]any {
	bad := map[string]any{
		"as an object": map[string]any{}, "as a boolean": true, "as a fraction": 1.5, "as a list": []any{},
		"as a word": "a", "as an integer": int64(7),
	}
	switch v := v.(type) {
	case string:
		for _, text := range []string{"", "A", "/a", "../a", "a/..", "a/", ".", "-", "a b", "a.b", "a\nb", "a\tb", "a\x00b", "a\x7fb", "ä", "$(port)", "$(word", "80", "::1", "SIGKILL", "SIGHUP", "0g",
			strings.Repeat("a", 17), strings.Repeat("a", 33), strings.Repeat("a", 64), strings.Repeat("a", 257), strings.Repeat("a", 1025), strings.Repeat("a", 4097), strings.Repeat("a", 8193)} {
			bad[fmt.Sprintf("as %.20q, %d long", text, len(text))] = text
		}
	case int64:
		for _, n := range []int64{-70000, -1, 0, 1, 300, 301, 1000, 1001, 3600, 3601, 65535, 65536, 86400, 86401, 1 << 40} {
			bad[fmt.Sprint("as ", n)] = n
		}
	case []any:
		many := []any{}
		for range 300 {
			many = append(many, v...)
		}
		bad["300 times as long"] = many
		if len(v) > 0 {
			bad["with an item twice"] = append(append([]any{}, v...), v[0])
			bad["with null"] = append(append([]any{}, v...), nil)
		}
	case map[string]any:
		many := map[string]any{}
		for i := range 70 {
			many[fmt.Sprintf("a%d", i)] = "a"
		}
		bad["with 70 keys"] = many
		bad["with odd keys"] = map[string]any{"A b": "a", "": "b"}
	}
	return bad
}
