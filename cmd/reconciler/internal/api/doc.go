// Package api is how people and programs ask the reconciler: HTTP and JSON with Kubernetes' shapes.
//
// It owns the public objects (Server, Profile, Hold, Source, Event, List, Status), the table of routes, and the rules of
// who may ask for what. It serves two doors that share no handler:
//
//   - [Service.Control], on the Unix socket: everything. The caller is known by the kernel's word (SO_PEERCRED), never by
//     anything in the request (BP-14). Administrators are root and the user that runs the reconciler; others read
//     states, without specs and logs.
//   - [Service.Public], on TCP: /metrics, /healthz, /readyz and pages to read. No handler that changes anything, and none
//     that shows log or console text, is linked into it.
//
// Nothing it answers holds a PID, host path, argument, environment value, socket or hash (I10, BP-10); what a manifest
// said under spec is shown to administrators alone (EC-2). It decides nothing: a change is handed to the loop, and the
// answer says what the loop recorded.
package api
