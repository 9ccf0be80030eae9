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
