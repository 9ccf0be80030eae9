package snapshot_test

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// A server whose list keeps changing, with other mistakes each time, does not fill the log, nor hide the reports about others.
func TestReports_CannotFloodTheLog(t *testing.T) {
	duplicates := func(round int) (prompts []string) {
		for i := range 60 {
			prompts = append(prompts, fmt.Sprint("x", round, "-", i/2)) // each name twice
		}
		return prompts
	}
	noisy, other := gatewaytest.NewPeer(t, "noisy", duplicates(0)...), gatewaytest.NewPeer(t, "other", "a")
	var log gatewaytest.Log
	begun := time.Now()
	s := gatewaytest.StartWith(t, gatewaytest.Team("eng", "", "", noisy, other), gateway.Options{
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	for round := range 5 {
		noisy.Offer(duplicates(round)...)
		upstreamtest.Eventually(t, "the list is published", func() bool { return s.Snapshot().Catalog.Lookup(fmt.Sprint("noisy.x", round, "-0")) != nil })
	}
	other.Offer("b", "b")
	upstreamtest.Eventually(t, "the other is reported", func() bool { return log.Count("msg=catalog kind=duplicate upstream=other") == 1 })
	most := 50 * (1 + int(time.Since(begun)/(10*time.Second)))
	if got := log.Count("msg=catalog kind=duplicate upstream=noisy"); got < 50 || got > most {
		t.Errorf("%d lines about 150 duplicates, want 50, %d at most", got, most)
	}
}
