package session

import (
	"log/slog"
	"testing"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/upstreamtest/bubble"
)

func newTestServer() *Server {
	return New(&config.Upstream{URL: "http://127.0.0.1:1"}, client.Options{}, slog.New(slog.DiscardHandler), func() {})
}

func TestServer_IsAskedNothingUntilItsPauseIsOver(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := newTestServer()
		s.ApplyRetryAfter(&client.StatusError{Status: 429, RetryAfter: time.Minute})
		if p := s.Paused(); p.Rest() != time.Minute || p.Reason != client.RateLimited {
			t.Errorf("the pause is %+v, and takes another %s", p, p.Rest())
		}
		upstreamtest.Equal(t, time.Minute, s.nextCheck(time.Hour), "the time until the next check")
		time.Sleep(time.Minute)
		if s.Paused() != nil {
			t.Error("the pause is not over")
		}
	})
}
