package serving

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/upstreamtest/bubble"
)

func TestMaxConnections_LeaveEnoughForUpstreams(t *testing.T) {
	web := config.Upstream{Concurrency: 100}
	child := config.Upstream{Concurrency: 100, Command: []string{"server"}}
	for _, test := range []struct {
		limit     int
		memory    int64
		upstreams []config.Upstream
		want      int
	}{
		{1024, 0, nil, 768},       // a quarter is kept
		{1024, 1 << 30, nil, 768}, // of more memory than that takes
		{1 << 20, 256 << 20, nil, 4096},
		{1024, 0, []config.Upstream{web, web, child}, 1024 - 96 - 3*4 - 200}, // what they need
		{1024, 0, []config.Upstream{web, web, web, web, web, web}, 512},      // half at most
		{1, 0, nil, 1},
		{1024, 1, nil, 1},
	} {
		if got := maxConnections(test.limit, test.memory, test.upstreams); got != test.want {
			t.Errorf("maxConnections(%d, %d, %d upstreams) = %d, want %d", test.limit, test.memory, len(test.upstreams), got, test.want)
		}
	}
}

// A signal ends a start whose configuration takes long to load.
func TestUntilEnd_LeavesBehindWhatTakesLong(t *testing.T) {
	ctx, end := context.WithCancelCause(t.Context())
	block := make(chan struct{})
	defer close(block)
	err := untilEnd(ctx, func() {
		end(&SignalError{syscall.SIGTERM})
		<-block
	})
	if by, ok := errors.AsType[*SignalError](err); !ok || by.Is != syscall.SIGTERM {
		t.Errorf("got %v, want the signal", err)
	}
	done := false
	if err := untilEnd(t.Context(), func() { done = true }); !done || err != nil {
		t.Errorf("done: %t, %v", done, err)
	}
}

func TestAwaitReady_AsksUntilReady(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		begun, calls := time.Now(), 0
		if !awaitReady(t.Context(), func() bool { calls++; return calls == 3 }) || time.Since(begun) != 2*readyInterval {
			t.Errorf("not ready after %v and %d questions", time.Since(begun), calls)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*readyInterval)
		defer cancel()
		if awaitReady(ctx, func() bool { return false }) || ctx.Err() == nil {
			t.Error("ready before the context ended")
		}
	})
}
