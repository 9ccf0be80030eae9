package gateway

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/promptweir/promptweir/upstream/wire"
)

// lastWords is how long a client may take to read what is left for it once ctx has ended.
const lastWords = 2 * time.Second

// errExpired ends a conversation over pipes, on which no other credential can be shown.
var errExpired = errors.New("the client's credential has expired")

// ServeStdio serves one client over a pair of pipes, one message on each line, both eras. The credential says who the
// client is for the whole time. It returns when the input has ended and the requests in flight are answered, when
// nobody reads the output, when the credential expires or a reload does not accept it any more, which are errors, or when
// ctx ends; subscriptions are closed in an orderly way. Nothing else may write to out. A goroutine may stay in a read of
// in or a write to out that nothing can interrupt.
func (g *Gateway) ServeStdio(ctx context.Context, credential Credential, in io.Reader, out io.Writer) error {
	who, err := g.admit(ctx, credential)
	if err != nil {
		return err
	}
	outside := ctx
	ctx, stop := until(ctx, who.Expires)
	defer stop()
	c := g.converse(who)
	defer context.AfterFunc(ctx, func() { time.AfterFunc(lastWords, func() { close(c.deaf) }) })()
	lines, written, failed := make(chan []byte), make(chan struct{}), make(chan error, 2)
	go func() { failed <- readLines(ctx, in, lines) }()
	go func() {
		defer close(written)
		if err := writeLines(out, c.out); err != nil {
			failed <- err
		}
	}()
	err = takeLines(ctx, c, lines, failed)
	if err != nil {
		stop()
	}
	c.finish()
	select {
	case <-written:
	case <-c.deaf:
	}
	if err == nil && errors.Is(ctx.Err(), context.DeadlineExceeded) && outside.Err() == nil {
		return errExpired
	}
	return err
}

// readLines sends each line on, until the input or ctx ends. A line that is too long is sent on as nothing.
func readLines(ctx context.Context, in io.Reader, lines chan<- []byte) error {
	reader := bufio.NewReaderSize(in, 64<<10)
	for {
		line, err := wire.ReadLine(reader, maxRequest)
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
			return io.EOF // nobody takes lines any more
		}
	}
}

// takeLines lets a conversation take lines until there are no more.
func takeLines(ctx context.Context, c *conversation, lines <-chan []byte, failed <-chan error) error {
	for {
		select {
		case line := <-lines:
			if err := c.remains(ctx); err != nil {
				return fmt.Errorf("after a reload: %w", err)
			}
			takeLine(ctx, c, line)
		case <-c.who.by.replaced:
			if err := c.remains(ctx); err != nil {
				return fmt.Errorf("after a reload: %w", err)
			}
		case err := <-failed:
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		case <-ctx.Done():
			return nil
		}
	}
}

func takeLine(ctx context.Context, c *conversation, line []byte) {
	if line == nil {
		c.write(wire.AppendError(nil, nil, wire.NewError(wire.InvalidRequest, "The message is too large")))
		return
	}
	in, refusal := readIncoming(line)
	if refusal != nil {
		c.write(wire.AppendError(nil, in.call.message.ID, refusal))
		return
	}
	c.take(ctx, in)
}

// writeLines writes messages until there are no more. After an error it goes on taking them, so that nobody waits.
func writeLines(out io.Writer, messages <-chan []byte) error {
	for message := range messages {
		if _, err := out.Write(append(wire.SingleLine(message), '\n')); err != nil {
			go func() {
				for range messages {
					continue
				}
			}()
			return fmt.Errorf("write standard output: %w", err)
		}
	}
	return nil
}
