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

// flushTimeout bounds the time that a client has to read the last messages.
const flushTimeout = 2 * time.Second

// errExpired ends the connection: a client over stdio cannot send a new credential.
var errExpired = errors.New("the client's credential has expired")

// ServeStdio serves one client over a pair of pipes, one message per line, in both eras. Nothing else
// may write to out.
//
// It returns nil after the end of the input or of ctx, when the requests in flight have been answered.
// After the end of ctx, requests in flight may run for the configuration's drain_timeout, and
// subscriptions end with their closing result. It returns an error if reading or writing fails, if the
// credential expires, or if a reload refuses the credential. A goroutine may remain in a read or write
// that cannot be interrupted.
func (t *Transport) ServeStdio(ctx context.Context, credential identity.Credential, in io.Reader, out io.Writer) error {
	caller, err := t.publisher.Current().Authenticate(ctx, credential)
	if err != nil {
		return err
	}
	c := newConnection(t, caller)
	parent := ctx
	ctx, stop := withExpiry(ctx, c.caller.Principal.Expires)
	defer stop()
	// The end of ctx does not cancel the requests in flight. They run until c.end cuts them off.
	inFlight, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cut(nil)
	ended := make(chan struct{})
	defer close(ended)
	defer context.AfterFunc(ctx, func() {
		if hasExpired(ctx) && parent.Err() == nil {
			cut(errExpired)
		}
		c.end(inFlight, cut, ended)
	})()
	// failed has room for the errors of both goroutines, because only one error may be received.
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
		stop() // ends readLines, and starts c.end, in case the client has stopped reading
	}
	c.finish()
	select {
	case <-written:
	case <-c.abandoned:
	}
	if err == nil && hasExpired(ctx) && parent.Err() == nil {
		return errExpired
	}
	return err
}

// readLines sends each line to the channel until the input or ctx ends. For a line that is too long,
// it sends nil.
func readLines(ctx context.Context, in io.Reader, lines chan<- []byte) error {
	reader := bufio.NewReaderSize(in, 64<<10)
	for {
		line, err := wire.ReadLine(reader, MaxRequest)
		switch {
		case errors.Is(err, wire.ErrLineTooLong):
			line = nil
		case err != nil:
			return fmt.Errorf("read standard input: %w", err)
		case len(bytes.TrimSpace(line)) == 0:
			continue
		}
		select {
		case lines <- line:
		case <-ctx.Done():
			return io.EOF // after the end of ctx, no goroutine receives from lines
		}
	}
}

// end bounds the time after the end of the connection's context. Requests in flight may run for
// drain_timeout, unless they are cut off already. After that, the client has flushTimeout to read the
// last messages. ended is closed when all messages have been written.
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

// receiveLines passes lines to the connection until the input or ctx ends. inFlight is the context of
// the requests.
func (c *connection) receiveLines(ctx, inFlight context.Context, lines <-chan []byte, failed <-chan error) error {
	for {
		var err error
		select {
		case line := <-lines:
			err = c.receiveLine(inFlight, line)
		case <-c.caller.Generation.Replaced():
			_, err = c.reauthenticate(ctx)
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

// writeLines writes messages to a client, one per line, until the channel is closed. After an error,
// it discards further messages in the background, so that no sender waits.
func writeLines(out io.Writer, messages <-chan outgoing) error {
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
