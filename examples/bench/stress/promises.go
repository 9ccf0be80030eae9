package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/promptweir/promptweir/examples/bench/internal/rig"
	"github.com/promptweir/promptweir/upstream/wire"
)

// What the gateway promises about each fault.
const (
	// leastP99 is what the 99th percentile of the neighbours' gets may be in any case. Otherwise it may be 1.5 times as high as before
	// the fault, or as that of a gateway to which nothing happens at the same time.
	leastP99 = 30 * time.Millisecond
	// lateError is how much longer than the timeout of its upstream a get may take to fail.
	lateError = time.Second
	// markedWithin is how long after its first sign a fault is marked everywhere, markedIdle how long after it began if nobody
	// calls the server.
	markedWithin = 3 * time.Second
	markedIdle   = 35 * time.Second
	// healedWithin is how long after its end all is well again.
	healedWithin = 10 * time.Second
	// maxMemory is how much more memory the gateway may have in use meanwhile, in bytes: the garbage that it may let accumulate,
	// and a little.
	maxMemory = 160 << 20
	// What may be left in use afterwards: connections to the server that are kept alive, each with two goroutines.
	maxLeftDescriptors = 80
	maxLeftGoroutines  = 2 * maxLeftDescriptors
)

func (u usage) tooMuch() bool {
	return u.goroutines > maxLeftGoroutines || u.descriptors > maxLeftDescriptors
}

func reasonOf(g rig.Got) (code int, reason string) {
	if refused, ok := errors.AsType[*rig.Error](g.Err); ok {
		return refused.Code, refused.Data.Reason
	}
	return -1, g.Err.Error()
}

// broken returns the promises that were not kept. On a busy machine, the latency of neighbours says nothing.
func (o *outcome) broken(busy bool) (all []string) {
	if o.err != nil {
		return []string{o.err.Error()}
	}
	say := func(when bool, format string, args ...any) {
		if when {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	if failed := failures(o.neighbours); len(failed) > 0 {
		say(true, "%d of %d gets of neighbours failed, one with %v", len(failed), len(o.neighbours), failed[0].Err)
	}
	p99, most := rig.QuantileOf(o.neighbours, 99), max(leastP99, max(o.p99Before, o.p99Control)*3/2)
	say(p99 > most && !busy, "p99 of the neighbours is %v, not at most %v", p99, most)
	failed := failures(o.gets)
	say(len(o.fault.reasons) > 0 && len(failed) == 0 && !o.fault.idle && !o.fault.unmarked, "no get failed")
	for i, g := range failed {
		if code, reason := reasonOf(g); code != wire.InternalError || !o.fault.allows(reason) {
			say(true, "get %d of %d that failed: %d %s, not %s", i+1, len(failed), code, reason, o.fault.reasons)
			break
		}
	}
	slowest := rig.QuantileOf(failed, 100)
	say(slowest > callTimeout+lateError, "an error took %v, not at most %v", slowest, callTimeout+lateError)
	within := markedWithin
	if o.fault.idle {
		within = markedIdle
	}
	for _, place := range places() {
		at, ok := o.seen[place]
		say(!ok && !o.fault.unmarked, "not marked in %s", place)
		say(at > within && !o.fault.unmarked, "marked in %s after %v, not within %v", place, at, within)
	}
	say(!o.relisted, "the list is not that of the server")
	say(o.healed < 0, "not healed after %v", convalescence)
	say(o.healed > healedWithin, "healed after %v, not within %v", o.healed, healedWithin)
	say(o.memory > maxMemory, "%d MiB more memory, not at most %d", o.memory>>20, maxMemory>>20)
	say(o.left.tooMuch(), "%d goroutines and %d descriptors are left", o.left.goroutines, o.left.descriptors)
	return all
}

// allows reports whether gets may fail for a reason. While a server hangs, its slots are taken, and the ping that follows a timeout
// finds that it cannot be reached.
func (f *fault) allows(reason string) bool {
	return len(f.reasons) > 0 && reason == breakerOpen || slices.Contains(f.reasons, reason) ||
		slices.Contains(f.reasons, timedOut) && (reason == overloaded || reason == unreachable)
}

func failures(gets []rig.Got) []rig.Got {
	return slices.DeleteFunc(slices.Clone(gets), func(g rig.Got) bool { return g.Err == nil })
}

// The table of a run stands between these lines of a Markdown file.
const (
	tableBegin = "<!-- faults: written by make faults -->\n"
	tableEnd   = "<!-- faults: end -->\n"
)

// table returns a row for all faults with the same signs.
func table(outcomes []*outcome) string {
	var all []string // in the order of their first faults
	faults := map[string][]string{}
	for _, o := range outcomes {
		signs := fmt.Sprintf("not run: %v | | ", o.err)
		if o.err == nil {
			signs = fmt.Sprintf("%s | %s | %s", o.reasons(), o.markedWithin(), within(o.healed))
		}
		if faults[signs] == nil {
			all = append(all, signs)
		}
		faults[signs] = append(faults[signs], o.fault.name)
	}
	var b strings.Builder
	b.WriteString("| faults | gets of the server | marked within | well within |\n")
	b.WriteString("| --- | --- | --- | --- |\n")
	for _, signs := range all {
		fmt.Fprintf(&b, "| %s | %s |\n", strings.Join(faults[signs], "; "), signs)
	}
	return b.String()
}

// reasons returns those that gets failed for.
func (o *outcome) reasons() string {
	var all []string
	for _, g := range failures(o.gets) {
		_, reason := reasonOf(g)
		if name := "`" + reason + "`"; !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	switch {
	case len(all) > 0:
		return strings.Join(all, ", ")
	case o.fault.idle:
		return "none made"
	}
	return "answered"
}

func (o *outcome) markedWithin() string {
	switch {
	case len(o.seen) == len(places()):
		return within(slices.Max(slices.Collect(maps.Values(o.seen))))
	case o.fault.unmarked:
		return "–"
	case len(o.seen) == 0:
		return "not marked"
	}
	return "only in " + strings.Join(slices.Sorted(maps.Keys(o.seen)), ", ")
}

// within returns the first of a few bounds that a time keeps, so that runs of the same gateway give
// the same table.
func within(d time.Duration) string {
	for _, bound := range []time.Duration{time.Second, markedWithin, healedWithin, markedIdle} {
		if 0 <= d && d <= bound {
			return fmt.Sprintf("%.0f s", bound.Seconds())
		}
	}
	return "not so soon"
}

func writeTable(path, table string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	head, rest, ok := strings.Cut(string(text), tableBegin)
	_, tail, end := strings.Cut(rest, tableEnd)
	if !ok || !end {
		return errors.New(path + " has no place for the table")
	}
	return os.WriteFile(path, []byte(head+tableBegin+"\n"+table+"\n"+tableEnd+tail), 0o644) //nolint:gosec // a document
}
