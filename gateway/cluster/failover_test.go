//go:build unix

package cluster_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/cluster"
	"github.com/promptweir/promptweir/gateway/cluster/clustertest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// startCluster starts a store of three masters, and returns one: the others are found.
func startCluster(t *testing.T) config.Store {
	t.Helper()
	var all []*clustertest.Store
	for i, slots := range [][2]string{{"0", "5460"}, {"5461", "10922"}, {"10923", "16383"}} {
		node := clustertest.StartServer(t, "--cluster-enabled", "yes")
		node.Command("CLUSTER", "ADDSLOTSRANGE", slots[0], slots[1])
		node.Command("CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
		all = append(all, node)
	}
	for _, node := range all[1:] {
		node.Command("CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(all[0].Port))
	}
	upstreamtest.Eventually(t, "each node knows of a whole cluster", func() bool {
		return !slices.ContainsFunc(all, func(node *clustertest.Store) bool {
			info := node.Command("CLUSTER", "INFO")
			return !strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, "cluster_known_nodes:3")
		})
	})
	return at(all[1])
}

// Replicas share limits of names that fall on all nodes.
func TestStore_IsARedisClusterOfSeveralNodes(t *testing.T) {
	t.Parallel() // it waits
	store := startCluster(t)
	a, b := replica(t, store), replica(t, store)
	for i := range 12 {
		// One principal's keys are on one node.
		wide, narrow := &config.Limit{Rate: 0.001, Burst: 3, Block: "gateway"}, &config.Limit{Rate: 0.001, Burst: 2, Block: "gateway"}
		for j, s := range []*cluster.Replica{a, b, a} {
			take(t, s, fmt.Sprint("principal ", i), j < 2, wide, narrow)
		}
	}
}
