package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/promptweir/promptweir/upstream/upstreamtest"

	"github.com/promptweir/promptweir/examples/bench/internal/rig"
	"github.com/promptweir/promptweir/upstream/wire"
)

// What the gateway promises about each fault.
const (
	// leastP99 is what the 99th percentile of the neighbours' gets may be in any case. Otherwise it may
	// be 1.5 times as high as before the fault, or as that of a gateway to which nothing happens at the
	// same time.
	leastP99 = 30 * time.Millisecond
	// lateError is how much longer than the timeout of its upstream a get may take to fail.
	lateError = time.Second
	// markedWithin is how long after its first sign a fault is marked everywhere, markedIdle how long
	// after it began if nobody calls the server.
	markedWithin = 3 * time.Second
	markedIdle   = 35 * time.Second
	// healedWithin is how long after its end all is well again.
	healedWithin = 10 * time.Second
	// maxMemory is how much more memory the gateway may have in use meanwhile, in bytes: the garbage
	// that it may let accumulate, and a little.
	maxMemory = 160 << 20
	// maxLeft is how many connections to the server may be kept alive afterwards.
	maxLeft = 80
)

// tooMuch reports whether this is more than connections take, each with two goroutines.
func (u usage) tooMuch(connections int) bool {
	return u.goroutines > 2*connections || u.descriptors > connections
}

// outcome is what was seen of a fault.
type outcome struct {
	fault *fault
	// gets are those of the ill server while the fault lasted, and until it had healed.
	gets rig.Gots
	// seen is when each of the showers marked the fault, after its first sign or, if no get showed it,
	// after it began.
	seen map[string]time.Duration
	// healed is how long after the end of the fault all was well again; negative if it was not.
	healed time.Duration
	// relisted says that the new list was seen.
	relisted bool
	// neighbours are the gets of the other servers. P99Before is the 99th percentile of those before the
	// fault, and p99Control that of a gateway to which nothing happened meanwhile.
	neighbours            rig.Gots
	p99Before, p99Control time.Duration
	// memory is how much more memory than before the gateway had in use at most, in bytes; left is what
	// it still has in use of goroutines and descriptors.
	memory int64
	left   usage
	// err is why the fault could not be brought about or watched.
	err error
}

func reasonOf(g rig.Got) (code int, reason string) {
	if refused, ok := errors.AsType[*upstreamtest.Error](g.Err); ok {
		return refused.Code, refused.Data.Reason
	}
	return -1, g.Err.Error()
}

// broken returns the promises that were not kept. On a busy machine, the latency of neighbours says
// nothing.
func (o *outcome) broken(busy bool) (all []string) {
	if o.err != nil {
		return []string{o.err.Error()}
	}
	say := func(when bool, format string, args ...any) {
		if when {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	if failed := o.neighbours.Failed(); len(failed) > 0 {
		say(true, "%d of %d gets of neighbours failed, one with %v", len(failed), len(o.neighbours), failed[0].Err)
	}
	p99, most := o.neighbours.Quantile(99), max(leastP99, max(o.p99Before, o.p99Control)*3/2)
	say(p99 > most && !busy, "p99 of the neighbours is %v, not at most %v", p99, most)
	failed, harmless := o.gets.Failed(), o.fault.unmarked
	say(len(o.fault.reasons) > 0 && len(failed) == 0 && !o.fault.idle && !harmless, "no get failed")
	for i, g := range failed {
		if code, reason := reasonOf(g); code != wire.InternalError || !o.fault.allows(reason) {
			say(true, "get %d of %d that failed: %d %s, not %s", i+1, len(failed), code, reason, o.fault.reasons)
			break
		}
	}
	slowest := failed.Quantile(100)
	say(slowest > callTimeout+lateError, "an error took %v, not at most %v", slowest, callTimeout+lateError)
	bound := markedWithin
	if o.fault.idle {
		bound = markedIdle
	}
	for _, where := range showers() {
		at, ok := o.seen[where]
		say(!ok && !harmless, "not marked in %s", where)
		say(at > bound && !harmless, "marked in %s after %v, not within %v", where, at, bound)
	}
	say(!o.relisted, "the list is not that of the server")
	say(o.healed < 0, "not healed after %v", convalescence)
	say(o.healed > healedWithin, "healed after %v, not within %v", o.healed, healedWithin)
	say(o.memory > maxMemory, "%d MiB more memory, not at most %d", o.memory>>20, maxMemory>>20)
	say(o.left.tooMuch(maxLeft), "%d goroutines and %d descriptors are left", o.left.goroutines, o.left.descriptors)
	return all
}

// allows reports whether gets may fail for a reason. While a server hangs, its slots are taken, and the
// ping that follows a timeout finds that it cannot be reached.
func (f *fault) allows(reason string) bool {
	return len(f.reasons) > 0 && reason == breakerOpen || slices.Contains(f.reasons, reason) ||
		slices.Contains(f.reasons, timedOut) && (reason == overloaded || reason == unreachable)
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
	b.WriteString("| faults | gets of the server | marked within | well within |\n| --- | --- | --- | --- |\n")
	for _, signs := range all {
		fmt.Fprintf(&b, "| %s | %s |\n", strings.Join(faults[signs], "; "), signs)
	}
	return b.String()
}

// reasons returns those that gets failed for.
func (o *outcome) reasons() string {
	var all []string
	for _, g := range o.gets.Failed() {
		_, reason := reasonOf(g)
		all = append(all, "`"+reason+"`")
	}
	slices.Sort(all)
	switch all = slices.Compact(all); {
	case len(all) > 0:
		return strings.Join(all, ", ")
	case o.fault.idle:
		return "none made"
	}
	return "answered"
}

func (o *outcome) markedWithin() string {
	switch {
	case len(o.seen) == len(showers()):
		return within(slices.Max(slices.Collect(maps.Values(o.seen))))
	case o.fault.unmarked:
		return "–"
	}
	return fmt.Sprint("only in ", slices.Sorted(maps.Keys(o.seen)))
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

func writeTable(path, table string) {
	text := string(rig.Must(os.ReadFile(path)))
	head, rest, ok := strings.Cut(text, tableBegin)
	_, tail, end := strings.Cut(rest, tableEnd)
	if !ok || !end {
		rig.Check(errors.New(path + " has no lines for the table"))
	}
	text = head + tableBegin + "\n" + table + "\n" + tableEnd + tail
	rig.Check(os.WriteFile(path, []byte(text), 0o644)) //nolint:gosec // a document
}
