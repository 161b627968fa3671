package selftest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
)

// endpoints has a port be a stranger's first, and the workload's afterwards.
func endpoints(ctx context.Context, t *trial) (string, error) {
	const name = "endpoint"
	stranger, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("no port can be had: %w", err)
	}
	defer stranger.Close() // nothing was written to it
	port := stranger.Addr().(*net.TCPAddr).Port
	order := t.order(name)
	order.Launch.Endpoints = []spec.LaunchEndpoint{{Name: "game", Port: port, Protocol: spec.ProtocolTCP, Address: "127.0.0.1"}}
	if err := t.startAs(ctx, name, order); err != nil {
		return "", err
	}
	if by, err := t.listener(ctx, name); err != nil || by != observe.ListenerStranger {
		return "", errors.Join(err, fmt.Errorf("who listens on a stranger's port is told as %s", by))
	}
	stranger.Close()
	if err := t.tell(ctx, name, "listen 127.0.0.1:"+strconv.Itoa(port)); err != nil {
		return "", err
	}
	if said, err := t.heard(ctx, name, "listens "); err != nil || said != "yes" {
		return "", errors.Join(err, errors.New("the workload has got no port: "+said))
	}
	if by, err := t.listener(ctx, name); err != nil || by != observe.ListenerOwn {
		return "", errors.Join(err, fmt.Errorf("who listens on the workload's port is told as %s", by))
	}
	return "a port is told to be a stranger's, and then the workload's own", t.kill(ctx, name)
}

// listener is who listens on the endpoint of a workload.
func (t *trial) listener(ctx context.Context, name string) (observe.Listener, error) {
	f := t.facts(name)
	found, err := t.client.Listening(ctx, []observe.RunName{{Scope: f.Scope, ID: f.Run.ID}})
	if err != nil || len(found) != 1 || len(found[0].Endpoints) != 1 {
		return "", errors.Join(err, fmt.Errorf("of one endpoint there are %d answers", len(found)))
	}
	return found[0].Endpoints[0].By, nil
}
