package requests

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/edge"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/upstreamtest/bubble"
	"github.com/promptweir/promptweir/upstream/wire"
)

// code returns the code of a JSON-RPC error, or 0.
func code(err error) int64 {
	if refusal, ok := errors.AsType[*wire.Error](err); ok {
		return refusal.Code
	}
	return 0
}

// rootsCall is a get whose upstream requests the roots and returns the reply.
func rootsCall(ctx context.Context, c *upstream.Relay) (outcome, error) {
	answer, err := c.Reply(ctx, wire.RootsList, nil)
	return outcome{result: upstream.Result{JSON: answer, Revision: wire.LatestLegacy}}, err
}

func modernGet(principal string) *run {
	return newRun(&Request{
		Revision: wire.Rev20260728, Caller: snapshot.Caller{Principal: policy.Principal{Subject: principal}},
		Relay: NewRelayQueue(), Capabilities: wire.Roots,
		Snapshot: &snapshot.Snapshot{Generation: &snapshot.Generation{Config: &config.Config{}}},
	}, &Scope{})
}

func TestParked_AreBounded(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := parked{ledger: edge.New(edge.Options{})}
		get := func(who string) (outcome, error) {
			return p.begin(t.Context(), modernGet(who), rootsCall)
		}
		var names []string
		for i := range maxParked {
			got, err := get(strconv.Itoa(i % 10))
			if err != nil || got.parked == "" {
				t.Fatalf("get %d: %+v, %v", i, got, err)
			}
			names = append(names, got.parked)
		}
		if _, err := get("0"); code(err) != wire.InternalError {
			t.Errorf("one more get of a principal: %v", err)
		}
		if _, err := get("another"); code(err) != wire.InternalError {
			t.Errorf("one more get in all: %v", err)
		}
		retry := modernGet("0")
		retry.r.Params = wire.Object{}.With(memberResponses, jsontext.Value(`{"1":{"roots":[]}}`))
		if got, err := p.resume(t.Context(), retry, names[0]); err != nil || string(got.result.JSON) != `{"roots":[]}` {
			t.Errorf("a get that is resumed: %s, %v", got.result.JSON, err)
		}
		if got, err := get("another"); err != nil || got.parked == "" {
			t.Errorf("a get in its place: %+v, %v", got, err)
		}
		time.Sleep(stateLifetime + time.Second)
		synctest.Wait()
		if _, err := p.resume(t.Context(), retry, names[10]); code(err) != wire.InvalidParams {
			t.Errorf("a get that was parked too long: %v", err)
		}
		if len(p.all)+len(p.byName) != 0 {
			t.Errorf("after the lifetime there are %d gets, %d parked", len(p.all), len(p.byName))
		}
		p.close()
		if _, err := p.begin(t.Context(), modernGet("0"), func(context.Context, *upstream.Relay) (outcome, error) {
			return outcome{}, context.Canceled
		}); !errors.Is(err, context.Canceled) {
			t.Errorf("a get after close: %v", err)
		}
	})
}
