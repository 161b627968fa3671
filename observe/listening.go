package observe

import (
	"reconciler.dev/reconciler/spec"
)

// RunName names a run of a scope.
type RunName struct {
	Scope spec.Scope `json:"scope"`
	ID    string     `json:"id"`
}

// RunListening is who listens on the endpoints of a run, by the kernel's tables of sockets at one moment.
type RunListening struct {
	RunName
	Endpoints []Listening `json:"endpoints"` // of all that are declared, in their order
}

// Listening is who listens on one endpoint: over TCP with a socket that listens, over UDP with one that is bound.
type Listening struct {
	Endpoint string   `json:"endpoint"`
	By       Listener `json:"by"`
	// Holder is whose run the listener is, when it is a stranger that we started.
	Holder *spec.Scope `json:"holder,omitempty"`
	// Elsewhere is set when the run listens on the port, but not at the declared address.
	Elsewhere bool `json:"elsewhere,omitempty"`
	// Wide is set when the run listens on every address, and one is declared.
	Wide bool `json:"wide,omitempty"`
	// Shared is set when others listen at the very same address: who gets what is the kernel's choice.
	Shared bool `json:"shared,omitempty"`
	// Public is set when the run listens at an address that may be reached from other networks: every one, or one that is
	// neither private nor of this host alone.
	Public bool `json:"public,omitempty"`
	// At is the address where the run listens, when none is declared and the usual one is not among those; "" = the usual one.
	At string `json:"at,omitempty"`
}

// Listener is who gets what is sent to an endpoint.
type Listener string

// The listeners.
const (
	ListenerOwn      Listener = "Own"      // the run's own processes
	ListenerStranger Listener = "Stranger" // another process than the run's
	ListenerNobody   Listener = "Nobody"
	ListenerUnseen   Listener = "Unseen" // the kernel does not show us enough of the run's processes
)
