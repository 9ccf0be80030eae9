//go:build unix

package cluster_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/cluster"
	"github.com/promptweir/promptweir/gateway/cluster/clustertest"
)

// failoverTime is how long replicas may take to be one again after a store's server has died: Sentinels and nodes of a cluster take two
// seconds in these tests to notice, and as long to agree. The rest is for a busy machine.
const failoverTime = time.Minute

// within waits until something is so, for at most the time of a failover.
func within(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(failoverTime); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after %v it is not so that %s", failoverTime, what)
		}
	}
}

func sentinel(f *clustertest.Failover) config.Store {
	address := at(f.Sentinel)
	address.MasterSet = clustertest.MasterSet
	return address
}

// awaitFailover waits until the replica is the master, and all use it.
func awaitFailover(t *testing.T, f *clustertest.Failover, all ...*cluster.Replica) {
	t.Helper()
	within(t, "all use the new master", func() bool {
		return f.IsOver() && !slices.ContainsFunc(all, func(s *cluster.Replica) bool { return !s.State().Connected })
	})
}

// takes reports whether a request is counted by the store: false while the store is away.
func takes(s *cluster.Replica, who string, limits ...*config.Limit) (counted bool, err error) {
	wait, err := s.Limits.Acquire(who, limits)
	return wait == 0, err
}

func TestStore_FollowsAFailoverOfSentinels(t *testing.T) {
	t.Parallel() // it waits
	for name, end := range map[string]func(*clustertest.Store){"killed": (*clustertest.Store).Kill, "hangs": (*clustertest.Store).Pause} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := clustertest.StartFailover(t)
			a, b := replica(t, sentinel(f)), replica(t, sentinel(f))
			take(t, a, "ann", true, &config.Limit{Rate: 0.001, Burst: 1, Block: "before"})
			end(f.Master)
			began := time.Now()
			awaitFailover(t, f, a, b)
			limit := &config.Limit{Rate: 0.001, Burst: 2, Block: "after"}
			for i, s := range []*cluster.Replica{a, b, a} {
				within(t, "a request is counted", func() bool {
					counted, err := takes(s, "ann", limit)
					if err == nil && counted != (i < 2) {
						t.Errorf("request %d of 2 that are allowed is counted: %t", i+1, counted)
					}
					return err == nil
				})
			}
			t.Logf("%v after the end of the master", time.Since(began))
		})
	}
}

// redisCluster is a store of three masters, and one replica of the first.
type redisCluster []*clustertest.Store

func startCluster(t *testing.T) redisCluster {
	t.Helper()
	var all redisCluster
	for range 4 {
		all = append(all, clustertest.StartServer(t, "--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--repl-diskless-sync-delay", "0"))
	}
	for i, slots := range [][2]string{{"0", "5460"}, {"5461", "10922"}, {"10923", "16383"}} {
		all[i].Command("CLUSTER", "ADDSLOTSRANGE", slots[0], slots[1])
		all[i].Command("CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
	}
	for _, node := range all[1:] {
		node.Command("CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(all[0].Port))
	}
	first := all.id(0)
	within(t, "the replica knows its master", func() bool {
		return strings.HasPrefix(all[3].Command("CLUSTER", "REPLICATE", first), "+OK")
	})
	within(t, "the cluster is ready", func() bool { return all.isReady() })
	within(t, "the replica has what its master has", func() bool {
		return strings.Contains(all[3].Command("INFO", "replication"), "master_link_status:up")
	})
	for i := 0; all[0].Command("SET", strconv.Itoa(i), "x") != "+OK\r\n"; i++ { // a replica that has nothing is not told of
	}
	within(t, "clients are told of the replica", func() bool {
		return strings.Contains(all[1].Command("CLUSTER", "SLOTS"), strconv.Itoa(all[3].Port))
	})
	return all
}

func (all redisCluster) id(node int) string {
	lines := strings.Split(all[node].Command("CLUSTER", "MYID"), "\r\n")
	return lines[1]
}

// isReady reports whether those that run know of a whole cluster of four.
func (all redisCluster) isReady() bool {
	return !slices.ContainsFunc(all, func(node *clustertest.Store) bool {
		info := node.Command("CLUSTER", "INFO")
		return !strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, "cluster_known_nodes:4") ||
			strings.Count(node.Command("CLUSTER", "NODES"), "myself,slave")+strings.Count(node.Command("CLUSTER", "NODES"), " slave ") != 1
	})
}

func (all redisCluster) address() config.Store { return at(all[1]) } // the others are found

// worksAt holds that two replicas share limits of names that fall on all nodes.
func worksAt(t *testing.T, round string, a, b *cluster.Replica) {
	t.Helper()
	for i := range 12 {
		// Of one principal, so that they are on one node, although they have different keys.
		wide, narrow := &config.Limit{Rate: 0.001, Burst: 3, Block: round}, &config.Limit{Rate: 0.001, Burst: 2, Block: round}
		isLate := false // the answer; the store may have counted all the same
		for j, s := range []*cluster.Replica{a, b, a} {
			who := fmt.Sprint("principal ", i)
			within(t, "a request is counted", func() bool {
				counted, err := takes(s, who, wide, narrow)
				if isLate = isLate || err != nil; !isLate && counted != (j < 2) {
					t.Errorf("request %d of 2 that are allowed is counted: %t", j+1, counted)
				}
				return err == nil
			})
		}
	}
}

func TestStore_IsARedisClusterOfSeveralNodes(t *testing.T) {
	t.Parallel() // it waits
	nodes := startCluster(t)
	a, b := replica(t, nodes.address()), replica(t, nodes.address())
	worksAt(t, "at first", a, b)

	// A node dies, and its replica takes its place.
	nodes[0].Kill()
	began := time.Now()
	within(t, "the cluster is whole again", func() bool {
		return !slices.ContainsFunc(nodes[1:], func(node *clustertest.Store) bool {
			return !strings.Contains(node.Command("CLUSTER", "INFO"), "cluster_state:ok") || !strings.Contains(nodes[3].Command("ROLE"), "master")
		})
	})
	whole := time.Since(began)
	worksAt(t, "after a node has died", a, b)
	t.Logf("the cluster was whole after %v, and all worked after %v", whole, time.Since(began))
}

// A slot moves to another node with the count that is in it, as when a cluster grows.
func TestStore_FollowsASlotThatMoves(t *testing.T) {
	t.Parallel() // it waits
	nodes := startCluster(t)
	s, limit := replica(t, nodes.address()), &config.Limit{Rate: 0.001, Burst: 2, Block: "gateway"}
	take(t, s, "ann", true, limit)
	from, key := 0, ""
	for i, node := range nodes[:3] {
		for _, name := range keys(node) {
			if !strings.Contains(name, "probe") {
				from, key = i, name
			}
		}
	}
	to := (from + 1) % 3
	slot := strings.Trim(nodes[from].Command("CLUSTER", "KEYSLOT", key), ":\r\n")
	nodes[to].Command("CLUSTER", "SETSLOT", slot, "IMPORTING", nodes.id(from))
	nodes[from].Command("CLUSTER", "SETSLOT", slot, "MIGRATING", nodes.id(to))
	port := strconv.Itoa(nodes[to].Port)
	if got := nodes[from].Command("MIGRATE", "127.0.0.1", port, key, "0", "5000"); got != "+OK\r\n" {
		t.Fatalf("the key does not move: %s", got)
	}
	for _, i := range []int{to, from} {
		nodes[i].Command("CLUSTER", "SETSLOT", slot, "NODE", nodes.id(to))
	}
	take(t, s, "ann", true, limit)
	take(t, s, "ann", false, limit)
}
