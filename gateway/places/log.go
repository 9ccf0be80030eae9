package places

import (
	"log/slog"
	"sync"
	"time"
)

// logInterval is how often one message may be logged. Anybody can give reason to, any number of times.
const logInterval = time.Second

// counter logs something at most once in logInterval, with how often it happened.
type counter struct {
	log func(count, last slog.Attr)

	mu      sync.Mutex // guards what follows
	count   int        // since the message was logged last
	last    slog.Attr  // of what happened last
	waiting bool       // for the end of the interval
}

// add counts what happened, and logs it now or at the end of the interval.
func (c *counter) add(attribute slog.Attr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count++
	c.last = attribute
	if !c.waiting {
		c.logLocked()
	}
}

// logLocked logs what was counted, and begins an interval.
func (c *counter) logLocked() {
	c.log(slog.Int("count", c.count), c.last)
	c.count, c.waiting = 0, true
	time.AfterFunc(logInterval, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.waiting = false; c.count > 0 {
			c.logLocked()
		}
	})
}
