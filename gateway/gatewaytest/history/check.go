package history

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Model is what is promised. What it checks has a letter:
//
//	W1  no listener stays without a change for longer than Soon where every replica has it within
//	    Prompt, and else for longer than Later
//	W2  no notice without a change of that principal's view within Later before it
//	W4  one replica never goes back in time
//	W5  nobody gets what the rules showed to them at no moment of the operation
//	W6  a get is answered by an owner that its entry had during it
//	L   a rate admits at most rate × time + burst, and nine tenths of the rate where more was
//	    offered; the former times the replicas while one of them cannot use the store
//
// What began before an operation ended, and ended after it began, may have been before or after it:
// of that, the model assumes what was right.
type Model struct {
	Replicas int
	// Prompt, Soon and Later are those of W1.
	Prompt, Soon, Later time.Duration
	// Aftermath is how long after the cause of a fault has gone its effects may last.
	Aftermath time.Duration
	Limits    []Limit
}

// Limit is that of a prompt, for each principal.
type Limit struct {
	Prompt      string
	Rate, Burst float64
	// Slow says that the machine is, so that only the most is checked.
	Slow bool
}

// Violation is a promise that was not kept.
type Violation struct {
	Letter, Text string
	// Ops are the operations that show it.
	Ops History
}

// shownOps is how many operations are printed of the begin and of the end of what shows a violation.
const shownOps = 20

// String returns it with a line for each operation, but for those in the middle of very many.
func (v Violation) String() string {
	text := v.Letter + ": " + v.Text + "\n"
	if len(v.Ops) > 2*shownOps {
		return text + v.Ops[:shownOps].String() + "...\n" + v.Ops[len(v.Ops)-shownOps:].String()
	}
	return text + v.Ops.String()
}

// Check returns the violations in a history, the shortest of each letter first.
func (m Model) Check(h History) []Violation {
	c := checker{model: m, history: h, changes: map[string][]*Op{}, made: map[[2]string][]int{}}
	for i := range h {
		o := &h[i]
		if o.Client > 0 {
			continue
		}
		c.rig = append(c.rig, o)
		if o.Name == Change {
			for part := range o.Seen {
				c.changes[part] = append(c.changes[part], o)
			}
		}
	}
	for part, changes := range c.changes {
		slices.SortStableFunc(changes, func(a, b *Op) int { return int(a.Sent - b.Sent) })
		for i, change := range changes {
			key := [2]string{part, change.Seen[part]}
			c.made[key] = append(c.made[key], i)
		}
	}
	c.replicas()
	c.clients()
	c.limits()
	slices.SortStableFunc(c.found, func(a, b Violation) int { return len(a.Ops) - len(b.Ops) })
	return c.found
}

type checker struct {
	model   Model
	history History
	rig     []*Op // what it did
	// changes are those of each part, in order; made has the indexes of those that made a content.
	changes map[string][]*Op
	made    map[[2]string][]int
	found   []Violation
}

func (c *checker) violated(letter string, ops History, format string, args ...any) {
	c.found = append(c.found, Violation{letter, fmt.Sprintf(format, args...), ops})
}

// versions returns the first and the last change of a part that may have made the content that an
// operation has seen; ok is false if there is none.
func (c *checker) versions(part string, o *Op) (first, last int, ok bool) {
	first, last = -1, -1
	for _, i := range c.made[[2]string{part, o.Seen[part]}] {
		if c.changes[part][i].Sent <= o.Received {
			if last = i; first < 0 {
				first = i
			}
		}
	}
	return first, last, last >= 0
}

// floors are the lists of one replica since its start that showed a newer version of a part than
// those before, in the order in which they ended.
type floors map[string][]floor

// floor is a list and the least version that it may have been.
type floor struct {
	list    *Op
	version int
}

// at returns what a list had shown of a part before a time.
func (f floors) at(part string, before time.Duration) floor {
	all := f[part]
	i, _ := slices.BinarySearchFunc(all, before, func(one floor, t time.Duration) int {
		return cmp.Compare(one.list.Received, t)
	})
	if i == 0 {
		return floor{version: -1}
	}
	return all[i-1]
}

// replicas checks what each replica answered: W4, W5 and W6.
func (c *checker) replicas() {
	all := map[int]floors{}
	var rules []*Op
	for _, o := range c.rig {
		if o.Name == Rules {
			rules = append(rules, o)
		}
	}
	for i := range c.history {
		o := &c.history[i]
		if o.Name == Started || all[o.At] == nil {
			all[o.At] = floors{}
		}
		if o.Client == 0 || o.Error != "" {
			continue
		}
		c.rules(o, rules)
		switch o.Name {
		case List:
			c.order(o, all[o.At])
		case Get:
			c.owner(o, all[o.At])
		}
	}
}

// order checks that a list is no older than one that had ended before it began.
func (c *checker) order(o *Op, replica floors) {
	for part := range o.Seen {
		first, last, ok := c.versions(part, o)
		if !ok {
			continue
		}
		if before := replica.at(part, o.Sent); last < before.version {
			ops := History{*c.changes[part][before.version], *before.list, *o}
			c.violated("W4", ops, "replica %d went back to an older %s", o.At, part)
		}
		if known := replica[part]; len(known) == 0 || known[len(known)-1].version < first {
			replica[part] = append(known, floor{o, first})
		}
	}
}

// rules checks that the names in an answer were shown to its client at some moment of it.
func (c *checker) rules(o *Op, all []*Op) {
	if len(o.Names) == 0 {
		return
	}
	var inForce []*Op
	for _, rules := range all {
		switch {
		case rules.At != o.At || rules.Sent > o.Received:
		case rules.Received <= o.Sent:
			inForce = []*Op{rules}
		default:
			inForce = append(inForce, rules)
		}
	}
	for _, name := range o.Names {
		allowed := func(rules *Op) bool { return slices.Contains(rules.Shown[o.Who], name) }
		if len(inForce) > 0 && !slices.ContainsFunc(inForce, allowed) {
			ops := History{}
			for _, rules := range inForce {
				ops = append(ops, *rules)
			}
			c.violated("W5", append(ops, *o), "%s was given %s, which no rule in force at replica %d showed", o.Who, name, o.At)
		}
	}
}

// owner checks that the server that answered a get owned the entry, by a list that the replica may
// have had.
func (c *checker) owner(o *Op, replica floors) {
	if o.Owner == "" {
		return
	}
	ops, known := History{}, replica.at(o.Owner, o.Sent).version
	if all := c.changes[o.Owner]; len(all) > 0 && all[0].Received > o.Sent {
		return // what it owned at first is not known yet
	}
	for i, change := range c.changes[o.Owner] {
		if i < known || change.Sent > o.Received {
			continue
		}
		if slices.Contains(change.Names, o.Of) {
			return
		}
		ops = append(ops, *change)
	}
	c.violated("W6", append(ops, *o), "%s was answered by %s, which did not own it", o.Of, o.Owner)
}
