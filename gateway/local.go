package gateway

import (
	"context"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/wire"
)

// What follows is for a caller in the same process: the command line. It may stand outside of the policy, because
// whoever reads the configuration could connect to the upstreams as well.

// Settle waits until every upstream has once answered or failed, at most until ctx ends.
func (g *Gateway) Settle(ctx context.Context) {
	for e := g.edition.Load(); !allTried(e); e = g.edition.Load() {
		select {
		case <-e.superseded:
		case <-ctx.Done():
			return
		}
	}
}

func allTried(e *edition) bool {
	for _, state := range e.states {
		if !state.Tried {
			return false
		}
	}
	return true
}

// Entries returns what a principal sees now, or all there is for nil.
func (g *Gateway) Entries(who *policy.Principal) []*catalog.Entry {
	e := g.edition.Load()
	if who == nil {
		return e.snapshot.Entries()
	}
	return e.view(e.policy.Audience(*who)).Entries()
}

// Reports returns what somebody should put right in the catalog.
func (g *Gateway) Reports() []catalog.Report { return g.edition.Load().reports() }

// Get asks the owner for a prompt, as a principal or, for nil, as nobody in particular who sees everything. The
// result is as a client of the newest legacy revision would get it.
func (g *Gateway) Get(ctx context.Context, who *policy.Principal, params wire.Object) (jsontext.Value, error) {
	e := g.edition.Load()
	name, _ := params.Text("name")
	entry := e.snapshot.Lookup(name)
	if who != nil {
		entry = e.entry(e.policy.Audience(*who), name)
	}
	if entry == nil {
		return nil, unknownPrompt(name)
	}
	if err := g.checkArguments(ctx, entry, params.Get("arguments")); err != nil {
		return nil, err
	}
	t := &turn{edition: e, entry: entry, question: upstream.Request{Method: wire.PromptsGet}, params: supply(entry, params), owners: entry.Owners}
	err := t.ask(ctx, &upstream.Relay{})
	if err == nil {
		t.got.result, err = g.screened(ctx, e, entry, t.got.result)
	}
	if err != nil {
		return nil, err
	}
	return g.appendResult(nil, &request{revision: wire.LatestLegacy}, t.got.result, noQuestions)
}

// Problems returns the upstreams that have no fresh list, by name, with the reason.
func (g *Gateway) Problems() map[string]string {
	problems := map[string]string{}
	for _, health := range g.Ready().Upstreams {
		if health.Reason != "" {
			problems[health.Name] = health.Reason
		}
	}
	return problems
}
