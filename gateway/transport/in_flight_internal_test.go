package transport

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/gateway/requests"
	"github.com/promptweir/promptweir/upstream/upstreamtest/bubble"
	"github.com/promptweir/promptweir/upstream/wire"
)

func TestInFlight_BoundsEachSession(t *testing.T) {
	var f inFlight
	one, other := sessionID{1}, sessionID{2}
	begin := func(session sessionID, id int) *cancellable {
		_, c := f.begin(t.Context(), session, jsontext.Value(strconv.Itoa(id/2))) // each id twice
		return c
	}
	var begun []*cancellable
	for i := range maxSessionInFlight {
		c := begin(one, i)
		if c == nil {
			t.Fatalf("request %d of a session is refused, want %d", i, maxSessionInFlight)
		}
		if c.isDuplicate != (i%2 == 1) {
			t.Fatalf("request %d: id in use = %t", i, c.isDuplicate)
		}
		begun = append(begun, c)
	}
	if begin(one, maxSessionInFlight) != nil {
		t.Errorf("a session has %d requests in flight, want %d at most", maxSessionInFlight+1, maxSessionInFlight)
	}
	others := begin(other, 0)
	if others == nil {
		t.Fatal("a session is refused because another has too many requests in flight")
	}
	begun[0].Release()
	if begun[0] = begin(one, maxSessionInFlight); begun[0] == nil {
		t.Fatal("a session is refused although a request of it is over")
	}
	for _, c := range append(begun, others) {
		c.Release()
	}
	if len(f.counts) > 0 || len(f.requests) > 0 {
		t.Errorf("%d sessions and %d requests are kept without a request in flight", len(f.counts), len(f.requests))
	}
}

// code returns the code of a JSON-RPC error, or 0.
func code(err error) int64 {
	if refusal, ok := errors.AsType[*wire.Error](err); ok {
		return refusal.Code
	}
	return 0
}

func TestReplies_AreBounded(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var q replies
		begun := time.Now()
		var waiting sync.WaitGroup
		ask := func(session byte) error {
			_, err := q.request(t.Context(), sessionID{session}, func([]byte) bool { return true }, wire.RootsList, nil)
			return err
		}
		for range maxAwaited {
			waiting.Go(func() {
				if err := ask('a'); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("a server request without a reply ends with %v", err)
				}
			})
		}
		synctest.Wait()
		if err := ask('a'); code(err) != wire.InternalError {
			t.Errorf("one more server request of the session: %v", err)
		}
		_, err := q.request(t.Context(), sessionID{'c'}, func([]byte) bool { return false }, wire.RootsList, nil)
		if code(err) != wire.InternalError {
			t.Errorf("a server request to a client that does not read: %v", err)
		}
		waiting.Go(func() {
			if err := ask('b'); code(err) != wire.InternalError {
				t.Errorf("a server request of a session that has ended: %v", err)
			}
		})
		synctest.Wait()
		q.end(sessionID{'b'})
		waiting.Wait()
		if waited := time.Since(begun); waited != requests.ReplyBound || len(q.awaited) != 0 {
			t.Errorf("after %v, %d sessions await replies; want none after the bound", waited, len(q.awaited))
		}
		q.close()
		if err := ask('a'); code(err) != wire.InternalError {
			t.Errorf("a server request after close: %v", err)
		}
	})
}
