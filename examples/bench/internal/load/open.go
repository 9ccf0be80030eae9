package load

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"
)

// An open loop sends requests at a rate, whether or not earlier ones have been answered, as many independent clients do. So a
// server that is too slow gets ever more to do, which a closed loop never shows.

// maxConnections bounds the connections of an open loop. A request that finds all of them busy has failed: its client would not
// have got in.
const maxConnections = 8000

// Open is a load in an open loop on one server.
type Open struct {
	// Address is host:port.
	Address string
	// Raw holds the bytes of one HTTP request.
	Raw []byte
	// Rate is how many requests are sent per second.
	Rate float64
	// Patience is how long a client waits for the whole response. Then it closes its connection.
	Patience time.Duration
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

// GoodShare returns the share of the requests that were answered with a result.
func (o Outcome) GoodShare() float64 { return float64(o.Good) / float64(max(o.Sent, 1)) }

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
	idle []*openConn
	open int
	took map[answer][]time.Duration
}

// openConn is a connection that is kept alive.
type openConn struct {
	net.Conn

	in   *bufio.Reader
	body bytes.Buffer
}

// Run sends requests for a time and waits for their responses. The times between two requests are those of independent clients,
// with the mean that follows from the rate. What is sent in the first part, a quarter, does not count.
func (o Open) Run(ctx context.Context, length time.Duration) Outcome {
	l := &opener{Open: o, took: map[answer][]time.Duration{}}
	var pending sync.WaitGroup
	begun := time.Now()
	counted, end, sent := begun.Add(length/4), begun.Add(length), 0
	for due := begun; due.Before(end) && ctx.Err() == nil; due = due.Add(time.Duration(rand.ExpFloat64() / o.Rate * float64(time.Second))) { //nolint:gosec // need not be secret
		if wait := time.Until(due); wait > 0 {
			time.Sleep(wait)
		}
		counts := !due.Before(counted)
		if counts {
			sent++
		}
		conn, free := l.take()
		if !free {
			l.note(counts, lost, 0)
			continue
		}
		pending.Go(func() {
			what := l.send(ctx, conn, due)
			l.note(counts, what, time.Since(due))
		})
	}
	pending.Wait()
	for _, conn := range l.idle {
		_ = conn.Close()
	}
	outcome := Outcome{
		Elapsed: length - length/4, Sent: sent, Good: len(l.took[good]), Refused: len(l.took[refused]), Lost: len(l.took[lost]),
	}
	outcome.P50, outcome.P99 = quantile(l.took[good], 50), quantile(l.took[good], 99)
	outcome.RefusedP99 = quantile(l.took[refused], 99)
	return outcome
}

// quantile returns the value below which a percentage of the times is; it sorts them.
func quantile(took []time.Duration, percent int) time.Duration {
	if len(took) == 0 {
		return 0
	}
	slices.Sort(took)
	return took[len(took)*percent/100]
}

// take returns an idle connection, or nil for one that is to be opened. It is not free if there are too many.
func (l *opener) take() (conn *openConn, free bool) {
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

func (l *opener) note(counts bool, what answer, took time.Duration) {
	if !counts {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.took[what] = append(l.took[what], took)
}

// send makes one request. A connection that was kept alive and turns out to be closed is replaced once, as clients do.
func (l *opener) send(ctx context.Context, conn *openConn, due time.Time) answer {
	for fresh := conn == nil; ; fresh = true {
		if fresh {
			raw, err := (&net.Dialer{Deadline: due.Add(l.Patience)}).DialContext(ctx, "tcp", l.Address)
			if err != nil {
				l.closed(nil)
				return lost
			}
			conn = &openConn{Conn: raw, in: bufio.NewReaderSize(raw, 2<<10)}
		}
		what, keep, err := conn.once(l.Raw, due.Add(l.Patience))
		switch {
		case err != nil && !fresh && !errors.Is(err, os.ErrDeadlineExceeded) && time.Since(due) < l.Patience:
			_ = conn.Close()
			continue
		case err != nil || !keep:
			l.closed(conn)
		default:
			l.mu.Lock()
			l.idle = append(l.idle, conn)
			l.mu.Unlock()
		}
		return what
	}
}

func (l *opener) closed(conn *openConn) {
	if conn != nil {
		_ = conn.Close()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
}

// once sends the request and reads its response, which has a Content-Length or comes in chunks.
func (c *openConn) once(raw []byte, until time.Time) (what answer, keep bool, err error) {
	if err := c.SetDeadline(until); err != nil {
		return lost, false, err
	}
	if _, err := c.Write(raw); err != nil {
		return lost, false, err
	}
	status, err := c.in.ReadSlice('\n')
	if err != nil {
		return lost, false, err
	}
	ok := bytes.HasPrefix(status, []byte("HTTP/1.1 200 "))
	length, chunked, keep := int64(0), false, true
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return lost, false, err
		}
		name, value, more := bytes.Cut(line, []byte(":"))
		if !more {
			break
		}
		value = bytes.TrimSpace(value)
		switch {
		case bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.ParseInt(string(value), 10, 64); err != nil {
				return lost, false, err
			}
		case bytes.EqualFold(name, []byte("Transfer-Encoding")):
			chunked = true
		case bytes.EqualFold(name, []byte("Connection")):
			keep = !bytes.EqualFold(value, []byte("close"))
		}
	}
	c.body.Reset()
	if chunked {
		err = readChunks(c.in, &c.body)
	} else {
		_, err = io.CopyN(&c.body, c.in, length)
	}
	if err != nil {
		return lost, false, err
	}
	if ok && bytes.Contains(c.body.Bytes(), []byte(`"messages"`)) {
		return good, keep, nil
	}
	return refused, keep, nil
}
