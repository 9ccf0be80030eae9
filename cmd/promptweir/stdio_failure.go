package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/promptweir/promptweir/cmd/promptweir/internal/terminal"
	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// failureLine bounds a message of a client that is told why the gateway does not start, in bytes.
	failureLine = 1 << 20
	// failureBound is how long such a client may take for its first message, and for each further one: a client that tries the
	// modern era first goes on with initialize.
	failureBound = 2 * time.Second
)

// answerFailure answers each request of a client over stdio with an error that says why the gateway does not start. Clients show it
// to their users, who do not see standard error: without an answer, all that they read is that the connection was closed. It returns
// when the client has no more to say. A goroutine may remain in a read of in that cannot be interrupted.
func answerFailure(ctx context.Context, cause error, in io.Reader, out io.Writer) {
	lines := make(chan []byte)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go readFailureLines(ctx, in, lines)
	for {
		select {
		case line, ok := <-lines:
			if !ok {
				return
			}
			message, err := wire.Parse(line)
			if err != nil || !message.IsRequest() {
				continue
			}
			answer := wire.AppendError(nil, message.ID, wire.NewError(wire.InternalError, failureText(cause)))
			if _, err := out.Write(append(answer, '\n')); err != nil {
				return
			}
		case <-time.After(failureBound):
			return
		case <-ctx.Done():
			return
		}
	}
}

// readFailureLines passes on each line until the input or ctx ends, then closes lines.
func readFailureLines(ctx context.Context, in io.Reader, lines chan<- []byte) {
	defer close(lines)
	reader := bufio.NewReader(in)
	for {
		line, err := wire.ReadLine(reader, failureLine)
		if errors.Is(err, wire.ErrLineTooLong) {
			continue
		}
		if err != nil {
			return
		}
		select {
		case lines <- line:
		case <-ctx.Done():
			return
		}
	}
}

// failureText says in one line why the gateway does not start: the first mistake, and how many there are besides.
func failureText(cause error) string {
	first, rest, _ := strings.Cut(cause.Error(), "\n")
	text := "promptweir does not start: " + first
	if rest != "" {
		text += fmt.Sprintf(" (and %s; promptweir validate prints all)", terminal.Count(strings.Count(rest, "\n")+1, "more mistake"))
	}
	return text
}
