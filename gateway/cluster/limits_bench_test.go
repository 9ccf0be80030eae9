package cluster_test

import (
	"testing"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/cluster/clustertest"
)

// What a limit costs that is counted at a store on the same machine: the time of one request alone, and of many at once.
func BenchmarkAcquire(b *testing.B) {
	store := clustertest.Start(b)
	limits := []*config.Limit{{Rate: 1e9, Burst: 1e9, Block: "gateway"}}
	s := replica(b, at(store))
	take := func() {
		if wait, err := s.Limits.Acquire("ann", limits); wait > 0 || err != nil {
			b.Fatalf("%v, %v", wait, err)
		}
	}
	b.Run("alone", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			take()
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.SetParallelism(8)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				take()
			}
		})
	})
}
