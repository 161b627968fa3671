package faultd

import (
	"flag"
	"io"
	"net"
	"strconv"
	"syscall"
)

// socksFlags is a SOCKS5 proxy without credentials that dials what it is asked for; with "deaf" in its file it says nothing.
func socksFlags(fs *flag.FlagSet) func(*process) int {
	addr := fs.String("addr", "127.0.0.1:0", "listen on this `address`")
	state := fs.String("state", "players", "with \"deaf\" in this `file` it says nothing")
	return func(*process) int {
		stop := caught(syscall.SIGTERM, syscall.SIGINT)
		at, err := acceptAll(*addr, func(c net.Conn) {
			if _, hears := readPlayers(*state); !hears {
				_, _ = io.Copy(io.Discard, c)
				return
			}
			_ = proxySOCKS(c) // whoever asks sees that it ended
		})
		if err != nil {
			return fail(err)
		}
		say("socks listening %s", at)
		<-stop
		return 0
	}
}

// proxySOCKS serves one connection (RFC 1928).
func proxySOCKS(c net.Conn) error {
	b := make([]byte, 262)
	if _, err := io.ReadFull(c, b[:2]); err != nil {
		return err
	}
	if _, err := io.ReadFull(c, b[:b[1]]); err != nil {
		return err
	}
	if _, err := c.Write([]byte{5, 0}); err != nil {
		return err
	}
	if _, err := io.ReadFull(c, b[:4]); err != nil {
		return err
	}
	size := map[byte]int{1: net.IPv4len, 4: net.IPv6len}[b[3]]
	named := size == 0
	if named {
		if _, err := io.ReadFull(c, b[:1]); err != nil {
			return err
		}
		size = int(b[0])
	}
	if _, err := io.ReadFull(c, b[:size+2]); err != nil {
		return err
	}
	host := net.IP(b[:size]).String()
	if named {
		host = string(b[:size])
	}
	port := int(b[size])<<8 | int(b[size+1])
	far, err := net.Dial("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		_, _ = c.Write([]byte{5, 5, 0, 1, 0, 0, 0, 0, 0, 0})
		return err
	}
	defer far.Close()
	if _, err := c.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0}); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(far, c)
		far.Close()
	}()
	_, err = io.Copy(c, far)
	return err
}
