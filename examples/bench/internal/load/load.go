// Package load measures how many requests per second a server answers in a closed loop: each of many connections sends the
// next request as soon as it has read the response. The package reads and writes HTTP/1.1 itself, so that the load costs
// little processor time beside the server that shares the machine.
package load

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
)

// Request is the load on one server.
type Request struct {
	// Address is host:port.
	Address string
	// Raw holds the bytes of HTTP requests. The first connection begins with the first request, the second with the second. It
	// repeats that request or, if Turns is set, goes on to the next.
	Raw   [][]byte
	Turns bool
	// Want must occur in the body of the first response on each connection. All responses must have the status 200.
	Want string
}

// Post returns the bytes of a POST request. Header holds further header lines, without their line breaks.
func Post(address, path, body string, header ...string) []byte {
	var raw bytes.Buffer
	fmt.Fprintf(&raw, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n", path, address)
	for _, line := range header {
		raw.WriteString(line + "\r\n")
	}
	fmt.Fprintf(&raw, "Content-Length: %d\r\n\r\n%s", len(body), body)
	return raw.Bytes()
}

// Result is the result of a run.
type Result struct {
	Requests int
	Elapsed  time.Duration
	// Broken is how many connections broke before the end of a response, and were replaced.
	Broken int
	// P50 and P99 are quantiles of the time from the first byte of a request to the last of its response.
	P50, P99 time.Duration
}

// minAnswered is how many responses there must be for each one that broke off.
const minAnswered = 100

// Rate returns the requests per second.
func (r Result) Rate() float64 { return float64(r.Requests) / r.Elapsed.Seconds() }

// Run puts a load on a server for the given time, after a warm-up. It calls begun before the first request that counts, and done
// after the last; no request is in flight during either.
func Run(ctx context.Context, request Request, connections int, length time.Duration, begun, done func()) (Result, error) {
	workers := make([]*worker, connections)
	var opening errgroup.Group
	opening.SetLimit(64)
	for i := range workers {
		opening.Go(func() (err error) {
			for range 3 { // the first response may break off as well
				if workers[i], err = open(ctx, request, i); !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
					return err
				}
			}
			return err
		})
	}
	defer func() {
		for _, w := range workers {
			if w != nil {
				_ = w.conn.Close()
			}
		}
	}()
	if err := opening.Wait(); err != nil {
		return Result{}, err
	}
	if err := each(workers, time.Now().Add(length/10)); err != nil { // the warm-up
		return Result{}, err
	}
	for _, w := range workers {
		w.took, w.broken = w.took[:0], 0
	}
	begun()
	start := time.Now()
	err := each(workers, start.Add(length))
	elapsed := time.Since(start)
	done()
	var took []time.Duration
	broken := 0
	for _, w := range workers {
		took = append(took, w.took...)
		broken += w.broken
	}
	if err == nil && broken*minAnswered > len(took) {
		err = errors.New("too many connections broke")
	}
	if err != nil || len(took) == 0 {
		return Result{}, errors.Join(err, fmt.Errorf("%d responses, %d connections broke", len(took), broken))
	}
	slices.Sort(took)
	return Result{Requests: len(took), Elapsed: elapsed, Broken: broken, P50: took[len(took)/2], P99: took[len(took)*99/100]}, nil
}

func each(workers []*worker, until time.Time) error {
	var group errgroup.Group
	for _, w := range workers {
		group.Go(func() error { return w.ask(until) })
	}
	return group.Wait()
}

// worker is one connection.
type worker struct {
	conn    net.Conn
	in      *bufio.Reader
	request Request
	next    int // index of the next raw request
	took    []time.Duration
	broken  int
}

// open connects, sends one request and checks the response.
func open(ctx context.Context, request Request, first int) (*worker, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", request.Address)
	if err != nil {
		return nil, err
	}
	w := &worker{conn: conn, in: bufio.NewReaderSize(conn, 16<<10), request: request, next: first}
	var body bytes.Buffer
	err = w.once(&body)
	if err == nil && !bytes.Contains(body.Bytes(), []byte(request.Want)) {
		err = fmt.Errorf("first response: want %s in %.300s", request.Want, body.Bytes())
	}
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("%s: %w", request.Address, err)
	}
	return w, nil
}

func (w *worker) ask(until time.Time) error {
	for now := time.Now(); now.Before(until); {
		if err := w.once(io.Discard); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			if err := w.reconnect(); err != nil {
				return err
			}
			continue
		} else if err != nil {
			return err
		}
		end := time.Now()
		w.took = append(w.took, end.Sub(now))
		now = end
	}
	return nil
}

// reconnect replaces a broken connection.
func (w *worker) reconnect() error {
	_ = w.conn.Close()                              // the server has closed it
	conn, err := net.Dial("tcp", w.request.Address) //nolint:noctx // a connection on loopback
	if err != nil {
		return err
	}
	w.conn, w.broken = conn, w.broken+1
	w.in.Reset(conn)
	return nil
}

// once sends the next request and reads its response.
func (w *worker) once(body io.Writer) error {
	raw := w.request.Raw[w.next%len(w.request.Raw)]
	if w.request.Turns {
		w.next++
	}
	if _, err := w.conn.Write(raw); err != nil {
		return err
	}
	return readResponse(w.in, body)
}

// readResponse reads one response, with a Content-Length or in chunks.
func readResponse(in *bufio.Reader, body io.Writer) error {
	status, err := in.ReadSlice('\n')
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(status, []byte("HTTP/1.1 200 ")) {
		text := string(status)
		rest, _ := in.Peek(min(in.Buffered(), 500))
		return fmt.Errorf("%q, %q", text, rest)
	}
	length, chunked := int64(-1), false
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return err
		}
		name, value, ok := bytes.Cut(line, []byte(":"))
		switch {
		case !ok && chunked:
			return readChunks(in, body)
		case !ok && length < 0:
			return errors.New("response has neither Content-Length nor chunks")
		case !ok:
			_, err := io.CopyN(body, in, length)
			return err
		case bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.ParseInt(string(bytes.TrimSpace(value)), 10, 64); err != nil {
				return err
			}
		case bytes.EqualFold(name, []byte("Transfer-Encoding")):
			chunked = true
		}
	}
}

func readChunks(in *bufio.Reader, body io.Writer) error {
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return err
		}
		size, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 16, 64)
		if err != nil {
			return err
		}
		if _, err := io.CopyN(body, in, size); err != nil {
			return err
		}
		if _, err := in.Discard(2); err != nil { // the line break after it
			return err
		}
		if size == 0 {
			return nil
		}
	}
}
