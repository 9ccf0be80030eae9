package client

import (
	"context"
	"io"
	"net"
	"testing"
	"time"
)

// A server that refuses a connection says why, and closes it with a request unread: the next write fails.
func TestLeavingErrorsToReads_LastWordsAreRead(t *testing.T) {
	t.Parallel()
	const words = "refused"
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		server, err := listener.Accept()
		if err != nil {
			return
		}
		_, _ = io.ReadFull(server, make([]byte, 1))
		_, _ = io.WriteString(server, words)
		_ = server.Close()
	}()

	var plain net.Conn
	conn, err := leavingErrorsToReads(func(ctx context.Context, network, address string) (net.Conn, error) {
		var err error
		plain, err = (&net.Dialer{}).DialContext(ctx, network, address)
		return plain, err
	})(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	for err == nil { // until a write fails
		_, err = plain.Write([]byte("request"))
	}
	if n, err := conn.Write([]byte("request")); n != len("request") || err != nil {
		t.Errorf("Write() = %d, %v, want it to succeed", n, err)
	}
	if got, err := io.ReadAll(conn); string(got) != words {
		t.Errorf("read %q, %v, want %q", got, err, words)
	}
	_ = conn.Close()
	if _, err := conn.Write([]byte("request")); err == nil {
		t.Error("Write() on a connection that was closed here succeeds")
	}
}
