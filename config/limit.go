package config

import (
	"math"

	"github.com/promptweir/promptweir/config/internal/hclread"
)

// Bounds of numbers, here and in other blocks.
const (
	// A rate between these gives an interval between requests that fits a Duration and that someone
	// may mean.
	minRate, maxRate = 1e-6, 1e6
	// maxCount bounds the counts that have no bound of their own: an int on every platform.
	maxCount = 1<<31 - 1
)

// Limit is a limit block: how much each principal may request. Anonymous callers count as one
// principal.
type Limit struct {
	// Rate is requests per second, 0 for no bound, and Burst how many may come at once.
	Rate  float64
	Burst int
	// Concurrency is requests in flight, 0 for no bound.
	Concurrency int
	// Streams is streams at the same time, 0 for no bound. Only the gateway's block has it.
	Streams int
	// Block identifies the limit in the configuration by the labels around it, not by lines, so
	// that a reload recognises it.
	Block string
	Place Place
}

func limitSchema() hclread.Schema {
	return hclread.Schema{Plain: []string{"rate", "burst", "concurrency", "streams"}}
}

// decodePromptLimit decodes the limit block inside a team or expose block, which is about some
// prompts only. See [decodeLimit].
func decodePromptLimit(outer *hclread.Block) *Limit {
	l := decodeLimit(outer)
	if l != nil && l.Streams > 0 {
		b := outer.Inner("limit")[0]
		b.Error(b.ValueRange("streams"), "Misplaced streams", "A stream is about the prompts of "+
			"all teams; streams belongs in the limit block of gateway.")
	}
	return l
}

// decodeLimit decodes the limit block inside another one, without [Limit.Block]; nil if there is
// none.
func decodeLimit(outer *hclread.Block) *Limit {
	blocks := outer.Inner("limit") // a second one was reported
	if len(blocks) == 0 {
		return nil
	}
	b := blocks[0]
	l := &Limit{Place: placeOf(b.Range())}
	hclread.Float(b, "rate", minRate, maxRate, &l.Rate)
	l.Burst = max(1, int(math.Ceil(l.Rate))) // a second's worth; below 1, no request would ever pass
	hclread.Int(b, "burst", maxCount, &l.Burst)
	hclread.Int(b, "concurrency", maxCount, &l.Concurrency)
	hclread.Int(b, "streams", maxCount, &l.Streams)
	switch {
	case b.Lacks("rate") && b.Lacks("concurrency") && b.Lacks("streams"):
		b.Error(b.Range(), "Nothing to limit", "A block \"limit\" needs rate, in requests per "+
			"second, or concurrency; in gateway, streams is enough.")
	case b.Lacks("rate") && b.Has("burst"):
		b.Error(b.ValueRange("burst"), "burst without rate", "burst is how many requests may "+
			"come at once within a rate; set rate or remove burst.")
	}
	return l
}
