package spec

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"
)

const small = `
apiVersion: reconciler.dev/v1alpha1
kind: Profile
metadata: {name: openttd}
spec:
  parameters:
  - {name: port, type: Integer, default: 3979, minimum: 1024, maximum: 65535}
  - {name: query, type: Integer, defaultFrom: {parameter: port, add: 1}}
  actions:
    start: {workspace: usr, executable: games/openttd, args: [-D, "127.0.0.1:$(port)", "$$(x) $(query)", -x]}
    stop: {steps: [{signal: {name: SIGINT}, waitSeconds: 5}]}
  env: [{name: SDL_VIDEODRIVER, value: dummy}, {name: A, inherit: true}]
  endpoints: [{name: game, port: $(port)}]
  readinessProbe: {log: {contains: ["Map generated, starting game"]}}
---
apiVersion: reconciler.dev/v1alpha1
kind: Server
metadata: {name: town}
spec: {profile: openttd, parameters: {port: 3980}}
`

const server = "apiVersion: reconciler.dev/v1alpha1\nkind: Server\nmetadata: {name: a}\nspec: {profile: a}\n"

// Files that are none of ours are told from broken ones of ours.
func TestDecodeForeign(t *testing.T) {
	for _, c := range []struct {
		name, file, data string
		ours             bool
		reason           string
		faults           int
	}{
		{"values of a chart", "values.yaml", "image: nginx\n", false, "it has neither apiVersion nor kind at its top", 0},
		{"nothing", "a.yaml", "", false, "it holds no object", 0},
		{"comments", "a.yaml", "# a\n---\n# b\n", false, "it holds no object", 0},
		{"null", "a.yaml", "~\n", false, "it holds no object", 0},
		{"a list", "a.json", "[]", false, "it has neither apiVersion nor kind at its top", 0},
		{"kustomize", "sub/kustomization.yaml", "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n", false, "it is kustomize's own file", 0},
		{"a template", "a.yaml", "{{ if .x }}\na: b\n", false, "it is not valid, and no line of it says apiVersion or kind", 1},
		{"a template that speaks of kinds", "a.yaml", "# any kind\n{{ if .x }}\na: b\n", false, "it is not valid, and no line of it says apiVersion or kind", 1},
		{"broken JSON and ours", "a.json", `{"kind" : `, true, "", 1},
		{"broken and ours", "a.yaml", "apiVersion: [\n", true, "", 1},
		{"kind alone", "a.yaml", "kind: Server\n", true, "", 3},
		{"one of two", "a.yaml", server + "---\nimage: nginx\n", true, "", 2},
		{"a byte order mark", "a.yaml", "\xef\xbb\xbf" + server, true, "", 0},
		{"Windows' line ends", "a.yaml", strings.ReplaceAll(server, "\n", "\r\n"), true, "", 0},
		{"a directive", "a.yaml", "# a\n%YAML 1.1\n---\n" + server, true, "", 0},
		{"a document's end", "a.yaml", server + "...\n---\n" + strings.ReplaceAll(server, "a}", "b}") + "...\n", true, "", 0},
		{"JSON by its content", "a.yaml", "{\t\"kind\": \"Server\"}", true, "", 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := Decode(c.file, []byte(c.data))
			if f.Ours != c.ours || f.Reason != c.reason || len(f.Faults) != c.faults {
				t.Errorf("ours %v, reason %q, faults:\n%s", f.Ours, f.Reason, faultLines(f.Faults))
			}
		})
	}
}

// What is no text, or too much of it, is refused by its place or its size.
func TestDecodeBounds(t *testing.T) {
	nested := strings.Repeat("[", 100) + strings.Repeat("]", 100)
	for _, c := range []struct{ name, file, data, want string }{
		{"too big", "a.yaml", server + strings.Repeat("#", MaxFileSize), "a.yaml: Too long: a manifest file must be at most 1 MiB; this one has 1048664 bytes: split it\n"},
		{"NUL", "a.yaml", server + "# \x00\n", "a.yaml:5:3: Invalid value: a manifest must not contain NUL: this is not a text file\n"},
		{"not UTF-8", "a.yaml", server + "# \xff\n", "a.yaml:5:3: Invalid value: a manifest must be UTF-8: save the file in that encoding\n"},
		{"an escape", "a.yaml", server + "# \x1b[0m\n", `a.yaml:5:3: Invalid value: a manifest must not contain control characters: write them as escapes in double quotes, such as "\x1b"` + "\n"},
		{"deep", "a.yaml", server + "x-a: " + nested, "a.yaml:5:70: Too many: lists and objects must not be nested more than 64 deep\n"},
		{"deep JSON", "a.json", `{"kind": ` + nested + "}", "a.json:1:74: Invalid value: this is not JSON: lists and objects must not be nested more than 64 deep\n"},
		{"too deep for the parser", "a.yaml", server + "x-a: " + strings.Repeat("[", 20000), "a.yaml:5: Invalid value: this is not YAML: exceeded max depth of 10000\n"},
		{"two values", "a.json", `{"kind": "Server"} {}`, "a.json:1:21: Invalid value: this is not JSON: a second value follows: a JSON file holds one object, or one List\n"},
		{"half", "a.json", `{"kind": "Serv`, "a.json:1:10: Invalid value: this is not JSON: it ends too early\n"},
		{"too many", "a.yaml", server + strings.Repeat("x: 1\n", 1000), ""},
		{"old line ends", "a.yaml", "# a\rkind: Server\r", "a.yaml:1:4: Invalid value: a line must end with a newline: a lone carriage return, U+0085, U+2028 and U+2029 end lines in YAML 1.1 alone\n"},
		{"a line separator", "a.yaml", server + "# \u2028kind: x\n", "a.yaml:5:3: Invalid value: a line must end with a newline: a lone carriage return, U+0085, U+2028 and U+2029 end lines in YAML 1.1 alone\n"},
		{"many documents", "a.yaml", strings.Repeat("kind: a\n---\n", 5000), "a.yaml:8192: Too many: a file must hold at most 4096 objects: split it\n"},
		{"many items", "a.yaml", "apiVersion: v1\nkind: List\nitems:\n" + strings.Repeat("- a\n", 5000), ""},
		{"big aliases", "a.yaml", server + "x-a: &a " + strings.Repeat("a", 1<<19) + "\nx-b: [" + strings.Repeat("*a, ", 1000) + "]\n",
			"a.yaml:6:39: Too many: aliases must not stand for more than 100000 values or 4194304 bytes: write the values out\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := Decode(c.file, []byte(c.data))
			if len(f.Faults) > maxFaults+1 {
				t.Errorf("there are %d faults", len(f.Faults))
			}
			if got := faultLines(f.Faults); c.want != "" && got != c.want {
				t.Errorf("got:\n%swant:\n%s", got, c.want)
			}
		})
	}
}

// A file as large as may be that is nothing but nesting is no object, tells a few faults, and costs memory in proportion to its size.
func TestMebibyteOfBraces(t *testing.T) {
	for _, unit := range []string{"{", "}", "[", "]", "{}", "[]", "{a: ", "[{", `{"a":`, `{"a":[`, "- ", "? ", "a: {", "{a: b, ", "&a [", "!!map {", "{? ", "\"{", "{'"} {
		for name, begin := range map[string]string{"a.yaml": "", "b.yaml": server + "x-a: ", "c.json": `{"kind": "Server", "x-a": `} {
			data := begin + strings.Repeat(unit, (MaxFileSize-len(begin))/len(unit))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			f := Decode(name, []byte(data))
			runtime.ReadMemStats(&after)
			for _, d := range f.Documents {
				if d.Server != nil || d.Profile != nil || d.Job != nil {
					t.Errorf("%s of %q: an object", name, unit)
				}
			}
			if len(f.Faults) > maxFaults+1 || f.Ours && len(f.Faults) == 0 {
				t.Errorf("%s of %q: ours %v, %d faults", name, unit, f.Ours, len(f.Faults))
			}
			if cost := after.TotalAlloc - before.TotalAlloc; cost > 1000*MaxFileSize {
				t.Errorf("%s of %q: %d bytes were allocated", name, unit, cost)
			}
		}
	}
}

// A document has its place, its kind and its key also when it is faulty, and an object only when it is not.
func TestDecodeDocuments(t *testing.T) {
	f := Decode("a.yaml", []byte("# first\n---\n"+server+"---\n---\n"+strings.Replace(server, "profile: a", "profil: a", 1)))
	if len(f.Documents) != 2 {
		t.Fatalf("there are %d documents, want 2", len(f.Documents))
	}
	good, bad := f.Documents[0], f.Documents[1]
	if good.Server == nil || good.Line != 3 || good.Index != 0 || good.Server.Namespace != DefaultNamespace {
		t.Errorf("the first document is %+v", good)
	}
	if bad.Server != nil || bad.Line != 9 || bad.Index != 2 || bad.Kind != KindServer || bad.Key != (Key{DefaultNamespace, "a"}) {
		t.Errorf("the second document is %+v", bad)
	}
}

// A key that could climb out of a folder is none.
func TestDecodeFaultyKey(t *testing.T) {
	for _, metadata := range []string{"{name: ../a}", "{name: a, namespace: b/c}", "{name: [a]}", "{}", "a", "{name: a, namespace: [b]}"} {
		f := Decode("a.yaml", []byte("apiVersion: reconciler.dev/v1alpha1\nkind: Server\nmetadata: "+metadata+"\nspec: {profile: a}\n"))
		if len(f.Faults) == 0 || f.Documents[0].Key != (Key{}) {
			t.Errorf("%s: the key is %v", metadata, f.Documents[0].Key)
		}
	}
}

// Ignored fields and keys of one's own are noted, not refused.
func TestDecodeNotes(t *testing.T) {
	f := Decode("list.yaml", corpus(t, "good")["list.yaml"])
	var got []string
	for _, n := range f.Notes {
		got = append(got, n.Field)
	}
	want := "items[0].metadata.uid items[0].metadata.resourceVersion items[0].metadata.generation " +
		"items[0].metadata.creationTimestamp items[0].metadata.managedFields items[0].status"
	if strings.Join(got, " ") != want {
		t.Errorf("the notes are %v", got)
	}
	f = Decode("a.yaml", []byte(strings.Replace(server, "{profile: a}", "{profile: a, x-own: 1}", 1)))
	if len(f.Notes) != 1 || f.Notes[0].Field != "spec.x-own" || f.Notes[0].Line != 4 {
		t.Errorf("the notes are %v", f.Notes)
	}
}

// What each YAML calls a string, and what only looks like one.
func TestPlainScalar(t *testing.T) {
	for kind, words := range map[scalar][]string{
		scalarString: {"a", "-x", "--", "+", "-", ".", "..", "1.2.3", "1.21.4", "4G", "0.0.0.0/0", "127.0.0.1", "::1", "nope", "yesterday", "e3",
			"1e", "2026-11", "12:345", "22:99", "0xg", ".nano", "-.", "$(port)", "_", "1-2", "0x", "2026-11-30-x", "N/A", "nan", "inf", "198.18.0.1/15"},
		scalarNull:    {"", "~", "null", "Null", "NULL"},
		scalarInt:     {"0", "1", "-1", "25565", "99999999999999999999"},
		scalarBool:    {"true", "false"},
		scalarOddBool: {"True", "yes", "No", "ON", "off", "y", "N"},
		scalarOddInt:  {"0755", "0x1f", "0o17", "0b11", "1_000", "+1", "-01", "00"},
		scalarFloat:   {"1.5", "1e3", ".5", "5.", "-1.5E-3", "1e999", "1_0.5"},
		scalarSpecial: {".nan", ".inf", "-.inf", "+.INF", ".NaN"},
		scalarTime:    {"22:22", "1:2:3", "190:20:30.15", "2026-11-30", "2026-11-30T10:00:00Z", "2026-11-30 10:00:00"},
	} {
		for _, word := range words {
			if got := plainScalar(word); got != kind && !(word == "0x" && got == scalarOddInt) {
				t.Errorf("%q is %s, want %s", word, got.what(), kind.what())
			}
		}
	}
}

func TestDidYouMean(t *testing.T) {
	for wrong, want := range map[string]string{"stat": "state", "PROFILE": "profile", "profiel": "profile", "xyz": "", "parameter": "parameters", "": ""} {
		got := didYouMean(wrong, []string{"profile", "state", "parameters"})
		if want != "" {
			want = ": did you mean '" + want + "'?"
		}
		if got != want {
			t.Errorf("%q: %q, want %q", wrong, got, want)
		}
	}
}

// thousandServers are small files, as a directory of many copies holds them.
func thousandServers() [][]byte {
	files := make([][]byte, 1000)
	for i := range files {
		files[i] = fmt.Appendf(nil, "apiVersion: reconciler.dev/v1alpha1\nkind: Server\nmetadata:\n  name: s%d\n  labels: {pool: eu}\nspec:\n  profile: rust\n  parameters: {port: %d, motd: hello}\n", i, 20000+i)
	}
	return files
}

func BenchmarkDecodeThousandServers(b *testing.B) {
	files := thousandServers()
	b.ReportAllocs()
	for b.Loop() {
		for _, data := range files {
			if f := Decode("s.yaml", data); len(f.Faults) > 0 {
				b.Fatal(f.Faults)
			}
		}
	}
}

func BenchmarkDecodeProfile(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		Decode("small.yaml", []byte(small))
	}
}

// The largest file of nothing but faults.
func BenchmarkDecodeHostile(b *testing.B) {
	data := append([]byte(server), bytes.Repeat([]byte("x\n"), 10)...)
	data = append(data[:len(server)], bytes.Repeat([]byte("aa: b\n"), 170_000)...)
	for b.Loop() {
		Decode("a.yaml", data)
	}
}

// EC-18: `kind` alone picks the decoder; there is no other form.
func TestKindPicksTheDecoder(t *testing.T) {
	f := Decode("profile.yaml", []byte("apiVersion: reconciler.dev/v1alpha1\nkind: Server\nmetadata: {name: a}\nspec: {actions: {start: {executable: bin/a}}}\n"))
	want := "profile.yaml:4:7: spec.profile: Required value: must be given\nprofile.yaml:4:8: spec.actions: Forbidden: there is no such field\n"
	if got := faultLines(f.Faults); got != want {
		t.Errorf("got:\n%s", got)
	}
	for _, text := range []string{"reconciler://server/a?profile=b\n", "server a profile=b\n", "- server/a\n"} {
		if f := Decode("a.yaml", []byte(text)); f.Ours || len(f.Documents) > 0 {
			t.Errorf("%q is taken for a manifest", text)
		}
	}
}

// EC-1: the parts of what is run are fields of their own; none is made of another.
func TestPartsAreSeparate(t *testing.T) {
	rows := map[string]bool{}
	for _, row := range Fields(KindProfile) {
		rows[row.Path] = true
	}
	for _, path := range []string{"spec.actions.start.workspace", "spec.actions.start.executable", "spec.actions.start.args",
		"spec.env", "spec.directory.workspace", "spec.directory.path", "spec.endpoints[].address", "spec.endpoints[].port",
		"spec.actions.stop.steps[].waitSeconds", "spec.tun.remote", "spec.tun.provider"} {
		if !rows[path] {
			t.Errorf("there is no field %s", path)
		}
	}
}
