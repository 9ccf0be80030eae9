package transport

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/promptweir/promptweir/gateway/identity"
	"github.com/promptweir/promptweir/gateway/requests"
	"github.com/promptweir/promptweir/upstream/wire"
)

// flushTimeout bounds the time for the remaining messages when all requests in flight have ended.
const flushTimeout = 2 * time.Second

// errExpired ends a client on pipes: it cannot present another credential.
var errExpired = errors.New("the client's credential has expired")

// ServeStdio serves one client over a pair of pipes, one message per line, in both eras. The
// credential is the client's for the whole time. It returns nil when the input or ctx has ended and
// the requests in flight are answered. After the end of ctx they have the configuration's
// drain_timeout, and subscriptions end with their closing result. It returns an error if reading or
// writing fails, when the credential expires, or when a reload refuses it. Nothing else may write
// to out. A goroutine may remain in a read or write that cannot be interrupted.
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
	ended := make(chan struct{})
	defer close(ended)
	defer context.AfterFunc(ctx, func() {
		if hasExpired(ctx) && outside.Err() == nil {
			cut(errExpired)
		}
		c.end(inFlight, cut, ended)
	})()
	// failed has room for an error of each goroutine, because only one may be received.
	lines, written, failed := make(chan []byte), make(chan struct{}), make(chan error, 2)
	go func() { failed <- readLines(ctx, in, lines) }()
	go func() {
		defer close(written)
		if err := writeLines(out, c.out); err != nil {
			failed <- err
		}
	}()
	err = c.receiveLines(ctx, inFlight, lines, failed)
	if err != nil {
		cut(err)
		stop() // lines are no longer received, and the client may have stopped reading
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

// readLines passes on each line until the input or ctx ends. A line that is too long becomes nil.
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
			return io.EOF // lines are no longer received
		}
	}
}

// end bounds the time after the end of the connection's context: requests in flight have
// drain_timeout unless they are cut off already, and then the client has flushTimeout to read.
func (c *connection) end(inFlight context.Context, cut context.CancelCauseFunc, ended <-chan struct{}) {
	select {
	case <-time.After(c.t.publisher.Current().Config.Gateway.DrainTimeout):
		cut(requests.ErrShuttingDown)
	case <-inFlight.Done():
	case <-ended:
		return
	}
	select {
	case <-time.After(flushTimeout):
		close(c.abandoned)
	case <-ended:
	}
}

// receiveLines passes lines to the connection until there are no more, or ctx ends. inFlight is the
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

// writeLines writes messages to a client, one per line, until the channel is closed.
func writeLines(out io.Writer, messages <-chan outgoing) error {
	// After an error, discard the messages, so that no sender waits.
	for next := range messages {
		_, err := out.Write(append(wire.SingleLine(next.message), '\n'))
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
