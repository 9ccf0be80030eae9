package requests

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/promptweir/promptweir/gateway/audit"
)

const (
	// maxCounted bounds the prompts whose gets are counted apart, to those that are got first.
	maxCounted = 1000
	// maxCountedName bounds their names, in bytes: each is a label of several time series.
	maxCountedName = 256
	// otherPrompts is what the gets of all others are counted under.
	otherPrompts = "_OTHER"
)

// promptGets counts gets by prompt and outcome. The zero value is ready.
type promptGets struct {
	// counts is replaced whole, so that counting takes no lock.
	counts atomic.Pointer[map[string]*outcomeCounts]
	grow   sync.Mutex // guards the replacement
}

// outcomeCounts are in the order of countedOutcomes.
type outcomeCounts [len(countedOutcomes)]atomic.Int64

// countedOutcomes are the outcomes of gets. A prompt that is hidden counts as one that is unknown, since metrics are not secret.
var countedOutcomes = [...]audit.Outcome{ //nolint:gochecknoglobals // a constant list
	audit.OK, audit.InputRequired, audit.Unknown, audit.Refused, audit.UpstreamError, audit.Failed, audit.Cancelled,
}

// count counts a get. Name is empty where the caller sees no such prompt.
func (g *promptGets) count(name string, outcome audit.Outcome) {
	if outcome == audit.Hidden {
		outcome = audit.Unknown
	}
	g.of(name)[slices.Index(countedOutcomes[:], outcome)].Add(1)
}

// of returns the counts of a prompt.
func (g *promptGets) of(name string) *outcomeCounts {
	if counts := g.known(name); counts != nil {
		return counts
	}
	g.grow.Lock()
	defer g.grow.Unlock()
	if counts := g.known(name); counts != nil { // another goroutine was faster
		return counts
	}
	next := map[string]*outcomeCounts{}
	if before := g.counts.Load(); before != nil {
		next = maps.Clone(*before)
	}
	if len(next) >= maxCounted || len(name) > maxCountedName {
		name = otherPrompts
	}
	next[name] = &outcomeCounts{}
	g.counts.Store(&next)
	return next[name]
}

// known returns the counts of a prompt, which may be those of all others; nil if there are none yet.
func (g *promptGets) known(name string) *outcomeCounts {
	known := g.counts.Load()
	if known == nil {
		return nil
	}
	if counts := (*known)[name]; counts != nil {
		return counts
	}
	if len(*known) >= maxCounted || len(name) > maxCountedName {
		return (*known)[otherPrompts]
	}
	return nil
}

// PromptGets calls observe with how many gets of each prompt had each outcome. The name is empty for gets whose caller sees no such
// prompt, and "_OTHER" for those of further prompts once there are 1000.
func (h *Handler) PromptGets(observe func(prompt, outcome string, n int64)) {
	known := h.gets.counts.Load()
	if known == nil {
		return
	}
	for name, counts := range *known {
		for i := range counts {
			if n := counts[i].Load(); n > 0 {
				observe(name, string(countedOutcomes[i]), n)
			}
		}
	}
}
