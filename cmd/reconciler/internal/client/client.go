package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"reconciler.dev/reconciler/cmd/reconciler/internal/api"
)

// ErrNotRunning says that no reconciler serves the socket.
var ErrNotRunning = errors.New("no reconciler is running here")

// ErrEnded says that the reconciler went away before it had answered.
var ErrEnded = errors.New("the reconciler has ended before it answered; what it runs goes on without it")

// ErrUnresponsive says that a reconciler has the socket, but did not answer in time.
var ErrUnresponsive = errors.New("the reconciler does not answer: it may be stopped or overloaded; what it runs goes on without it")

// answerPatience is how long the beginning of an answer may take to a question that changes nothing and waits for nothing: the reconciler
// answers those from memory, or after at most some two seconds without the keeper.
const answerPatience = 10 * time.Second

// Client asks one reconciler.
type Client struct {
	// Warn hears what an answer warns of, or why it takes long, when it is set before the first call.
	Warn func(string)

	http   *http.Client // waits as long as its context lets it: for a change, or for the first line of a log
	prompt *http.Client // waits answerPatience
}

// New is a client of the reconciler that serves socket. It connects when it is first asked something.
func New(socket string) *Client { return newPatient(socket, answerPatience) }

func newPatient(socket string, patience time.Duration) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}
	over := func(patience time.Duration) *http.Client {
		return &http.Client{Transport: &http.Transport{DialContext: dial, DisableCompression: true, ResponseHeaderTimeout: patience}}
	}
	return &Client{http: over(0), prompt: over(patience)}
}

// Close ends the idle connections.
func (c *Client) Close() {
	c.http.CloseIdleConnections()
	c.prompt.CloseIdleConnections()
}

// Get reads path with query and decodes the answer into out.
func (c *Client) Get(ctx context.Context, path string, query url.Values, out any) error {
	body, err := c.send(ctx, c.prompt, http.MethodGet, path, query, nil)
	if err != nil {
		return err
	}
	defer body.Close()
	if err := json.NewDecoder(body).Decode(out); err != nil {
		return fmt.Errorf("cannot read the reconciler's answer: %w", err)
	}
	return nil
}

// Post asks for a change. A nil out drops the answer's content.
func (c *Client) Post(ctx context.Context, path string, in, out any) error {
	data, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("cannot encode the request: %w", err)
	}
	body, err := c.send(ctx, c.http, http.MethodPost, path, nil, bytes.NewReader(data))
	if err != nil {
		return err
	}
	defer body.Close()
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(body).Decode(out); err != nil {
		return fmt.Errorf("cannot read the reconciler's answer: %w", err)
	}
	return nil
}

// Stream opens path for reading: a log, which begins with its first line, however late that comes. The caller closes it.
func (c *Client) Stream(ctx context.Context, path string, query url.Values) (io.ReadCloser, error) {
	return c.send(ctx, c.http, http.MethodGet, path, query, nil)
}

// Watch reads the lines of a watch until ctx is done, the stream ends, or each returns an error, which Watch returns.
// A stream that ends by itself is io.EOF: the reconciler has gone.
func (c *Client) Watch(ctx context.Context, path string, query url.Values, each func(api.WatchEvent) error) error {
	q := url.Values{}
	for k, v := range query {
		q[k] = v
	}
	q.Set("watch", "true")
	body, err := c.send(ctx, c.prompt, http.MethodGet, path, q, nil)
	if err != nil {
		return err
	}
	defer body.Close()
	dec := json.NewDecoder(body)
	for {
		var ev api.WatchEvent
		if err := dec.Decode(&ev); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if errors.Is(err, io.ErrUnexpectedEOF) {
				return io.EOF
			}
			return err
		}
		if ev.Type == api.WatchErr {
			return statusOf(ev.Object, "the watch was ended")
		}
		if err := each(ev); err != nil {
			return err
		}
	}
}

// Attach shows the console at path until ctx is done, the stream ends, or each returns an error, which Attach returns. A stream that
// ends by itself is io.EOF: the reconciler has gone, and with it the attachment. What it ends with by the reconciler's word is an
// [api.Status].
func (c *Client) Attach(ctx context.Context, path string, in api.Attach, each func(api.AttachEvent) error) error {
	data, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("cannot encode the request: %w", err)
	}
	body, err := c.send(ctx, c.http, http.MethodPost, path, nil, bytes.NewReader(data))
	if err != nil {
		return err
	}
	defer body.Close()
	dec := json.NewDecoder(body)
	for {
		var e api.AttachEvent
		if err := dec.Decode(&e); err != nil {
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
				return io.EOF
			}
			return err
		}
		if e.Type == api.AttachError && e.Status != nil {
			return e.Status
		}
		if err := each(e); err != nil {
			return err
		}
	}
}

func (c *Client) send(ctx context.Context, over *http.Client, method, path string, query url.Values, in io.Reader) (io.ReadCloser, error) {
	u := url.URL{Scheme: "http", Host: "reconciler", Path: path, RawQuery: query.Encode()}
	heard := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{Got1xxResponse: func(_ int, head textproto.MIMEHeader) error {
		c.warn(head.Values("Warning"))
		return nil
	}})
	req, err := http.NewRequestWithContext(heard, method, u.String(), in)
	if err != nil {
		return nil, fmt.Errorf("cannot make the request: %w", err)
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := over.Do(req)
	if err != nil {
		return nil, explain(ctx, err)
	}
	c.warn(resp.Header.Values("Warning"))
	if resp.StatusCode < 300 {
		return resp.Body, nil
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return nil, fmt.Errorf("cannot read the reconciler's answer (%s): %w", resp.Status, err)
	}
	return nil, statusOf(data, resp.Status)
}

// warn hands on the texts of Warning headers: `299 - "text"` (RFC 7234, 5.5), as Kubernetes uses them.
func (c *Client) warn(headers []string) {
	for _, h := range headers {
		quoted, ok := strings.CutPrefix(h, "299 - ")
		if !ok || c.Warn == nil {
			continue
		}
		if text, err := strconv.Unquote(quoted); err == nil {
			c.Warn(text)
		}
	}
}

// statusOf is the failure in data, or one that says what came instead.
func statusOf(data []byte, otherwise string) error {
	var s api.Status
	if err := json.Unmarshal(data, &s); err != nil || s.Kind != "Status" {
		return fmt.Errorf("the reconciler answered %s: %.200s", otherwise, data)
	}
	return &s
}

// explain turns the failures to connect that a person can mend into words.
func explain(ctx context.Context, err error) error {
	var uerr *url.Error
	if errors.As(err, &uerr) {
		err = uerr.Err
	}
	var late net.Error
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return ErrNotRunning
	case ctx.Err() != nil:
		return err
	case errors.As(err, &late) && late.Timeout(): // net/http has no error of its own for an answer that does not begin
		return ErrUnresponsive
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return ErrEnded
	}
	return fmt.Errorf("cannot ask the reconciler: %w", err)
}
