package rig

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// Conn is a connection, and an [http.RoundTripper] over it for one request after another. It takes a
// small buffer of memory; http.Transport takes two buffers of 4 KiB and two goroutines per connection.
type Conn struct {
	conn net.Conn
	in   *bufio.Reader
}

// Dial opens a connection with a buffer of a size in bytes.
func Dial(ctx context.Context, address string, buffer int) (*Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return &Conn{conn, bufio.NewReaderSize(conn, buffer)}, nil
}

// RoundTrip implements [http.RoundTripper].
func (c *Conn) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Write(c.conn); err != nil {
		return nil, err
	}
	return http.ReadResponse(c.in, r)
}

// Close closes the connection, which ends a response that is being read.
func (c *Conn) Close() error { return c.conn.Close() }

// once sends a request and reads its response.
func (c *Conn) once(raw []byte, body io.Writer) (ok bool, err error) {
	if _, err := c.conn.Write(raw); err != nil {
		return false, err
	}
	response, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return false, err
	}
	defer response.Body.Close()
	_, err = io.Copy(body, response.Body)
	return response.StatusCode == http.StatusOK, err
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
	conn   *Conn
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
				_ = w.conn.Close()
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
	conn, err := Dial(ctx, l.Address, 4<<10)
	if err != nil {
		return nil, err
	}
	var body bytes.Buffer
	ok, err := conn.once(raw, &body)
	if err == nil && (!ok || !bytes.Contains(body.Bytes(), []byte(l.Want))) {
		err = fmt.Errorf("first response: want %s in %.300s", l.Want, body.Bytes())
	}
	return &worker{conn: conn, raw: raw}, err
}

func (l Closed) each(ctx context.Context, workers []*worker, until time.Time) error {
	var group errgroup.Group
	for _, w := range workers {
		group.Go(func() error {
			for now := time.Now(); now.Before(until); {
				ok, err := w.conn.once(w.raw, io.Discard)
				switch {
				case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
					_ = w.conn.Close() // the server has closed it
					if w.conn, err = Dial(ctx, l.Address, 4<<10); err != nil {
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

// Got is one request of a paced load: when it began, how long after it was due, how long it took from
// then on, and what became of it.
type Got struct {
	Began      time.Time
	Late, Took time.Duration
	Err        error
}

// Gots are requests.
type Gots []Got

// Paced calls a function at a constant rate, whether or not earlier calls have returned, as many
// independent clients do. So a server that is too slow gets ever more to do, which a closed loop never
// shows. Calls for which this program has no processor when they are due come as soon as it has, so that
// none is left out; that they are late is the rig's own fault.
type Paced struct {
	cancel  context.CancelFunc
	pending sync.WaitGroup

	mu  sync.Mutex // guards all
	all Gots
}

// Pace begins calls. [Paced.Stop] must be called.
func Pace(ctx context.Context, perSecond float64, call func(context.Context) error) *Paced {
	p := &Paced{}
	ctx, p.cancel = context.WithCancel(ctx)
	p.pending.Go(func() {
		interval := time.Duration(float64(time.Second) / perSecond)
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
func (p *Paced) Stop() Gots {
	p.cancel()
	p.pending.Wait()
	return p.all
}

// Since returns the calls that began at a time or later and have returned, in the order in which they
// did.
func (p *Paced) Since(begin time.Time) Gots {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all.Between(begin, time.Now())
}

// Between returns the calls that began within a time.
func (all Gots) Between(from, to time.Time) Gots {
	return all.Where(func(g Got) bool { return !g.Began.Before(from) && !g.Began.After(to) })
}

// Failed returns the calls that returned an error.
func (all Gots) Failed() Gots { return all.Where(func(g Got) bool { return g.Err != nil }) }

// Where returns the calls of which something is true.
func (all Gots) Where(is func(Got) bool) (some Gots) {
	for _, g := range all {
		if is(g) {
			some = append(some, g)
		}
	}
	return some
}

// Quantile returns that of how long calls took, in percent.
func (all Gots) Quantile(percent int) time.Duration {
	took := make([]time.Duration, len(all))
	for i, g := range all {
		took[i] = g.Took
	}
	return Quantile(took, percent)
}
