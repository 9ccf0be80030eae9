package gatewaytest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/promptweir/promptweir/gateway/identity"
	"github.com/promptweir/promptweir/gateway/policy"
)

// StdioClient is a client of ServeStdio.
type StdioClient struct {
	TB testing.TB
	// In is the gateway's input.
	In *io.PipeWriter
	// Lines has the gateway's output, and is closed at its end.
	Lines chan string
	// Stop ends the context of ServeStdio.
	Stop context.CancelFunc

	ended chan error // the result of ServeStdio
}

// Anybody returns the principal of a caller where there is no auth block.
func Anybody() policy.Principal {
	return policy.Principal{Subject: policy.AnonymousSubject, Anonymous: true, EveryTeam: true}
}

// Stdio serves a client as a principal such as "user:ann", or as anybody.
func (s *Server) Stdio(as string) *StdioClient {
	s.TB.Helper()
	who := Anybody()
	if as != "" {
		var err error
		if who, err = identity.ParsePrincipal(as); err != nil {
			s.TB.Fatal(err)
		}
	}
	in, inWriter := io.Pipe()
	outReader, out := io.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	c := &StdioClient{TB: s.TB, In: inWriter, Lines: make(chan string, 100), ended: make(chan error, 1), Stop: cancel}
	go func() {
		err := s.ServeStdio(ctx, identity.Vouched(who), in, out)
		_ = out.Close()
		c.ended <- err
	}()
	go func() {
		defer close(c.Lines)
		for scanner := bufio.NewScanner(outReader); scanner.Scan(); {
			c.Lines <- scanner.Text()
		}
	}()
	s.TB.Cleanup(func() {
		cancel()
		_ = inWriter.Close()
	})
	return c
}

// Send sends a line.
func (c *StdioClient) Send(line string) {
	c.TB.Helper()
	if _, err := io.WriteString(c.In, line+"\n"); err != nil {
		c.TB.Fatal(err)
	}
}

// Request sends a request. Params are the members of an object, without its braces.
func (c *StdioClient) Request(id, method, params string) {
	c.TB.Helper()
	c.Send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{%s}}`, id, method, params))
}

// Next returns the next line of the output.
func (c *StdioClient) Next() string {
	c.TB.Helper()
	select {
	case line, ok := <-c.Lines:
		if !ok {
			c.TB.Fatal("the output has ended")
		}
		return line
	case <-time.After(Patience):
		c.TB.Fatalf("no line within %v", Patience)
	}
	return ""
}

// WantMessage waits for the next line, which must have all of the parts in it.
func (c *StdioClient) WantMessage(parts ...string) string {
	c.TB.Helper()
	line := c.Next()
	for _, part := range parts {
		if !strings.Contains(line, part) {
			c.TB.Fatalf("got %s, want %s in it", line, part)
		}
	}
	return line
}

// WantEnd waits until ServeStdio has returned, without an error.
func (c *StdioClient) WantEnd() {
	c.TB.Helper()
	select {
	case err := <-c.ended:
		if err != nil {
			c.TB.Errorf("ServeStdio: %v", err)
		}
	case <-time.After(Patience):
		c.TB.Fatalf("ServeStdio has not returned within %v", Patience)
	}
}
