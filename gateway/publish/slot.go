package publish

import (
	"context"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream"
)

// upstreamSlot is one upstream's part of the current snapshot: a state, and the list that was
// admitted from it. Both change together, because the state describes the list. While a newer list
// is being admitted, which may take minutes, the slot keeps its earlier list, and other parts of
// the state are current.
//
// The catalog contains no prompts of an upstream that is hidden while it is down. After a reload,
// no slot contains a list that was admitted by the previous rules.
type upstreamSlot struct {
	state *upstream.State
	list  *admitted // nil until a list is admitted by the rules of the generation
	// merged is the upstream's list in the catalog, or nil if the catalog contains no list of the
	// upstream.
	merged *admitted
	// hidden is true while the upstream is down and its configuration hides it.
	hidden bool

	running *running // the admission of a newer list; nil if no admission is under way
	// rested is the time at which the next admission may begin.
	rested time.Time
}

// running is an admission under way.
type running struct {
	state *upstream.State // the state with the list that is being admitted
	stop  context.CancelFunc
	done  chan *admitted // receives once, unless the admission is canceled
	// rested is set before done receives.
	rested time.Time
}

// receive moves the slot to the list whose admission has ended, if there is one. It never blocks.
func (u *upstreamSlot) receive() {
	if u.running == nil {
		return
	}
	select {
	case u.list = <-u.running.done:
		u.state, u.rested, u.running = u.running.state, u.running.rested, nil
	default:
	}
}

// visible returns the list that belongs in the catalog, or nil if there is none.
func (u *upstreamSlot) visible() *admitted {
	if u.hidden {
		return nil
	}
	return u.list
}

// contribute returns the prompts of the visible list, and records that this list is in the catalog.
func (u *upstreamSlot) contribute() []*catalog.Prompt {
	if u.merged = u.visible(); u.merged == nil {
		return nil
	}
	return u.merged.prompts
}

// contentsOf returns the states and admitted lists of all upstreams.
func contentsOf(slots []upstreamSlot) snapshot.Contents {
	contents := snapshot.Contents{States: make([]*upstream.State, len(slots)), Admitted: make([]bool, len(slots))}
	for i := range slots {
		contents.States[i], contents.Admitted[i] = slots[i].state, slots[i].list != nil
	}
	return contents
}

// admits reports whether l is the result of admitting the given list. Lists are compared by identity:
// a connector makes a new list whenever a definition changes.
func (l *admitted) admits(definitions []jsontext.Value) bool {
	return l != nil && len(l.definitions) == len(definitions) &&
		(len(definitions) == 0 || &l.definitions[0] == &definitions[0])
}

// withListOf returns the current state of an upstream with the list of another state, until the
// current list is admitted.
func withListOf(listed, current *upstream.State) *upstream.State {
	early := *current
	early.Tried, early.Listed, early.Lists = listed.Tried, listed.Listed, listed.Lists
	early.Definitions, early.Files = listed.Definitions, listed.Files
	return &early
}

// hideAt returns the time to hide the prompts of an upstream that is down. ok is false if the
// prompts stay visible. A server that refuses the gateway is up, so its prompts stay.
func hideAt(u *config.Upstream, state *upstream.State) (at time.Time, ok bool) {
	problem := state.Problem
	if u.WhenDown != config.WhenDownHide || state.Connected || problem == nil || problem.IsRefusal() {
		return time.Time{}, false
	}
	return problem.Since.Add(u.Grace), true
}
