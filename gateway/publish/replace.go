package publish

import (
	"context"

	"github.com/promptweir/promptweir/gateway/snapshot"
)

// Replace starts the connectors of the next generation, puts it into use, moves all subscriptions to
// it, and retires the connectors that it does not use. It returns the number of retired connectors.
// Call it while Run runs, and not concurrently. After an error, nothing was published.
//
// Replace waits up to takeoverBound until connectors that replace other connectors have answered or
// failed once. It then waits up to admissionBound until the lists are admitted by the rules of the
// next generation, so that their prompts stay in the catalog.
func (p *Publisher) Replace(ctx context.Context, next *snapshot.Generation) (retired int, err error) {
	before := p.Current().Generation
	if err := p.do(ctx, func(ctx context.Context) { p.start(ctx, next) }); err != nil {
		return 0, err
	}
	p.awaitTakeover(ctx, before, next)
	var earlier map[string]upstreamSlot
	if err := p.do(ctx, func(context.Context) { earlier = p.builder.lists(before, next) }); err != nil {
		return 0, err
	}
	slots := p.readmit(ctx, next, earlier) // not in Run's goroutine, which must not wait
	err = p.do(ctx, func(ctx context.Context) {
		p.builder.replace(slots)
		p.builder.publish(ctx, next)
		retired = p.retire(ctx, before, next)
	})
	return retired, err
}

// readmit admits the lists in the current catalog again, by the rules of the next generation.
func (p *Publisher) readmit(ctx context.Context, next *snapshot.Generation, earlier map[string]upstreamSlot) []upstreamSlot {
	ctx, cancel := context.WithTimeout(ctx, admissionBound)
	defer cancel()
	return p.admission(next).admitAll(ctx, earlier)
}

// lists returns the slots of the current generation by label, for [admission.admitAll]. The state
// is nil if the next generation has another connector for the label.
func (b *builder) lists(before, next *snapshot.Generation) map[string]upstreamSlot {
	lists := make(map[string]upstreamSlot, len(b.slots))
	for i, slot := range b.slots {
		label := before.Upstreams[i].Name
		if next.Connector(label) != before.Connectors[i] {
			slot.state = nil
		}
		lists[label] = slot
	}
	return lists
}

// replace puts the slots of the next generation into use, and cancels the admissions by the rules of
// the previous generation.
func (b *builder) replace(slots []upstreamSlot) {
	for i := range b.slots {
		if r := b.slots[i].running; r != nil {
			r.stop()
		}
	}
	b.slots = slots
}
