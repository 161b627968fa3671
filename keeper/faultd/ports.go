package faultd

import (
	"flag"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"time"
)

func latePortFlags(fs *flag.FlagSet) func(*process) int {
	addr := fs.String("addr", "127.0.0.1:0", "listen on this `address`")
	udp := fs.Bool("udp", false, "UDP, which echoes, instead of TCP, which answers HTTP 200")
	after := fs.Duration("after", 5*time.Second, "open it after this long")
	return func(*process) int {
		stop := caught(syscall.SIGTERM, syscall.SIGINT)
		say("starting")
		if !pause(*after, stop) {
			return 0
		}
		open := openTCP
		if *udp {
			open = openUDP
		}
		if err := open(*addr); err != nil {
			return fail(err)
		}
		<-stop
		return 0
	}
}

func openTCP(addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	say("listening tcp %s", l.Addr())
	go http.Serve(l, http.HandlerFunc(answerOK))
	return nil
}

func openUDP(addr string) error {
	c, err := net.ListenPacket("udp", addr)
	if err != nil {
		return err
	}
	say("listening udp %s", c.LocalAddr())
	go func() {
		b := make([]byte, 64<<10)
		for {
			n, from, err := c.ReadFrom(b)
			if err != nil {
				return
			}
			if _, err := c.WriteTo(b[:n], from); err != nil {
				return
			}
		}
	}()
	return nil
}

func unreadyFlags(fs *flag.FlagSet) func(*process) int {
	var u unready
	fs.StringVar(&u.addr, "addr", "127.0.0.1:0", "serve HTTP on this `address`")
	fs.DurationVar(&u.after, "after", 5*time.Second, "become unready after this long")
	fs.DurationVar(&u.recover, "recover", 0, "become ready again after this much longer; 0 is never")
	fs.StringVar(&u.mode, "mode", "error", "error answers HTTP 503, hang accepts and never answers, close stops listening")
	return func(*process) int { return u.run() }
}

// unready serves well, then badly, and perhaps well again.
type unready struct {
	addr, mode     string
	after, recover time.Duration

	bad    atomic.Bool
	server *http.Server
}

func (u *unready) run() int {
	switch u.mode {
	case "error", "hang", "close":
	default:
		return fail(fmt.Errorf("-mode %q is none of error, hang, close", u.mode))
	}
	stop := caught(syscall.SIGTERM, syscall.SIGINT)
	if err := u.listen(); err != nil {
		return fail(err)
	}
	say("ready %s", u.addr)
	if !pause(u.after, stop) {
		return 0
	}
	u.bad.Store(true)
	if u.mode == "close" {
		u.server.Close()
	}
	say("unready")
	if u.recover > 0 {
		if !pause(u.recover, stop) {
			return 0
		}
		u.bad.Store(false)
		if u.mode == "close" {
			if err := u.listen(); err != nil {
				return fail(err)
			}
		}
		say("ready again")
	}
	<-stop
	return 0
}

// listen opens the address, and keeps the port that it got for the next time.
func (u *unready) listen() error {
	l, err := net.Listen("tcp", u.addr)
	if err != nil {
		return err
	}
	u.addr = l.Addr().String()
	u.server = &http.Server{Handler: u}
	go u.server.Serve(l)
	return nil
}

// ServeHTTP implements http.Handler.
func (u *unready) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case !u.bad.Load():
		answerOK(w, r)
	case u.mode == "hang":
		<-r.Context().Done()
	default:
		http.Error(w, "unready", http.StatusServiceUnavailable)
	}
}
