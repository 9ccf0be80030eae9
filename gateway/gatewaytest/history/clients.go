package history

import (
	"slices"
	"time"
)

// clients checks what each client was told, and what it found then: W1, W2 and W3.
func (c *checker) clients() {
	ops := map[int]History{}
	var quiet History
	for _, o := range c.history {
		if o.Client > 0 {
			ops[o.Client] = append(ops[o.Client], o)
		} else if o.Name == Quiet {
			quiet = append(quiet, o)
		}
	}
	for _, own := range ops {
		if !slices.ContainsFunc(own, func(o Op) bool { return o.Name == Begin }) {
			continue // no listener
		}
		c.notices(own)
		for _, q := range quiet {
			for part := range c.changes {
				c.current(own, part, q.Received)
			}
		}
	}
}

// notices checks that there was a reason for each notice, since the one before: a change, even if a
// fault has made it late, or that the client had listed a replica that was behind.
func (c *checker) notices(own History) {
	var since time.Duration
	held := map[string]int{}
	for i := range own {
		o := &own[i]
		switch {
		case o.Name == Begin, o.Name == Opened:
			since = max(since, o.Sent)
		case o.listed():
			for part := range o.Seen {
				_, held[part], _ = c.versions(part, o)
			}
		case o.Name == Told:
			from := max(since-c.model.Again, 0)
			if !c.isBehind(held, o) && !c.reason(o, from) {
				c.violated("W2", c.history.between(o.Client, from, o.Received),
					"client %d was told without a change since the notice before", o.Client)
			}
			since = o.Received
		}
	}
}

// isBehind reports whether there is a later change of a principal's view than those held.
func (c *checker) isBehind(held map[string]int, o *Op) bool {
	for part, version := range held {
		for _, change := range c.changes[part][version+1:] {
			if change.Sent <= o.Received && change.concerns(o.Who) {
				return true
			}
		}
	}
	return false
}

// reason reports whether there was a change of a principal's view since a time before a notice, or one
// that a fault since then, or in whose aftermath that was, has kept from replicas or clients: of
// anybody's view, since replicas that lost each other do not know whose it was. Faults alone are
// none, but that a replica that has just started may know no server yet.
func (c *checker) reason(told *Op, from time.Duration) bool {
	hidden := told.Received + 1 // since when anybody's may have been
	for _, span := range c.troubled(c.model.Aftermath) {
		if span[0] <= told.Received && span[1] >= from {
			hidden = min(hidden, span[0]-c.model.Again)
		}
	}
	return slices.ContainsFunc(c.rig, func(o *Op) bool {
		return o.Sent <= told.Received && (o.Name == Change && (o.concerns(told.Who) && o.Received >= from || o.Received >= hidden) ||
			o.Name == Started && o.At == told.At && o.Received+recovery >= from)
	})
}

// current checks that a client has the last change of a part by a quiet moment.
func (c *checker) current(own History, part string, quiet time.Duration) {
	last := -1
	for i, change := range c.changes[part] {
		if change.Received <= quiet && change.concerns(own[0].Who) {
			last = i
		}
	}
	if last < 0 || own[0].Received > quiet {
		return
	}
	change := c.changes[part][last]
	version, found := -1, -1 // of the last list, and what the client had when it was told last
	told := time.Duration(-1)
	for i := range own {
		o := &own[i]
		switch {
		case o.Received > quiet:
		case o.listed():
			if _, v, ok := c.versions(part, o); ok {
				version = v
			}
		case o.Name == Told || o.Name == Opened:
			told, found = o.Received, version
		}
	}
	if version >= last {
		return
	}
	ops := c.history.between(own[0].Client, change.Sent, quiet)
	if told < change.Sent || version > found {
		c.violated("W3", ops, "client %d was never told of the last change of %s", own[0].Client, part)
		return
	}
	c.violated("W1", ops, "client %d was told, does not find the change of %s, and was not told again", own[0].Client, part)
}
