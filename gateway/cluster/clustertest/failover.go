//go:build unix

package clustertest

import (
	"strconv"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// Failover is a store of a master and its replica, which a Sentinel promotes when the master has
// not answered for two seconds.
type Failover struct {
	Master, Replica, Sentinel *Store
}

// MasterSet is the name by which the Sentinel knows the store of a [Failover].
const MasterSet = "main"

// StartFailover starts all three, and waits until the replica can take the master's place.
func StartFailover(tb testing.TB) *Failover {
	tb.Helper()
	f := &Failover{Master: StartServer(tb, "--repl-diskless-sync-delay", "0")}
	f.Replica = StartServer(tb, "--replicaof", "127.0.0.1", strconv.Itoa(f.Master.Port))
	upstreamtest.Eventually(tb, "the replica has what the master has", func() bool {
		return strings.Contains(f.Replica.Command("INFO", "replication"), "master_link_status:up")
	})
	f.Sentinel = StartSentinel(tb, MasterSet, f.Master,
		"sentinel down-after-milliseconds main 2000", "sentinel failover-timeout main 5000")
	upstreamtest.Eventually(tb, "the Sentinel knows the replica", func() bool {
		return strings.Contains(f.Sentinel.Command("SENTINEL", "REPLICAS", MasterSet), strconv.Itoa(f.Replica.Port))
	})
	return f
}

// URL returns the store's address as a configuration has it.
func (f *Failover) URL() string { return f.Sentinel.URL() + "?master_set=" + MasterSet }

// IsOver reports whether the replica is the master by now.
func (f *Failover) IsOver() bool { return strings.Contains(f.Replica.Command("ROLE"), "master") }
