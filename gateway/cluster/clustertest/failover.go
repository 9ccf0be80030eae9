//go:build unix

package clustertest

import (
	"strconv"
	"strings"
	"testing"
	"time"
)

// failoverPatience bounds the wait for servers to know each other.
const failoverPatience = time.Minute

// Failover is a store of a master and its replica, which a Sentinel puts in the master's place when that has not answered for two seconds.
type Failover struct {
	Master, Replica, Sentinel *Store
}

// MasterSet is the name by which the Sentinel knows the store of a [Failover].
const MasterSet = "main"

// StartFailover starts all three, and waits until the replica can take the master's place.
func StartFailover(tb testing.TB) *Failover {
	tb.Helper()
	f := &Failover{Master: Start(tb, "--repl-diskless-sync-delay", "0")}
	f.Replica = Start(tb, "--replicaof", "127.0.0.1", strconv.Itoa(f.Master.Port))
	await(tb, "the replica has what the master has", func() bool {
		return strings.Contains(f.Replica.Command("INFO", "replication"), "master_link_status:up")
	})
	f.Sentinel = StartSentinel(tb, MasterSet, f.Master,
		"sentinel down-after-milliseconds main 2000", "sentinel failover-timeout main 5000")
	await(tb, "the Sentinel knows the replica", func() bool {
		return strings.Contains(f.Sentinel.Command("SENTINEL", "REPLICAS", MasterSet), strconv.Itoa(f.Replica.Port))
	})
	return f
}

// URL returns the store's address as a configuration has it.
func (f *Failover) URL() string { return f.Sentinel.URL() + "?master_set=" + MasterSet }

// IsOver reports whether the replica is the master by now.
func (f *Failover) IsOver() bool { return strings.Contains(f.Replica.Command("ROLE"), "master") }

// LoseWrites has the replica get nothing of what is written from now on, as if the master died before it has sent it.
func (f *Failover) LoseWrites() {
	f.Master.tb.Helper()
	f.Master.Command("ACL", "SETUSER", "default", "-psync", "-sync")
	f.Master.Command("CLIENT", "KILL", "TYPE", "replica")
	await(f.Master.tb, "the replica gets nothing more", func() bool {
		return strings.Contains(f.Replica.Command("INFO", "replication"), "master_link_status:down")
	})
}

func await(tb testing.TB, what string, is func() bool) {
	tb.Helper()
	for deadline := time.Now().Add(failoverPatience); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			tb.Fatalf("after %v it is not so that %s", failoverPatience, what)
		}
	}
}
