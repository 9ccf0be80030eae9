package gatewaytest

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/promptweir/promptweir/gateway/identity"
)

// SDKTransport returns a transport of the official SDK to the gateway: "http", "sse" or "stdio".
func (s *Server) SDKTransport(tb testing.TB, kind string) mcp.Transport {
	tb.Helper()
	switch kind {
	case "http":
		return &mcp.StreamableClientTransport{Endpoint: s.URL}
	case "sse":
		return &mcp.SSEClientTransport{Endpoint: s.SSEURL()}
	}
	in, toGateway := io.Pipe()
	fromGateway, out := io.Pipe()
	who := Anybody()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		// A client that closes both pipes at once does not read the last messages.
		if err := s.ServeStdio(context.WithoutCancel(tb.Context()), identity.Vouched(who), in, out); err != nil && !errors.Is(err, io.ErrClosedPipe) {
			tb.Errorf("ServeStdio: %v", err)
		}
	}()
	tb.Cleanup(func() {
		_ = toGateway.Close()
		_ = fromGateway.Close()
		<-ended
	})
	return &mcp.IOTransport{Reader: fromGateway, Writer: toGateway}
}
