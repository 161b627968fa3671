package cli

import (
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"reconciler.dev/reconciler/cmd/reconciler/internal/api"
	"reconciler.dev/reconciler/spec"
)

// resources are the kinds of thing that get lists: what people write -> the resource.
var resources = map[string]string{
	"server": api.Servers, "servers": api.Servers,
	"profile": api.Profiles, "profiles": api.Profiles,
	"hold": api.Holds, "holds": api.Holds,
	"job": api.Jobs, "jobs": api.Jobs,
	"source": api.Sources, "sources": api.Sources,
}

const resourceNames = "servers, profiles, jobs, holds or sources"

// parseResource reads the name of a resource, singular or plural.
func parseResource(word string) (string, error) {
	if r, ok := resources[strings.ToLower(word)]; ok {
		return r, nil
	}
	err := usagef("unknown resource %q; there are %s", word, resourceNames)
	switch strings.ToLower(word) {
	case "pod", "pods", "po", "all", "deploy", "deployments", "svc", "services", "processes":
		return "", hintf(err, "what runs here is a server: 'reconciler get servers'")
	case "event", "events", "ev":
		return "", hintf(err, "'reconciler events' lists them")
	}
	return "", err
}

// parseServer reads NAME, which is `town` or `server/town`.
func parseServer(arg, namespace string) (spec.Key, error) {
	kind, name, found := strings.Cut(arg, "/")
	if !found {
		kind, name = "server", arg
	}
	if resources[strings.ToLower(kind)] != api.Servers {
		return spec.Key{}, usagef("%q is no server: a name is NAME or server/NAME", arg)
	}
	return key(namespace, name)
}

// key is a checked key.
func key(namespace, name string) (spec.Key, error) {
	if !spec.IsLabel(namespace) {
		return spec.Key{}, usagef("%q is no namespace: 1 to 63 of a-z, 0-9 and '-', beginning and ending with a letter or digit", namespace)
	}
	if !spec.IsLabel(name) {
		return spec.Key{}, usagef("%q is no name: 1 to 63 of a-z, 0-9 and '-', beginning and ending with a letter or digit", name)
	}
	return spec.Key{Namespace: namespace, Name: name}, nil
}

// singular is the kind's word before a name, as in server/town.
func singular(resource string) string { return strings.TrimSuffix(resource, "s") }

// ref is server/town or job/save-1, with the namespace said when it is not the default one; "" = a server.
func ref(resource string, k spec.Key) string {
	text := singular(or(resource, api.Servers)) + "/" + k.Name
	if k.Namespace != spec.DefaultNamespace {
		text += " (namespace " + k.Namespace + ")"
	}
	return text
}

// serverRef is server/town, with the namespace said when it is not the default one.
func serverRef(k spec.Key) string {
	return ref(api.Servers, k)
}

// scopeFlags are -n and, where more than one may be meant, -A.
type scopeFlags struct {
	namespace string
	all       bool
}

func namespaceFlag(cmd *cobra.Command, s *scopeFlags) {
	cmd.Flags().StringVarP(&s.namespace, "namespace", "n", spec.DefaultNamespace, "namespace")
}

func allNamespacesFlag(cmd *cobra.Command, s *scopeFlags) {
	cmd.Flags().BoolVarP(&s.all, "all-namespaces", "A", false, "in all namespaces")
}

// list is the namespace to list in: "" for all.
func (s scopeFlags) list() string {
	if s.all {
		return ""
	}
	return s.namespace
}

// sorted is keys by namespace and name.
func sorted(keys []spec.Key) []spec.Key {
	return slices.SortedFunc(slices.Values(keys), func(a, b spec.Key) int { return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name) })
}

// sortedKeys is the keys of m in order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
