package requests

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/promptweir/promptweir/gateway/audit"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/gateway/snapshot"
)

func TestPromptGets_CountEachOnceAndFewApart(t *testing.T) {
	h := &Handler{}
	var group sync.WaitGroup
	const prompts = maxCounted + 500
	for range 4 {
		group.Go(func() {
			for i := range prompts {
				h.gets.count(fmt.Sprint("p", i), audit.OK)
			}
		})
	}
	group.Wait()
	h.gets.count(strings.Repeat("x", maxCountedName+1), audit.Failed)
	h.gets.count("p0", audit.Hidden)
	got := map[string]int64{}
	sum := int64(0)
	h.PromptGets(func(prompt, outcome string, n int64) {
		got[prompt+" "+outcome] = n
		sum += n
	})
	if len(got) > maxCounted+4 || sum != 4*prompts+2 {
		t.Errorf("%d gets in %d series, want %d in few more than %d", sum, len(got), 4*prompts+2, maxCounted)
	}
	if got["p0 ok"] != 4 || got["p0 unknown"] != 1 || got["p0 denied"] != 0 || got["_OTHER ok"] < 4*500 || got["_OTHER failed"] != 1 {
		t.Errorf("p0: %d ok, %d unknown; others: %d ok, %d failed", got["p0 ok"], got["p0 unknown"], got["_OTHER ok"], got["_OTHER failed"])
	}
	if allocs := testing.AllocsPerRun(100, func() { h.gets.count("p1", audit.OK); h.gets.count("another", audit.OK) }); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

func TestClientsSeen_EstimatesTheLastHour(t *testing.T) {
	h := &Handler{clients: newClientsSeen()}
	begun := time.Unix(1_800_000_000, 0)
	request := Request{Revision: "2025-06-18", Caller: snapshot.Caller{Generation: &snapshot.Generation{}}}
	see := func(from, to int, at time.Time) {
		for i := from; i < to; i++ {
			request.Received, request.Caller.Principal = at, policy.Principal{Subject: fmt.Sprint("user:", i)}
			h.clients.see(&request)
		}
	}
	seen := func(at time.Time) (n int64) {
		h.ClientsSeen(at, func(revision string, count int64) {
			if revision != request.Revision {
				t.Errorf("%d clients of %s", count, revision)
			}
			n = count
		})
		return n
	}
	check := func(what string, at time.Time, want int) {
		t.Helper()
		if got := seen(at); math.Abs(float64(got)-float64(want)) > 0.05*float64(want) {
			t.Errorf("%s: %d, want %d ± 5 %%", what, got, want)
		}
	}
	check("before", begun, 0)
	see(0, 1, begun)
	see(0, 1, begun.Add(30*time.Minute))
	check("one who came twice", begun.Add(30*time.Minute), 1)
	see(0, 3000, begun.Add(30*time.Minute))
	check("many", begun.Add(time.Hour), 3000)
	see(2000, 5000, begun.Add(70*time.Minute))
	check("more", begun.Add(70*time.Minute), 5000)
	check("those who were there in the last hour", begun.Add(100*time.Minute), 3000)
	check("when all have gone", begun.Add(3*time.Hour), 0)
	request.Caller.Principal = policy.Principal{Subject: "user:a", Source: "b"}
	if allocs := testing.AllocsPerRun(100, func() { h.clients.see(&request) }); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}
