package main

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"testing"
)

// freePort is a port of loopback that is free, for a server that is told its port. Nobody else gets it before the server has it: it is
// none of those that the kernel gives to whoever asks for any (ip_local_port_range), none that the tests of the keeper take, which may
// run at the same time, and none that was told before.
func freePort(t *testing.T, network string) int {
	t.Helper()
	port, err := findPort(network)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func findPort(network string) (int, error) {
	const lowest, ports = 10_000, 10_000 // the keeper's tests have those above
	for range ports {
		port := lowest + rand.IntN(ports)
		if _, again := portsTold.LoadOrStore(port, true); !again && isFree(network, port) {
			return port, nil
		}
	}
	return 0, fmt.Errorf("no port of %s is free", network)
}

// portsTold are the ports that findPort has returned, or found to be somebody's.
var portsTold sync.Map

func isFree(network string, port int) bool {
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	if network == "udp" {
		c, err := net.ListenPacket("udp", address)
		return err == nil && c.Close() == nil
	}
	l, err := net.Listen("tcp", address)
	return err == nil && l.Close() == nil
}
