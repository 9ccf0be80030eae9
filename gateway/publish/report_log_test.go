package publish_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/gateway/snapshot/snapshottest"
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
	synctest.Test(t, func(t *testing.T) {
		noisy, other := server(), server("a")
		m := run(t, team("eng", "", "", "noisy", "other"), snapshottest.Upstreams{"noisy": noisy, "other": other})
		for round := range 5 {
			noisy.List(gatewaytest.Definitions(duplicates(round)...)...)
			settle()
			if m.Current().Catalog.Lookup(fmt.Sprint("noisy.x", round, "-0")) == nil {
				t.Fatalf("list %d is not published", round)
			}
		}
		other.List(gatewaytest.Definitions("b", "b")...)
		settle()
		upstreamtest.Equal(t, 1, m.log.Count("msg=catalog kind=duplicate upstream=other"), "lines about the other")
		upstreamtest.Equal(t, 50, m.log.Count("msg=catalog kind=duplicate upstream=noisy"), "lines about 150 duplicates")
	})
}
