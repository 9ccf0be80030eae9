package gateway

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A stream whose client does not read outlives the gateway by closeBound, and no other does.
func TestStreamsOfClientsThatDoNotReadAreCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &Gateway{logger: slog.New(slog.DiscardHandler)}
		conn, client := net.Pipe()
		defer client.Close()
		if !g.detached.keep(conn) {
			t.Fatal("a stream is refused before the end")
		}
		go g.serveStream(t.Context(), conn, &eventStream{w: conn, control: chunked{conn}}, func(_ context.Context, out *eventStream) {
			out.comment() // nobody reads it
		})
		began := time.Now()
		g.detached.end()
		if waited := time.Since(began); waited != closeBound {
			t.Errorf("end returned after %v, want %v", waited, closeBound)
		}
		if late, _ := net.Pipe(); g.detached.keep(late) {
			t.Error("a stream is kept after the end")
		}
	})
}

func TestAStreamThatPanicsEndsAlone(t *testing.T) {
	var log bytes.Buffer
	g := &Gateway{logger: slog.New(slog.NewTextHandler(&log, nil))}
	conn, client := net.Pipe()
	g.detached.keep(conn)
	go g.serveStream(t.Context(), conn, &eventStream{w: conn, control: chunked{conn}}, func(context.Context, *eventStream) {
		panic("out of range")
	})
	if _, err := client.Read(make([]byte, 1)); err == nil {
		t.Error("the stream goes on")
	}
	g.detached.end()
	if !strings.Contains(log.String(), "out of range") {
		t.Errorf("the log does not tell of the panic: %s", log.String())
	}
}

func TestQuietStreamsShowThatTheyAreAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var written bytes.Buffer
		conn, _ := net.Pipe()
		defer conn.Close()
		g := &Gateway{closing: make(chan struct{})}
		out := &eventStream{w: &written, control: chunked{conn}}
		ctx, cancel := context.WithTimeout(t.Context(), 3*keepAlive+time.Second)
		defer cancel()
		who := &caller{by: &setup{replaced: make(chan struct{})}}
		if g.stream(ctx, out, who, &subscriber{wake: make(chan struct{}, 1)}, func() { t.Error("a change is told") }) {
			t.Error("the stream ended before its client went")
		}
		if got := written.String(); got != strings.Repeat(": keep-alive\n\n", 3) {
			t.Errorf("in %s it said %q", 3*keepAlive, got)
		}
	})
}
