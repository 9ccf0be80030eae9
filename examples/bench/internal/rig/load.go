package rig

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// The load generator reads and writes HTTP/1.1 itself, so that the load costs little processor time beside the server that shares the
// machine.

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

// connection is one to a server, for one request after another.
type connection struct {
	net.Conn

	in *bufio.Reader
}

func dial(ctx context.Context, address string, until time.Time) (*connection, error) {
	conn, err := (&net.Dialer{Deadline: until}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return &connection{conn, bufio.NewReaderSize(conn, 4<<10)}, nil
}

// once sends a request and reads its response, which has a Content-Length or comes in chunks.
func (c *connection) once(raw []byte, body io.Writer) (ok, keep bool, err error) {
	if _, err := c.Write(raw); err != nil {
		return false, false, err
	}
	status, err := c.in.ReadSlice('\n')
	if err != nil {
		return false, false, err
	}
	ok, keep = bytes.HasPrefix(status, []byte("HTTP/1.1 200 ")), true
	length, chunked := int64(0), false
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return false, false, err
		}
		name, value, more := bytes.Cut(line, []byte(":"))
		switch {
		case !more && chunked:
			return ok, keep, readChunks(c.in, body)
		case !more:
			_, err := io.CopyN(body, c.in, length)
			return ok, keep, err
		case bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.ParseInt(string(bytes.TrimSpace(value)), 10, 64); err != nil {
				return false, false, err
			}
		case bytes.EqualFold(name, []byte("Transfer-Encoding")):
			chunked = true
		case bytes.EqualFold(name, []byte("Connection")):
			keep = !bytes.EqualFold(bytes.TrimSpace(value), []byte("close"))
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

// Closed is a load in a closed loop: each connection sends the next request as soon as it has read the response.
type Closed struct {
	// Address is host:port.
	Address string
	// Raw holds the bytes of HTTP requests, one for each connection in turn.
	Raw [][]byte
	// Want must occur in the body of the first response on each connection. All responses must have the status 200.
	Want string
}

// Result is the result of a closed loop.
type Result struct {
	Requests int
	Elapsed  time.Duration
	// P50 and P99 are quantiles of the time from the first byte of a request to the last of its response.
	P50, P99 time.Duration
}

// worker is a connection of a closed loop.
type worker struct {
	*connection

	raw    []byte
	took   []time.Duration
	broken int // how often the connection broke before the end of a response, and was replaced
}

// minAnswered is how many responses there must be for each one that broke off.
const minAnswered = 100

// Run puts the load on the server for the given time, after a warm-up. It calls begun before the first request that counts, and done
// after the last; no request is in flight during either.
func (l Closed) Run(ctx context.Context, connections int, length time.Duration, begun, done func()) (Result, error) {
	workers := make([]*worker, connections)
	defer func() {
		for _, w := range workers {
			if w != nil {
				_ = w.Close()
			}
		}
	}()
	var opening errgroup.Group
	opening.SetLimit(64)
	for i := range workers {
		opening.Go(func() (err error) {
			workers[i], err = l.open(ctx, l.Raw[i%len(l.Raw)])
			return err
		})
	}
	if err := opening.Wait(); err != nil {
		return Result{}, fmt.Errorf("%s: %w", l.Address, err)
	}
	if err := l.each(ctx, workers, time.Now().Add(length/10)); err != nil { // the warm-up
		return Result{}, err
	}
	for _, w := range workers {
		w.took, w.broken = w.took[:0], 0
	}
	begun()
	start := time.Now()
	err := l.each(ctx, workers, start.Add(length))
	elapsed := time.Since(start)
	done()
	var took []time.Duration
	broken := 0
	for _, w := range workers {
		took, broken = append(took, w.took...), broken+w.broken
	}
	if err == nil && (len(took) == 0 || broken*minAnswered > len(took)) {
		err = fmt.Errorf("%d responses, and %d connections broke", len(took), broken)
	}
	return Result{len(took), elapsed, Quantile(took, 50), Quantile(took, 99)}, err
}

func (l Closed) open(ctx context.Context, raw []byte) (*worker, error) {
	conn, err := dial(ctx, l.Address, time.Time{})
	if err != nil {
		return nil, err
	}
	var body bytes.Buffer
	ok, _, err := conn.once(raw, &body)
	if err == nil && (!ok || !bytes.Contains(body.Bytes(), []byte(l.Want))) {
		err = fmt.Errorf("first response: want %s in %.300s", l.Want, body.Bytes())
	}
	return &worker{connection: conn, raw: raw}, err
}

func (l Closed) each(ctx context.Context, workers []*worker, until time.Time) error {
	var group errgroup.Group
	for _, w := range workers {
		group.Go(func() error {
			for now := time.Now(); now.Before(until); {
				ok, _, err := w.once(w.raw, io.Discard)
				switch {
				case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
					_ = w.Close() // the server has closed it
					if w.connection, err = dial(ctx, l.Address, time.Time{}); err != nil {
						return err
					}
					w.broken++
					continue
				case err != nil:
					return err
				case !ok:
					return errors.New("a response has another status than 200")
				}
				end := time.Now()
				w.took = append(w.took, end.Sub(now))
				now = end
			}
			return nil
		})
	}
	return group.Wait()
}

// maxConnections bounds the connections of an open loop. A request that finds all of them busy has failed: its client would not
// have got in.
const maxConnections = 8000

// Open is a load in an open loop: requests come at a rate, whether or not earlier ones have been answered, as those of many independent
// clients do. So a server that is too slow gets ever more to do, which a closed loop never shows.
type Open struct {
	// Address is host:port.
	Address string
	// Raw holds the bytes of one HTTP request.
	Raw []byte
	// Rate is how many requests are sent per second.
	Rate float64
	// Timeout is how long a client waits for the whole response. Then it closes its connection.
	Timeout time.Duration
}

// Outcome is what became of the requests of an open loop.
type Outcome struct {
	Elapsed time.Duration
	// Sent counts the requests; Good were answered with a result, Refused with an error or an HTTP status, Lost not at all.
	Sent, Good, Refused, Lost int
	// P50 and P99 are quantiles of the time from the moment at which a request was due until its response had arrived, of those
	// with a result; RefusedP99 of those that were refused.
	P50, P99, RefusedP99 time.Duration
}

// Goodput returns the results per second.
func (o Outcome) Goodput() float64 { return float64(o.Good) / o.Elapsed.Seconds() }

// answer is what became of one request.
type answer int

const (
	good answer = iota
	refused
	lost
)

// opener is an open loop under way.
type opener struct {
	Open

	mu   sync.Mutex // guards what follows
	idle []*connection
	open int
	took map[answer][]time.Duration
}

// Run sends requests for a time and waits for their responses. The times between two requests are those of independent clients,
// with the mean that follows from the rate. What is sent in the first part, a quarter, does not count.
func (o Open) Run(ctx context.Context, length time.Duration) Outcome {
	l := &opener{Open: o, took: map[answer][]time.Duration{}}
	var pending sync.WaitGroup
	begun := time.Now()
	counted, end := begun.Add(length/4), begun.Add(length)
	for due := begun; due.Before(end) && ctx.Err() == nil; due = due.Add(time.Duration(rand.ExpFloat64() / o.Rate * float64(time.Second))) { //nolint:gosec // need not be secret
		if wait := time.Until(due); wait > 0 {
			time.Sleep(wait)
		}
		conn, free := l.take()
		pending.Go(func() {
			what := lost
			if free {
				what = l.send(ctx, conn, due)
			}
			if !due.Before(counted) {
				l.note(what, time.Since(due))
			}
		})
	}
	pending.Wait()
	for _, conn := range l.idle {
		_ = conn.Close()
	}
	outcome := Outcome{
		Elapsed: length - length/4, Good: len(l.took[good]), Refused: len(l.took[refused]), Lost: len(l.took[lost]),
		P50: Quantile(l.took[good], 50), P99: Quantile(l.took[good], 99), RefusedP99: Quantile(l.took[refused], 99),
	}
	outcome.Sent = outcome.Good + outcome.Refused + outcome.Lost
	return outcome
}

// take returns an idle connection, or nil for one that is to be opened. It is not free if there are too many.
func (l *opener) take() (conn *connection, free bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.idle); n > 0 {
		conn, l.idle = l.idle[n-1], l.idle[:n-1]
		return conn, true
	}
	if l.open == maxConnections {
		return nil, false
	}
	l.open++
	return nil, true
}

func (l *opener) note(what answer, took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.took[what] = append(l.took[what], took)
}

// send makes one request. A connection that was kept alive and turns out to be closed is replaced once, as clients do.
func (l *opener) send(ctx context.Context, conn *connection, due time.Time) answer {
	until := due.Add(l.Timeout)
	for fresh := conn == nil; ; fresh = true {
		if fresh {
			var err error
			if conn, err = dial(ctx, l.Address, until); err != nil {
				l.closed(nil)
				return lost
			}
		}
		var body bytes.Buffer
		_ = conn.SetDeadline(until) // fails only if the connection is closed, which the request meets
		ok, keep, err := conn.once(l.Raw, &body)
		switch {
		case err != nil && !fresh && !errors.Is(err, os.ErrDeadlineExceeded):
			_ = conn.Close()
			continue
		case err != nil || !keep:
			l.closed(conn)
		default:
			l.mu.Lock()
			l.idle = append(l.idle, conn)
			l.mu.Unlock()
		}
		switch {
		case err != nil:
			return lost
		case ok && bytes.Contains(body.Bytes(), []byte(`"messages"`)):
			return good
		}
		return refused
	}
}

func (l *opener) closed(conn *connection) {
	if conn != nil {
		_ = conn.Close()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
}

// Got is one request of a paced load: when it began, how long after it was due, how long it took from then on, and what became of it.
type Got struct {
	Began      time.Time
	Late, Took time.Duration
	Err        error
}

// Paced calls a function at a constant rate, whether or not earlier calls have returned. Calls for which this program has no processor
// when they are due come as soon as it has, so that none is left out; that they are late is the rig's own fault.
type Paced struct {
	cancel  context.CancelFunc
	pending sync.WaitGroup

	mu  sync.Mutex // guards all
	all []Got
}

// Pace begins calls. [Paced.Stop] must be called.
func Pace(ctx context.Context, perSecond int, call func(context.Context) error) *Paced {
	p := &Paced{}
	ctx, p.cancel = context.WithCancel(ctx)
	p.pending.Go(func() {
		interval := time.Second / time.Duration(perSecond)
		for due := time.Now().Add(interval); ; due = due.Add(interval) {
			select {
			case <-time.After(time.Until(due)):
				p.pending.Go(func() {
					g := Got{Began: time.Now()}
					g.Late, g.Err = g.Began.Sub(due), call(context.WithoutCancel(ctx))
					g.Took = time.Since(g.Began)
					p.mu.Lock()
					defer p.mu.Unlock()
					p.all = append(p.all, g)
				})
			case <-ctx.Done():
				return
			}
		}
	})
	return p
}

// Stop begins no more calls, waits for those under way, and returns all.
func (p *Paced) Stop() []Got {
	p.cancel()
	p.pending.Wait()
	return p.all
}

// Since returns the calls that began at a time or later and have returned, in the order in which they did.
func (p *Paced) Since(begin time.Time) []Got {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Between(p.all, begin, time.Now())
}

// Between returns the calls that began within a time.
func Between(all []Got, from, to time.Time) []Got {
	return slices.DeleteFunc(slices.Clone(all), func(g Got) bool { return g.Began.Before(from) || g.Began.After(to) })
}

// QuantileOf returns that of how long calls took, in percent.
func QuantileOf(all []Got, percent int) time.Duration {
	took := make([]time.Duration, len(all))
	for i, g := range all {
		took[i] = g.Took
	}
	return Quantile(took, percent)
}
