package requests

import (
	"fmt"
	"sync"
	"testing"

	"github.com/promptweir/promptweir/gateway/audit"
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
	h.gets.count("one more", audit.Failed)
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
