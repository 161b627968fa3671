package probe

import (
	"bufio"
	"encoding/base64"
	"errors"
	"net"

	"reconciler.dev/reconciler/spec"
)

// Credentials are what a proxy wants to know of whoever asks.
type Credentials struct {
	Username string
	Password []byte // whose it is zeroes it
}

// loginLimit is how long a user name and a password for SOCKS5 may be, in bytes (RFC 1929 2). Neither may be empty.
const loginLimit = 255

// wantsCredentials is the status with which an HTTP proxy asks who asks (RFC 9110 15.5.8).
const wantsCredentials = 407

var (
	errRefuses   = errors.New("the proxy refuses the credentials")
	errTakesNone = errors.New("the proxy takes no user name and password: does it ask for any?")
)

// check refuses what a proxy of this kind cannot be told.
func (c *Credentials) check(appProtocol string) error {
	switch {
	case c == nil:
	case appProtocol != spec.AppHTTP && (len(c.Username) < 1 || len(c.Username) > loginLimit || len(c.Password) < 1 || len(c.Password) > loginLimit):
		return errors.New("the user name or the password is empty or longer than 255 bytes, which is what SOCKS5 carries")
	}
	return nil
}

// logIn tells a SOCKS5 proxy who asks (RFC 1929).
func (c *Credentials) logIn(conn net.Conn, in *bufio.Reader) error {
	login := make([]byte, 0, 3+2*loginLimit)
	login = append(append(login, 1, byte(len(c.Username))), c.Username...)
	login = append(append(login, byte(len(c.Password))), c.Password...)
	_, err := conn.Write(login)
	clear(login)
	if err != nil {
		return err
	}
	var reply [2]byte
	if err := readAll(in, reply[:]); err != nil {
		return err
	}
	switch {
	case reply[0] != 1:
		return errNoSOCKS
	case reply[1] != 0:
		return errRefuses
	}
	return nil
}

// send sends a request without a body, and to an HTTP proxy who asks (RFC 9110 11.7.2, RFC 7617). head is all but that.
func send(conn net.Conn, head string, who *Credentials) error {
	const agent, field = "User-Agent: reconciler\r\n", "Proxy-Authorization: Basic "
	request := []byte(head + agent)
	if who != nil {
		login := append([]byte(who.Username+":"), who.Password...)
		whole := make([]byte, 0, len(request)+len(field)+base64.StdEncoding.EncodedLen(len(login))+4)
		whole = base64.StdEncoding.AppendEncode(append(append(whole, request...), field...), login)
		clear(login)
		request = append(whole, "\r\n"...)
	}
	request = append(request, "\r\n"...)
	_, err := conn.Write(request)
	clear(request)
	return err
}
