// Package spec is the manifest language: bytes in, values out.
//
// It owns the kinds Profile, Server, Job and Host (API reconciler.dev/v1alpha1), the launch that a Server and its
// Profile resolve to, the Set of everything wanted, and the public status. It decodes, validates, resolves, hashes,
// renders, and writes the schema that a cluster takes.
//
// It promises: every fault of a file at once, each with its place, field, value and remedy; no argument, environment
// value or string parameter in any fault (but for the name in a `$(name)` that names nothing); a field of a later
// version is refused by name, never ignored; equal manifests have equal hashes, whatever their order, comments, place
// or spelling; a hash does not change because a new version knows more fields.
//
// It never opens a file, looks at the host, or changes what a manifest says: loading only looks.
package spec
