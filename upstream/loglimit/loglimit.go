// Package loglimit limits the rate of repeated log records. Without a limit, clients and servers could
// fill the disk, because they decide how often some events are logged.
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
	// window is the time over which records of a kind are counted.
	window = 10 * time.Second
	// maxKinds is the number of kinds above which the kinds whose window is over are removed.
	maxKinds = 1000
)

// New returns a logger that passes on at most burst records of each kind in ten seconds. When the
// ten seconds are over, it passes on the last withheld record, with the number of the other
// withheld records as "more". That record counts in the next ten seconds. Two records are of one
// kind if they have the same message and the same values of the attributes in keys. Loggers derived
// from the returned logger share its counts.
func New(logger *slog.Logger, burst int, keys ...string) *slog.Logger {
	return slog.New(&handler{logger.Handler(), &counts{burst: burst, keys: keys, kinds: map[string]*kind{}}})
}

// handler counts records and passes on some of them.
type handler struct {
	slog.Handler

	counts *counts
}

// counts holds the counts of a handler and of the handlers derived from it.
type counts struct {
	burst int
	keys  []string

	mu    sync.Mutex // guards kinds and their fields
	kinds map[string]*kind
}

// kind counts the records of one kind since its window began.
type kind struct {
	began time.Time
	count int
	// last is the latest withheld record, and handler its destination. handler is nil if no record
	// is withheld.
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

// kindOf returns the key under which a record is counted.
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
	// If a record is withheld, report begins the next window instead.
	if k == nil || k.handler == nil && time.Since(k.began) >= window {
		if len(c.kinds) >= maxKinds {
			maps.DeleteFunc(c.kinds, func(_ string, k *kind) bool { return time.Since(k.began) >= window })
		}
		k = &kind{began: time.Now()}
		c.kinds[name] = k
	}
	if k.count++; k.count <= c.burst {
		return true
	}
	if k.handler == nil { // the first withheld record of this window
		time.AfterFunc(window-time.Since(k.began), func() { c.report(k) })
	}
	k.last, k.handler = r.Clone(), to
	return false
}

// report passes on the last withheld record, with the number of the other withheld records, and
// begins the next window.
func (c *counts) report(k *kind) {
	c.mu.Lock()
	r, to, more := k.last, k.handler, k.count-c.burst-1
	*k = kind{began: time.Now(), count: 1}
	c.mu.Unlock()
	if more > 0 {
		r.AddAttrs(slog.Int("more", more))
	}
	_ = to.Handle(context.Background(), r) // like slog.Logger, ignore a failure to log
}

// WithAttrs implements slog.Handler.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &handler{h.Handler.WithAttrs(attrs), h.counts}
}

// WithGroup implements slog.Handler.
func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{h.Handler.WithGroup(name), h.counts}
}
