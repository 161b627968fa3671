package faultd

import (
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// game is a server that answers queries as a file says that is read at each: a number is how many play, "deaf" is no answer.
type game struct {
	addr, protocol, state string
}

func gameFlags(fs *flag.FlagSet) func(*process) int {
	g := &game{}
	fs.StringVar(&g.addr, "addr", "127.0.0.1:0", "listen on this `address`")
	fs.StringVar(&g.protocol, "protocol", "minecraft", "minecraft (TCP) or a2s (UDP)")
	fs.StringVar(&g.state, "state", "players", "`file` with the number of players, or \"deaf\"; without it nobody plays")
	return func(*process) int {
		stop := caught(syscall.SIGTERM, syscall.SIGINT)
		serve := map[string]func() (net.Addr, error){"minecraft": g.minecraft, "a2s": g.a2s}[g.protocol]
		if serve == nil {
			return fail(fmt.Errorf("-protocol %q is none of minecraft, a2s", g.protocol))
		}
		addr, err := serve()
		if err != nil {
			return fail(err)
		}
		say("game listening %s", addr)
		<-stop
		return 0
	}
}

// players is how many play; false = it is deaf now.
func (g *game) players() (int, bool) { return readPlayers(g.state) }

func readPlayers(file string) (int, bool) {
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, true
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	return n, err == nil
}

// minecraft answers each connection's first bytes with a status.
func (g *game) minecraft() (net.Addr, error) {
	return acceptAll(g.addr, func(c net.Conn) {
		request := make([]byte, 1024)
		if _, err := c.Read(request); err != nil {
			return
		}
		n, hears := g.players()
		if !hears {
			_, _ = io.Copy(io.Discard, c) // until the asker goes
			return
		}
		status := fmt.Sprintf(`{"version":{"name":"faultd","protocol":-1},"players":{"max":20,"online":%d},"description":"faultd"}`, n)
		packet := binary.AppendUvarint([]byte{0}, uint64(len(status)))
		packet = append(packet, status...)
		_, _ = c.Write(append(binary.AppendUvarint(nil, uint64(len(packet))), packet...))
	})
}

// acceptAll lets talk speak with whoever connects, until the process ends.
func acceptAll(addr string, talk func(net.Conn)) (net.Addr, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				talk(c)
			}()
		}
	}()
	return l.Addr(), nil
}

// a2s answers a question with a challenge, and the same with that challenge with an info.
func (g *game) a2s() (net.Addr, error) {
	c, err := net.ListenPacket("udp", g.addr)
	if err != nil {
		return nil, err
	}
	const (
		head      = "\xff\xff\xff\xff"
		question  = head + "TSource Engine Query\x00"
		challenge = "\x0a\x0b\x0c\x0d"
	)
	go func() {
		b := make([]byte, 2048)
		for {
			n, from, err := c.ReadFrom(b)
			if err != nil {
				return
			}
			players, hears := g.players()
			switch {
			case !hears:
			case string(b[:n]) == question:
				_, _ = c.WriteTo([]byte(head+"A"+challenge), from)
			case string(b[:n]) == question+challenge:
				_, _ = c.WriteTo(append([]byte(head+"I\x11name\x00map\x00folder\x00game\x00\x01\x00"), byte(players), 32, 0, 'd', 'l', 0, 1), from)
			}
		}
	}()
	return c.LocalAddr(), nil
}
