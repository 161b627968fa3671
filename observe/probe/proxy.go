package probe

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"strconv"

	"reconciler.dev/reconciler/spec"
)

// headLimit is how long the head of an HTTP response may be, in bytes.
const headLimit = 16 << 10

// ViaProxy greets a proxy and, with a url, fetches that through it: only bytes that came through prove the way beyond
// the proxy, as some answer a request for a way before they have one. An answer with a status from 200 to 399 is success. Over
// "Mixed" it speaks SOCKS5. With credentials, which are not changed, a proxy must take them, also to be greeted. An error holds neither
// them nor an address, but for that of the connection itself ([net.OpError]).
func ViaProxy(conn net.Conn, appProtocol, target string, who *Credentials) error {
	in := bufio.NewReaderSize(conn, headLimit)
	if err := who.check(appProtocol); err != nil {
		return &notRun{err}
	}
	if target == "" {
		if appProtocol == spec.AppHTTP {
			return greetHTTP(conn, in, who)
		}
		agrees, err := greetSOCKS(conn, in, who)
		if err == nil && !agrees && who != nil {
			err = errTakesNone
		}
		return err
	}
	to, err := parseTarget(target)
	if err != nil {
		return &notRun{err}
	}
	if appProtocol != spec.AppHTTP {
		if err := connectSOCKS(conn, in, to, who); err != nil {
			return err
		}
		return to.fetch(conn, in, to.path, nil)
	}
	if !to.tls {
		return to.fetch(conn, in, target, who) // a proxy takes the whole URL (RFC 9112 3.2.2)
	}
	if err := connectHTTP(conn, in, to, who); err != nil {
		return err
	}
	return to.fetch(conn, in, to.path, nil)
}

// target is what is fetched through a proxy.
type target struct {
	tls        bool
	host, path string
	port       uint16
}

func parseTarget(text string) (t target, err error) {
	u, err := url.Parse(text)
	if err != nil {
		return t, errors.New("the url is none")
	}
	t = target{tls: u.Scheme == "https", host: u.Hostname(), path: u.RequestURI(), port: 80}
	if t.tls {
		t.port = 443
	}
	if p := u.Port(); p != "" {
		n, err := strconv.ParseUint(p, 10, 16)
		if err != nil || n == 0 {
			return t, errors.New("the url's port is not from 1 to 65535")
		}
		t.port = uint16(n)
	}
	if t.host == "" || len(t.host) > 255 {
		return t, errors.New("the url's host is empty or longer than 255 bytes")
	}
	return t, nil
}

// authority is host and port, as they stand behind Host and CONNECT.
func (t target) authority() string { return net.JoinHostPort(t.host, strconv.Itoa(int(t.port))) }

func (t target) loopback() bool {
	a, err := netip.ParseAddr(t.host)
	return t.host == "localhost" || err == nil && a.IsLoopback()
}

// fetch asks for the target over a way that leads to it, or the proxy for it, which may want to know who asks, and reads the head of
// the response.
func (t target) fetch(conn net.Conn, in *bufio.Reader, what string, who *Credentials) error {
	if t.tls {
		secure := tls.Client(through{conn, in}, &tls.Config{
			ServerName:         t.host,
			InsecureSkipVerify: t.loopback(), // a server's own certificate, on this host
			NextProtos:         []string{"http/1.1"},
			MinVersion:         tls.VersionTLS12,
		})
		if err := secure.Handshake(); err != nil { // ends with the connection
			return fmt.Errorf("TLS with the url's host: %w", err)
		}
		conn, in = secure, bufio.NewReaderSize(secure, headLimit)
	}
	if err := send(conn, "GET "+what+" HTTP/1.1\r\nHost: "+t.authority()+"\r\nAccept: */*\r\nConnection: close\r\n", who); err != nil {
		return err
	}
	status, err := readHead(in)
	switch {
	case err != nil:
		return err
	case status == wantsCredentials && who != nil:
		return errRefuses
	case status < 200 || status > 399:
		return fmt.Errorf("the url is answered with status %d; 200 to 399 is success", status)
	}
	return nil
}

// through is a connection of which some bytes were read already.
type through struct {
	net.Conn
	in *bufio.Reader
}

func (c through) Read(b []byte) (int, error) { return c.in.Read(b) }

// greetHTTP asks an HTTP proxy about itself alone (RFC 9110 9.3.7, and 7.6.2: Max-Forwards 0 lets nobody pass it on). That it answers at
// all is its greeting: proxies refuse that request in many ways. One that is told who asks must not ask for that.
func greetHTTP(conn net.Conn, in *bufio.Reader, who *Credentials) error {
	if err := send(conn, "OPTIONS * HTTP/1.1\r\nHost: "+conn.RemoteAddr().String()+"\r\nMax-Forwards: 0\r\nConnection: close\r\n", who); err != nil {
		return err
	}
	status, err := readStatus(in)
	if err == nil && status == wantsCredentials && who != nil {
		return errRefuses
	}
	return err
}

// connectHTTP asks an HTTP proxy for a way to a target (RFC 9110 9.3.6).
func connectHTTP(conn net.Conn, in *bufio.Reader, to target, who *Credentials) error {
	if err := send(conn, "CONNECT "+to.authority()+" HTTP/1.1\r\nHost: "+to.authority()+"\r\n", who); err != nil {
		return err
	}
	status, err := readHead(in)
	switch {
	case err != nil:
		return err
	case status == wantsCredentials && who != nil:
		return errRefuses
	case status == wantsCredentials:
		return errNeedsCredentials
	case status < 200 || status > 299:
		return fmt.Errorf("the proxy answers CONNECT with status %d", status)
	}
	return nil
}

// readHead reads the head of a response to its end and returns the status.
func readHead(in *bufio.Reader) (int, error) {
	status, err := readStatus(in)
	for left := headLimit; err == nil && left > 0; {
		var line []byte
		line, err = readLine(in)
		if err == nil && len(line) == 0 {
			return status, nil
		}
		left -= len(line) + 2
	}
	if err == nil {
		err = fmt.Errorf("the head of the response is longer than %d bytes", headLimit)
	}
	return 0, err
}

var errNoHTTP = errors.New("the answer is no HTTP: is it another `appProtocol`?")

// readStatus reads a status line (RFC 9112 4).
func readStatus(in *bufio.Reader) (int, error) {
	line, err := readLine(in)
	if err != nil {
		return 0, err
	}
	rest, ok := bytes.CutPrefix(line, []byte("HTTP/1."))
	if !ok || len(rest) < 5 || rest[1] != ' ' || len(rest) > 5 && rest[5] != ' ' {
		return 0, errNoHTTP
	}
	status, err := strconv.ParseUint(string(rest[2:5]), 10, 16)
	if err != nil || status < 100 {
		return 0, errNoHTTP
	}
	return int(status), nil
}

// readLine reads a line without its end. One that is longer than the reader's buffer is none.
func readLine(in *bufio.Reader) ([]byte, error) {
	line, err := in.ReadSlice('\n')
	switch {
	case errors.Is(err, io.EOF):
		return nil, errors.New("the answer ended early")
	case errors.Is(err, bufio.ErrBufferFull):
		return nil, errNoHTTP
	case err != nil:
		return nil, err
	}
	return bytes.TrimSuffix(line[:len(line)-1], []byte{'\r'}), nil
}

var errNeedsCredentials = errors.New("the proxy asks for credentials: declare `basicAuth`, probe it without `url`, or let it take loopback without them")

var errNoSOCKS = errors.New("the answer is no SOCKS5: is it another `appProtocol`?")

// The words of SOCKS5 (RFC 1928).
const (
	socksVersion = 5
	socksConnect = 1
	socksOpen    = 0 // the method without credentials
	socksLogin   = 2 // with a user name and a password (RFC 1929)
	socksIPv4    = 1
	socksName    = 3
	socksIPv6    = 4
	socksRefuses = 0xff
)

// greetSOCKS offers a SOCKS5 proxy to go on without credentials, or with those that it is given and in no other way (RFC 1928 3), and
// reports whether it agrees. That it answers is its greeting.
func greetSOCKS(conn net.Conn, in *bufio.Reader, who *Credentials) (agrees bool, err error) {
	method := byte(socksOpen)
	if who != nil {
		method = socksLogin
	}
	if _, err := conn.Write([]byte{socksVersion, 1, method}); err != nil {
		return false, err
	}
	var reply [2]byte
	if err := readAll(in, reply[:]); err != nil {
		return false, err
	}
	switch {
	case reply[0] != socksVersion || reply[1] != method && reply[1] != socksRefuses:
		return false, errNoSOCKS
	case reply[1] == socksRefuses:
		return false, nil
	case who != nil:
		return true, who.logIn(conn, in)
	}
	return true, nil
}

// connectSOCKS asks a SOCKS5 proxy for a way to a target (RFC 1928 4 and 6). A name goes to the proxy as it is.
func connectSOCKS(conn net.Conn, in *bufio.Reader, to target, who *Credentials) error {
	agrees, err := greetSOCKS(conn, in, who)
	switch {
	case err != nil:
		return err
	case !agrees && who != nil:
		return errTakesNone
	case !agrees:
		return errNeedsCredentials
	}
	request := append([]byte{socksVersion, socksConnect, 0}, socksAddress(to.host)...)
	request = append(request, byte(to.port>>8), byte(to.port))
	if _, err := conn.Write(request); err != nil {
		return err
	}
	var head [5]byte // and the first byte of the address
	if err := readAll(in, head[:]); err != nil {
		return err
	}
	rest := map[byte]int{socksIPv4: 3, socksIPv6: 15, socksName: int(head[4])}
	more, known := rest[head[3]]
	switch {
	case head[0] != socksVersion:
		return errNoSOCKS
	case head[1] != 0:
		return fmt.Errorf("the proxy has no way to the url's host: %s", socksReply(head[1]))
	case !known:
		return errNoSOCKS
	}
	return readAll(in, make([]byte, more+2)) // the address that it dials from
}

func socksAddress(host string) []byte {
	a, err := netip.ParseAddr(host)
	switch {
	case err != nil:
		return append([]byte{socksName, byte(len(host))}, host...)
	case a.Unmap().Is4():
		return append([]byte{socksIPv4}, a.Unmap().AsSlice()...)
	}
	return append([]byte{socksIPv6}, a.AsSlice()...)
}

// socksReply is a reply code in words (RFC 1928 6).
func socksReply(code byte) string {
	words := []string{"", "general failure", "not allowed", "network unreachable", "host unreachable", "connection refused", "TTL expired", "no such command", "no such kind of address"}
	if int(code) < len(words) {
		return words[code]
	}
	return "code " + strconv.Itoa(int(code))
}

// readAll fills b.
func readAll(in io.Reader, b []byte) error {
	_, err := io.ReadFull(in, b)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the answer ended early")
	}
	return err
}
