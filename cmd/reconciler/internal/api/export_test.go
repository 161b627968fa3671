package api

import (
	"context"
	"net/http"
	"strings"
)

// ControlPaths is the path of every route of the Unix socket, about a server that [apitest.Sample] has.
func ControlPaths() []string {
	var paths []string
	for _, r := range routes {
		_, path, _ := strings.Cut(r.pattern, " ")
		path = strings.ReplaceAll(path, "{namespace}", "default")
		paths = append(paths, strings.ReplaceAll(path, "{name}", "town"))
	}
	return paths
}

// Routes is every route as a request, and whether everybody may ask for it.
func Routes() (requests []string, public []bool) {
	for i, path := range ControlPaths() {
		method, _, _ := strings.Cut(routes[i].pattern, " ")
		requests = append(requests, method+" "+path)
		public = append(public, routes[i].access == anybody)
	}
	return requests, public
}

// FromUser is r as it comes from a user; negative = the kernel does not tell.
func FromUser(r *http.Request, uid int) *http.Request {
	p := peer{uid: uid}
	if uid < 0 {
		p = peer{err: http.ErrNotSupported}
	}
	return r.WithContext(context.WithValue(r.Context(), peerKey{}, p))
}
