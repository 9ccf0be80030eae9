// Package loglimit keeps a log from being flooded with one message. Clients and servers decide how
// often they give reason to log, and could fill the disk.
package loglimit

import (
	"context"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"time"
)

const (
	// window is how long records of a kind are counted together.
	window = 10 * time.Second
	// maxKinds bounds the kinds that are counted at a time. Beyond it, those are forgotten whose
	// window is over.
	maxKinds = 1000
)

// New returns a logger that passes on at most burst records of each kind within ten seconds, and at
// the end of these the last of the others, with how many more there were as "more", which is the
// first of the next ten seconds. Records are of one kind if they have the same message and the same
// values of the attributes named keys. Loggers derived from the returned one count together with
// it.
func New(logger *slog.Logger, burst int, keys ...string) *slog.Logger {
	return slog.New(&handler{logger.Handler(), &counts{burst: burst, keys: keys, kinds: map[string]*kind{}}})
}

// handler counts records, and passes on some of them.
type handler struct {
	slog.Handler

	counts *counts
}

// counts is what derived handlers share.
type counts struct {
	burst int
	keys  []string

	mu    sync.Mutex // guards kinds and what is in them
	kinds map[string]*kind
}

// kind counts the records of a kind since its window began.
type kind struct {
	began time.Time
	count int
	// last is the latest record that was withheld, and handler the one that it is for.
	last    slog.Record
	handler slog.Handler
}

// Handle implements slog.Handler.
func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	if !h.counts.add(h.Handler, h.counts.kindOf(r), r) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// kindOf returns what a record is counted under.
func (c *counts) kindOf(r slog.Record) string {
	if len(c.keys) == 0 {
		return r.Message
	}
	values := make([]string, len(c.keys), len(c.keys)+1)
	r.Attrs(func(a slog.Attr) bool {
		for i, key := range c.keys {
			if a.Key == key {
				values[i] = a.Value.String()
			}
		}
		return true
	})
	return strings.Join(append(values, r.Message), "\x00")
}

// add counts a record and reports whether to pass it on.
func (c *counts) add(to slog.Handler, name string, r slog.Record) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.kinds[name]
	if k == nil || k.handler == nil && time.Since(k.began) >= window { // else report begins the next window
		if len(c.kinds) >= maxKinds {
			maps.DeleteFunc(c.kinds, func(_ string, k *kind) bool { return time.Since(k.began) >= window })
		}
		k = &kind{began: time.Now()}
		c.kinds[name] = k
	}
	if k.count++; k.count <= c.burst {
		return true
	}
	if k.handler == nil { // the first to be withheld
		time.AfterFunc(window-time.Since(k.began), func() { c.report(k) })
	}
	k.last, k.handler = r.Clone(), to
	return false
}

// report passes on the last record that was withheld, with the number of all.
func (c *counts) report(k *kind) {
	c.mu.Lock()
	r, to, more := k.last, k.handler, k.count-c.burst-1
	*k = kind{began: time.Now(), count: 1}
	c.mu.Unlock()
	if more > 0 {
		r.AddAttrs(slog.Int("more", more))
	}
	_ = to.Handle(context.Background(), r) // as with slog.Logger, a failure to log is nowhere to be logged
}

// WithAttrs implements slog.Handler.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &handler{h.Handler.WithAttrs(attrs), h.counts}
}

// WithGroup implements slog.Handler.
func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{h.Handler.WithGroup(name), h.counts}
}
