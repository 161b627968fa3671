package faultd

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"net"
	"os"
	"strconv"
	"syscall"
)

// socksFlags is a SOCKS5 proxy that dials what it is asked for; with "deaf" in its file it says nothing.
func socksFlags(fs *flag.FlagSet) func(*process) int {
	addr := fs.String("addr", "127.0.0.1:0", "listen on this `address`")
	state := fs.String("state", "players", "with \"deaf\" in this `file` it says nothing")
	variable := fs.String("password-env", "", "want the user name admin and the password in this environment `variable`")
	return func(*process) int {
		password := ""
		if *variable != "" {
			password = os.Getenv(*variable)
		}
		stop := caught(syscall.SIGTERM, syscall.SIGINT)
		at, err := acceptAll(*addr, func(c net.Conn) {
			if _, hears := readPlayers(*state); !hears {
				_, _ = io.Copy(io.Discard, c)
				return
			}
			_ = proxySOCKS(c, password) // whoever asks sees that it ended
		})
		if err != nil {
			return fail(err)
		}
		say("socks listening %s", at)
		<-stop
		return 0
	}
}

// letInSOCKS lets a client in who knows the password, or anybody when there is none (RFC 1928 3, RFC 1929).
func letInSOCKS(c net.Conn, b []byte, password string) error {
	if _, err := io.ReadFull(c, b[:2]); err != nil {
		return err
	}
	methods := b[2 : 2+int(b[1])]
	if _, err := io.ReadFull(c, methods); err != nil {
		return err
	}
	method := byte(0)
	if password != "" {
		method = 2
	}
	if !bytes.Contains(methods, []byte{method}) {
		_, err := c.Write([]byte{5, 0xff})
		return errors.Join(errors.New("no method in common"), err)
	}
	if _, err := c.Write([]byte{5, method}); err != nil || method == 0 {
		return err
	}
	var said [2][]byte
	for i := range said {
		if _, err := io.ReadFull(c, b[:2-i]); err != nil { // the version stands before the first
			return err
		}
		said[i] = make([]byte, b[1-i])
		if _, err := io.ReadFull(c, said[i]); err != nil {
			return err
		}
	}
	if string(said[0]) != "admin" || string(said[1]) != password {
		say("socks refuses somebody")
		_, err := c.Write([]byte{1, 1})
		return errors.Join(errors.New("refused"), err)
	}
	_, err := c.Write([]byte{1, 0})
	return err
}

// proxySOCKS serves one connection (RFC 1928).
func proxySOCKS(c net.Conn, password string) error {
	b := make([]byte, 262)
	if err := letInSOCKS(c, b, password); err != nil {
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
