package gateway

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/wire"
)

// code is that of a protocol's error, or 0.
func code(err error) int64 {
	if refusal, ok := errors.AsType[*wire.Error](err); ok {
		return refusal.Code
	}
	return 0
}

func TestQuestionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q questions
		begun := time.Now()
		var waiting sync.WaitGroup
		ask := func(session string) error {
			_, err := q.ask(t.Context(), session, func([]byte) bool { return true }, wire.RootsList, nil)
			return err
		}
		for range maxPending {
			waiting.Go(func() {
				if err := ask("a"); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("an unanswered question ends with %v", err)
				}
			})
		}
		synctest.Wait()
		if err := ask("a"); code(err) != wire.InternalError {
			t.Errorf("one more question of the session: %v", err)
		}
		waiting.Go(func() {
			if err := ask("b"); code(err) != wire.InternalError {
				t.Errorf("a question to a session that ended: %v", err)
			}
		})
		synctest.Wait()
		q.end("b")
		waiting.Wait()
		if waited := time.Since(begun); waited != askBound || len(q.pending) != 0 {
			t.Errorf("after %v, %d sessions have questions", waited, len(q.pending))
		}
		q.close()
		if err := ask("a"); code(err) != wire.InternalError {
			t.Errorf("a question after the end: %v", err)
		}
	})
}

// curiousCall is a get whose upstream asks for the roots and returns the answer.
func curiousCall(ctx context.Context, c *upstream.Relay) (outcome, error) {
	answer, err := c.Reply(ctx, wire.RootsList, nil)
	return outcome{result: upstream.Result{JSON: answer, Revision: wire.LatestLegacy}}, err
}

func modernGet(principal string) *request {
	return &request{
		revision: wire.Rev20260728, principal: policy.Principal{Subject: principal}, talk: newTalk(),
		declared: wire.Object{}.With("roots", jsontext.Value("{}")),
	}
}

func TestWaitingCallsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ws waits
		get := func(who string) (outcome, error) {
			return ws.begin(t.Context(), modernGet(who), &upstream.Relay{}, curiousCall)
		}
		var parked []string
		for i := range maxWaiting {
			got, err := get(strconv.Itoa(i % 10))
			if err != nil || got.waiting == "" {
				t.Fatalf("call %d: %+v, %v", i, got, err)
			}
			parked = append(parked, got.waiting)
		}
		if _, err := get("0"); code(err) != wire.InternalError {
			t.Errorf("one more call of a principal: %v", err)
		}
		if _, err := get("another"); code(err) != wire.InternalError {
			t.Errorf("one more call in all: %v", err)
		}
		retry := modernGet("0")
		retry.params = wire.Object{}.With(memberResponses, jsontext.Value(`{"1":{"roots":[]}}`))
		if got, err := ws.resume(t.Context(), retry, parked[0]); err != nil || string(got.result.JSON) != `{"roots":[]}` {
			t.Errorf("a call that goes on: %s, %v", got.result.JSON, err)
		}
		if got, err := get("another"); err != nil || got.waiting == "" {
			t.Errorf("a call in its place: %+v, %v", got, err)
		}
		time.Sleep(stateLife + time.Second)
		synctest.Wait()
		if _, err := ws.resume(t.Context(), retry, parked[10]); code(err) != wire.InvalidParams {
			t.Errorf("a call that waited too long: %v", err)
		}
		if len(ws.all)+len(ws.parked)+len(ws.asking)+ws.count != 0 {
			t.Errorf("after the wait there are %d calls, %d parked, %d that asked", len(ws.all), len(ws.parked), ws.count)
		}
		ws.end()
		if _, err := ws.begin(t.Context(), modernGet("0"), &upstream.Relay{}, func(context.Context, *upstream.Relay) (outcome, error) {
			return outcome{}, context.Canceled
		}); !errors.Is(err, context.Canceled) {
			t.Errorf("a call after the end: %v", err)
		}
	})
}

func TestWhatASlowClientHasYetToHearIsBounded(t *testing.T) {
	talk := newTalk()
	for range 10 * maxSaid {
		talk.tell([]byte("{}"))
	}
	if !talk.say([]byte(`"question"`)) {
		t.Error("there is no room for a question")
	}
	if n := len(talk.take()); n != maxSaid+1 {
		t.Errorf("%d messages are kept, want %d", n, maxSaid+1)
	}
	for range 10 {
		talk.tell(make([]byte, maxSaidBytes/4))
	}
	if n := len(talk.take()); n != 4 {
		t.Errorf("%d large messages are kept, want 4", n)
	}
	if talk.end(); talk.say(nil) {
		t.Error("something can be said after the end")
	}
}
