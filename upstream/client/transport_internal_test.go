package client

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/promptweir/promptweir/upstream/upstreamtest/bubble"
	"github.com/promptweir/promptweir/upstream/wire"
)

// A panic over a line of a child, or an event of HTTP+SSE, ends the call that it is about, at once, and no other.
func TestMux_PanicEndsTheCallThatItIsAbout(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		x := newMux(slog.New(slog.DiscardHandler))
		x.setRevision(wire.Rev20250326)
		x.receive = func(*wire.Message) { panic("out of range") }
		failures := [...]error{1: errStreamEnded, 2: errStreamEnded}
		for id := 1; id < len(failures); id++ {
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(id)*time.Minute)
				defer cancel()
				r := &request{id: int64(id), method: wire.PromptsGet}
				failures[id] = x.await(ctx, r, func(context.Context, []byte) error { return nil })
			}()
		}
		synctest.Wait()
		if err := x.dispatch([]byte(`[{"jsonrpc":"2.0","method":"a"},{"jsonrpc":"2.0","id":1,"result":{}}]`)); err == nil {
			t.Error("nobody hears of a panic")
		}
		synctest.Wait()
		if err := failures[1]; !Answered(err) || err == nil || err.Error() != errPanic.Error() {
			t.Errorf("the call that it is about fails with %v, want %v", err, errPanic)
		}
		if err := x.dispatch([]byte(`{"jsonrpc":"2.0","id":2,"result":{}}`)); err != nil {
			t.Errorf("the next response: %v", err)
		}
		synctest.Wait()
		if failures[2] != nil {
			t.Errorf("another call fails with %v", failures[2])
		}
	})
}
