package keeper

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"reconciler.dev/reconciler/keeper/secret"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// words are the texts that a program is executed with, secrets and all: its arguments, or its environment. They are revealed
// for the call that forks, and nowhere else.
type words []secret.Text

// wordLimit is the longest argument or variable that Linux takes, in bytes (execve(2): MAX_ARG_STRLEN is 32 pages of 4 KiB,
// with its ending NUL).
const wordLimit = 32*4096 - 1

// fillWords puts the secrets into texts. field says where one stands in the manifest, and judge what is wrong with a text
// that has its secrets in it. An error is a refusal that names the reference, and neither a path nor a content.
func fillWords(h *Host, texts []string, field func(i int) string, judge func(string) string) (words, error) {
	w := make(words, 0, len(texts))
	for i, text := range texts {
		filled, err := h.Secrets().Fill(text)
		if err != nil {
			w.zero()
			return nil, refuse(CheckSecret, "%s: %v", field(i), err)
		}
		w = append(w, filled)
		if len(filled.Parts) == 0 {
			continue
		}
		detail := judge(string(filled.Reveal()))
		if len(filled.Reveal()) > wordLimit {
			detail = fmt.Sprintf("must be at most %d bytes: Linux takes no longer one", wordLimit)
		}
		if detail != "" {
			w.zero()
			return nil, refuse(CheckSecret, "%s: with secret %s in its place it %s", field(i), strings.Join(secretRefs(text), " and secret "), detail)
		}
	}
	return w, nil
}

// fillArguments are the arguments of a program whose list is in the manifest at the field.
func fillArguments(h *Host, args []string, field string) (words, error) {
	return fillWords(h, args, func(i int) string { return field + "[" + strconv.Itoa(i) + "]" }, spec.CheckFilledArgument)
}

// fillEnvironment is a workload's whole environment, as environment has it.
func fillEnvironment(h *Host, l *spec.Launch, home, user, notify string) (words, error) {
	env := environment(l, home, user, notify)
	return fillWords(h, env, func(i int) string {
		name, _, _ := strings.Cut(env[i], "=")
		at := slices.IndexFunc(l.Env, func(e spec.LaunchEnv) bool { return e.Name == name })
		return "spec.env[" + strconv.Itoa(at) + "].value"
	}, spec.CheckFilledVariable)
}

// reveal is what execve(2) is given. Go copies it once more for the fork; those copies are garbage afterwards, which nobody
// overwrites at once.
func (w words) reveal() []string {
	texts := make([]string, len(w))
	for i, t := range w {
		texts[i] = string(t.Reveal())
	}
	return texts
}

// prints are those of the secrets in all of them, by the id of a run, sorted by what they are called.
func prints(runID string, all ...words) []state.SecretPrint {
	var found []state.SecretPrint
	for _, w := range all {
		for _, t := range w {
			for i, v := range t.Parts {
				found = append(found, state.SecretPrint{Ref: t.Refs[i], Print: v.Print(runID)})
			}
		}
	}
	slices.SortFunc(found, func(a, b state.SecretPrint) int {
		return cmp.Or(strings.Compare(a.Ref, b.Ref), strings.Compare(a.Print, b.Print))
	})
	// One that was replaced between two places has two prints, and so is another from the first look on.
	return slices.Compact(found)
}

func (w words) zero() {
	for _, t := range w {
		t.Zero()
	}
}

// secretRefs are the references to secrets in a text, each once.
func secretRefs(text string) []string {
	var refs []string
	spec.CutSecrets(text, func(string) {}, func(ref string) {
		if !slices.Contains(refs, ref) {
			refs = append(refs, ref)
		}
	})
	return refs
}
