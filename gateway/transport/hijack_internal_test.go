package transport

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream/upstreamtest/bubble"
)

// A stream whose client does not read outlives the gateway by closeTimeout, and no other does.
func TestHijackedWait_CutsOffClientsThatDoNotRead(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		h := &Transport{logger: slog.New(slog.DiscardHandler)}
		conn, client := net.Pipe()
		defer client.Close()
		if !h.hijacked.add(conn) {
			t.Fatal("a stream is refused before wait")
		}
		go h.serveHijacked(t.Context(), conn, &eventStream{w: conn, control: chunked{conn}}, func() {}, func(_ context.Context, out *eventStream) {
			out.comment() // nobody reads it
		})
		began := time.Now()
		h.hijacked.wait()
		if waited := time.Since(began); waited != closeTimeout {
			t.Errorf("wait returned after %v, want %v", waited, closeTimeout)
		}
		if late, _ := net.Pipe(); h.hijacked.add(late) {
			t.Error("a stream is accepted after wait")
		}
	})
}

func TestServeHijacked_PanicEndsOneStream(t *testing.T) {
	var log bytes.Buffer
	h := &Transport{logger: slog.New(slog.NewTextHandler(&log, nil))}
	conn, client := net.Pipe()
	h.hijacked.add(conn)
	go h.serveHijacked(t.Context(), conn, &eventStream{w: conn, control: chunked{conn}}, func() {}, func(context.Context, *eventStream) {
		panic("out of range")
	})
	if _, err := client.Read(make([]byte, 1)); err == nil {
		t.Error("the stream goes on after a panic")
	}
	h.hijacked.wait()
	if !strings.Contains(log.String(), "out of range") {
		t.Errorf("the panic is not in the log: %s", log.String())
	}
}

func TestFollow_KeepsQuietStreamsAlive(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var written bytes.Buffer
		conn, _ := net.Pipe()
		defer conn.Close()
		h := &Transport{closing: make(chan struct{})}
		out := &eventStream{w: &written, control: chunked{conn}}
		ctx, cancel := context.WithTimeout(t.Context(), 3*keepAlive+time.Second)
		defer cancel()
		caller := &snapshot.Caller{Generation: &snapshot.Generation{}}
		if h.follow(ctx, caller, &snapshot.Subscription{}, func() { t.Error("a change was sent") }, outlet{keepAlive: out.comment}) {
			t.Error("the stream ended although its client was still there")
		}
		if got := written.String(); got != strings.Repeat(": keep-alive\n\n", 3) {
			t.Errorf("within %s it sent %q, want three keep-alives", 3*keepAlive, got)
		}
	})
}
