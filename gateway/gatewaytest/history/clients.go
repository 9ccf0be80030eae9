package history

import (
	"slices"
	"strings"
	"time"
)

// clients checks what each client held, and what it was told: W1 and W2.
func (c *checker) clients() {
	ops, end := map[int]History{}, time.Duration(0)
	for _, o := range c.history {
		end = max(end, o.Received)
		if o.Client > 0 {
			ops[o.Client] = append(ops[o.Client], o)
		}
	}
	bounds := map[string][]time.Duration{}
	for part := range c.changes {
		bounds[part] = c.bounds(part)
	}
	for _, own := range ops {
		if !slices.ContainsFunc(own, func(o Op) bool { return o.Name == Begin }) {
			continue // no listener
		}
		c.notices(own)
		for part := range c.changes {
			c.current(own, part, bounds[part], end)
		}
	}
}

// bounds returns how long clients may be without each change of a part: less where every replica has
// certainly shown it in time.
func (c *checker) bounds(part string) []time.Duration {
	bounds := make([]time.Duration, len(c.changes[part]))
	for i, change := range c.changes[part] {
		has := map[int]bool{}
		for j := range c.history {
			o := &c.history[j]
			if !o.listed() || o.At > c.model.Replicas || o.Received < change.Sent || o.Received > change.Received+c.model.Prompt {
				continue
			}
			if first, _, ok := c.versions(part, o); ok && first >= i {
				has[o.At] = true
			}
		}
		if bounds[i] = c.model.Later; len(has) == c.model.Replicas {
			bounds[i] = c.model.Soon
		}
	}
	return bounds
}

// streamIsStopped reports whether the replica that has a client's stream was stopped or killed in a
// time: it cannot notify the client then.
func (c *checker) streamIsStopped(own History, from, to time.Duration) bool {
	at := 0
	for i := range own {
		if own[i].Name == Opened && own[i].Received <= to {
			at = own[i].At
		}
	}
	return c.isStopped(at, from, to)
}

// isStopped reports whether a replica was stopped or killed in a time.
func (c *checker) isStopped(at int, from, to time.Duration) bool {
	return slices.ContainsFunc(c.rig, func(o *Op) bool {
		return o.Name == Fault && o.At == at && strings.HasPrefix(o.Of, ReplicaFault) && o.Received >= from && o.Sent <= to
	})
}

// current checks that a client has each change of a part in time: after the change, or after it has
// opened its stream again.
func (c *checker) current(own History, part string, bounds []time.Duration, end time.Duration) {
	for i, change := range c.changes[part] {
		bound, held := bounds[i], -1
		if c.streamIsStopped(own, change.Sent, change.Received+bound) {
			bound = c.model.Later
		}
		deadline := change.Received + bound
		for j := range own {
			o := &own[j]
			switch {
			case o.Name == List && o.Error != "" && o.Sent <= deadline && c.isStopped(o.At, change.Sent, o.Received):
				// The client was notified, and cannot list at that replica.
				deadline = max(deadline, o.Received+bound)
			case o.Received > deadline:
			case o.Name == Begin, o.Name == Opened, o.Name == Ended:
				deadline = max(deadline, o.Received+bound)
			case o.listed():
				if _, version, ok := c.versions(part, o); ok {
					held = version
				}
			}
		}
		if held < i && deadline <= end && change.concerns(own[0].Who) {
			c.violated("W1", c.history.between(own[0].Client, change.Sent, deadline),
				"client %d has not listed the change of %s after %v", own[0].Client, part, bound)
			return
		}
	}
}

// notices checks that there was a reason for each notice.
func (c *checker) notices(own History) {
	var opened time.Duration
	for i := range own {
		o := &own[i]
		switch {
		case o.Name == Begin, o.Name == Opened:
			opened = o.Sent
		case o.Name == Told && !c.reason(o, opened):
			c.violated("W2", c.history.between(o.Client, o.Received-c.model.Later, o.Received),
				"client %d was told without a change of its view", o.Client)
		}
	}
}

// reason reports whether there was a change of a principal's view so shortly before a notice that the
// notice may be about it. Of a stream that was opened since, the replica does not know what its client
// has missed, and during a fault, and in its aftermath, a change takes longer: then, one of anybody's
// view is a reason. So is the start of the replica, which may know no server yet.
func (c *checker) reason(told *Op, opened time.Duration) bool {
	from := told.Received - c.model.Later
	anybodys := told.Received + 1 // since when
	if opened >= from {
		anybodys = opened - 2*c.model.Later
	}
	for _, span := range c.troubled(c.model.Aftermath) {
		if span[0] <= told.Received && span[1] >= from {
			anybodys = min(anybodys, span[0]-c.model.Later)
		}
	}
	return slices.ContainsFunc(c.rig, func(o *Op) bool {
		return o.Sent <= told.Received && (o.Name == Change && (o.concerns(told.Who) && o.Received >= from || o.Received >= anybodys) ||
			o.Name == Started && o.At == told.At && o.Received+3*c.model.Later >= told.Received)
	})
}
