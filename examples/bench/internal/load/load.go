// Package load answers: how many times a second does a server answer one request, asked on each of many connections again
// as soon as the answer is read? It speaks HTTP/1.1 by hand, so that it costs little beside what it measures.
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

// Request is what is asked of whom.
type Request struct {
	// Address is host:port.
	Address string
	// Raw are the requests as they go over the wire. The first connection begins with the first, the second with the
	// second; where Turns is set, each asks one after the other, and else keeps to its own.
	Raw   [][]byte
	Turns bool
	// Want must be in the body of the first answer on each connection; all must have the status 200.
	Want string
}

// Post returns a request as it goes over the wire, whose further header lines are given whole.
func Post(address, path, body string, header ...string) []byte {
	var raw bytes.Buffer
	fmt.Fprintf(&raw, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n", path, address)
	for _, line := range header {
		raw.WriteString(line + "\r\n")
	}
	fmt.Fprintf(&raw, "Content-Length: %d\r\n\r\n%s", len(body), body)
	return raw.Bytes()
}

// Result is what came of it.
type Result struct {
	Requests int
	Elapsed  time.Duration
	// Broken is how many answers broke off with their connections, which were opened again.
	Broken int
	// P50 and P99 are of the time from the request to the whole answer.
	P50, P99 time.Duration
}

// maxBroken is of how many answers one may break off.
const maxBroken = 100

// Rate is in requests per second.
func (r Result) Rate() float64 { return float64(r.Requests) / r.Elapsed.Seconds() }

// Run asks on so many connections for so long. Begun is called when all are open and warm and the counting begins, and
// done when it ends.
func Run(ctx context.Context, request Request, connections int, length time.Duration, begun, done func()) (Result, error) {
	workers := make([]*worker, connections)
	var opening errgroup.Group
	opening.SetLimit(64)
	for i := range workers {
		opening.Go(func() (err error) {
			for range 3 { // an answer may break off here too
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
	if err == nil && broken*maxBroken > len(took) {
		err = errors.New("too many broke off")
	}
	if err != nil || len(took) == 0 {
		return Result{}, errors.Join(err, fmt.Errorf("%d answers, %d broken off", len(took), broken))
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
	next    int // of the raw requests
	took    []time.Duration
	broken  int
}

// open connects and asks once, to see that it is answered as it should be.
func open(ctx context.Context, request Request, first int) (*worker, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", request.Address)
	if err != nil {
		return nil, err
	}
	w := &worker{conn: conn, in: bufio.NewReaderSize(conn, 16<<10), request: request, next: first}
	var body bytes.Buffer
	err = w.once(&body)
	if err == nil && !bytes.Contains(body.Bytes(), []byte(request.Want)) {
		err = fmt.Errorf("no %s in %.300s", request.Want, body.Bytes())
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
			if err := w.again(); err != nil {
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

// again opens the connection again.
func (w *worker) again() error {
	_ = w.conn.Close()                              // the other side has
	conn, err := net.Dial("tcp", w.request.Address) //nolint:noctx // a connection on loopback
	if err != nil {
		return err
	}
	w.conn, w.broken = conn, w.broken+1
	w.in.Reset(conn)
	return nil
}

// once asks the next request and reads the whole answer.
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

// readResponse reads one response, whose length is given or which comes in chunks.
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
			return errors.New("a response of unknown length")
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
