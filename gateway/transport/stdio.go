package transport

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/promptweir/promptweir/gateway/identity"
	"github.com/promptweir/promptweir/gateway/requests"
	"github.com/promptweir/promptweir/upstream/wire"
)

// flushTimeout is how long a client may take to read what is left for it once ctx has ended.
const flushTimeout = 2 * time.Second

// errExpired ends a client on pipes, which cannot present another credential.
var errExpired = errors.New("the client's credential has expired")

// ServeStdio serves one client over a pair of pipes, one message on each line, in both eras. The
// credential says who the client is for the whole time. It returns nil when the input or ctx has
// ended and the requests in flight are answered, after ctx's end within the configuration's
// drain_timeout; subscriptions then end with their closing result. It returns an error when nobody
// reads the output, when the credential expires, or when a reload does not accept it any more.
// Nothing else may write to out. A goroutine may remain in a read of in or a write to out that
// cannot be interrupted.
func (t *Transport) ServeStdio(
	ctx context.Context, credential identity.Credential, in io.Reader, out io.Writer,
) error {
	caller, err := t.publisher.Current().Authenticate(ctx, credential)
	if err != nil {
		return err
	}
	c := newConnection(t, caller)
	outside := ctx
	ctx, stop := withExpiry(ctx, c.caller.Principal.Expires)
	defer stop()
	// The end of ctx is a drain: requests in flight go on until end cuts them off.
	inFlight, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cut(nil)
	w, ended := &lineWriter{out: out}, make(chan struct{})
	defer close(ended)
	defer context.AfterFunc(ctx, func() { c.end(ctx, outside, cut, w, ended) })()
	// Failed has room for an error of either goroutine, since nobody may receive a second one.
	lines, written, failed := make(chan []byte), make(chan struct{}), make(chan error, 2)
	go func() { failed <- readLines(ctx, in, lines) }()
	go func() {
		defer close(written)
		if err := w.writeAll(c.out); err != nil {
			failed <- err
		}
	}()
	err = c.receiveLines(ctx, inFlight, lines, failed)
	if err != nil {
		cut(err)
		stop() // nobody receives lines any more, and the client may have stopped reading
	}
	c.finish()
	select {
	case <-written:
	case <-c.abandoned:
	}
	if err == nil && hasExpired(ctx) && outside.Err() == nil {
		return errExpired
	}
	return err
}

// readLines passes on each line until the input or ctx ends. A line that is too long is passed on
// as nil.
func readLines(ctx context.Context, in io.Reader, lines chan<- []byte) error {
	reader := bufio.NewReaderSize(in, 64<<10)
	for {
		line, err := wire.ReadLine(reader, MaxRequest)
		if errors.Is(err, wire.ErrLineTooLong) {
			line = nil
		}
		if err != nil && !errors.Is(err, wire.ErrLineTooLong) {
			return fmt.Errorf("read standard input: %w", err)
		}
		if err == nil && len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		select {
		case lines <- line:
		case <-ctx.Done():
			return io.EOF // nobody receives lines any more
		}
	}
}

// end bounds what remains to be done once ctx has ended. Requests in flight have drain_timeout, or
// no time if the credential has expired. A client that has not taken a message for a while is taken
// to have stopped reading.
func (c *connection) end(
	ctx, outside context.Context, cut context.CancelCauseFunc, w *lineWriter, ended <-chan struct{},
) {
	if hasExpired(ctx) && outside.Err() == nil {
		cut(errExpired)
	}
	over := time.After(c.t.publisher.Current().Config.Gateway.DrainTimeout)
	// Counted from the end of ctx: before it, a client may take its time.
	began, stuck := time.Now(), time.NewTicker(flushTimeout/4)
	defer stuck.Stop()
	for {
		select {
		case <-over:
			cut(requests.ErrShuttingDown)
		case <-stuck.C:
			if time.Since(began) >= flushTimeout && w.pending() >= flushTimeout {
				close(c.abandoned)
				return
			}
		case <-ended:
			return
		}
	}
}

// receiveLines hands lines to the connection until there are no more, or ctx ends. InFlight is the
// context of the requests.
func (c *connection) receiveLines(ctx, inFlight context.Context, lines <-chan []byte, failed <-chan error) error {
	for {
		var err error
		select {
		case line := <-lines:
			err = c.receiveLine(inFlight, line)
		case <-c.caller.Generation.Replaced():
			_, err = c.retain(ctx)
		case err := <-failed:
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		case <-ctx.Done():
			return nil
		}
		if err != nil {
			return fmt.Errorf("after a reload: %w", err)
		}
	}
}

func (c *connection) receiveLine(ctx context.Context, line []byte) error {
	if line == nil {
		c.send(wire.AppendError(nil, nil, wire.NewError(wire.InvalidRequest, "The message is too large")))
		return nil
	}
	in, refusal := readIncoming(line)
	if refusal != nil {
		c.send(wire.AppendError(nil, in.request.Message.ID, refusal))
		return nil
	}
	return c.receive(ctx, in)
}

// lineWriter writes messages to a client, one on each line.
type lineWriter struct {
	out io.Writer
	// since is when the client began to take the present message; nil while there is none.
	since atomic.Pointer[time.Time]
}

// pending returns how long the client has been taking the present message.
func (w *lineWriter) pending() time.Duration {
	if since := w.since.Load(); since != nil {
		return time.Since(*since)
	}
	return 0
}

// writeAll writes messages until there are no more.
func (w *lineWriter) writeAll(messages <-chan outgoing) error {
	// After an error it discards them, so that no sender waits.
	for next := range messages {
		begun := time.Now()
		w.since.Store(&begun)
		_, err := w.out.Write(append(wire.SingleLine(next.message), '\n'))
		w.since.Store(nil)
		next.done()
		if err != nil {
			go func() {
				for next := range messages {
					next.done()
				}
			}()
			return fmt.Errorf("write standard output: %w", err)
		}
	}
	return nil
}
