package config

import (
	"fmt"
	"math"
)

// Limit is a limit block: what each principal may ask for. It is for each of them alone, all anonymous ones together.
type Limit struct {
	// Rate is requests per second, and Burst how many may come at once; a Rate of 0 is no bound.
	Rate  float64
	Burst int
	// Concurrency is requests at the same time; 0 is no bound.
	Concurrency int
	// Block names the block that has it, by labels and not by lines: no other limit of the configuration has the same.
	Block string
	Place Place
}

// nameLimits gives the limits of a team their names. Labels of expose blocks need not differ, so these are counted.
func (t *Team) nameLimits() {
	if t.Limit != nil {
		t.Limit.Block = fmt.Sprintf("team %q", t.Name)
	}
	seen := map[string]int{}
	for i := range t.Exposes {
		expose := &t.Exposes[i]
		seen[expose.Label]++
		if expose.Limit != nil {
			expose.Limit.Block = fmt.Sprintf("team %q expose %q %d", t.Name, expose.Label, seen[expose.Label])
		}
	}
}

// limit reads the limit block of a gateway, a team or an expose, without its name; nil where there is none.
func (f fields) limit() *Limit {
	blocks := f.inner("limit") // a second one was reported
	if len(blocks) == 0 {
		return nil
	}
	b := blocks[0]
	b.items(schema{attributes: []string{"rate", "burst", "concurrency"}})
	l := &Limit{Place: b.place()}
	b.number("rate", minRate, maxRate, &l.Rate)
	l.Burst = max(1, int(math.Ceil(l.Rate)))
	b.count("burst", maxCount, &l.Burst)
	b.count("concurrency", maxCount, &l.Concurrency)
	switch {
	case b.lacks("rate") && b.lacks("concurrency"):
		b.error(b.block.DefRange(), "Nothing to limit", "A block \"limit\" needs rate, in requests per second, or concurrency.")
	case b.lacks("rate") && b.has("burst"):
		b.error(b.at("burst"), "burst without rate", "burst is how many requests of a rate may come at once; set rate or remove burst.")
	}
	return l
}
