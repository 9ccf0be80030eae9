package transport

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/promptweir/promptweir/gateway/requests"
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
