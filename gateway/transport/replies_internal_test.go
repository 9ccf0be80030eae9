package transport

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/promptweir/promptweir/upstream/wire"
)

// code is that of a protocol's error, or 0.
func code(err error) int64 {
	if refusal, ok := errors.AsType[*wire.Error](err); ok {
		return refusal.Code
	}
	return 0
}

func TestReplies_AreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q replies
		begun := time.Now()
		var waiting sync.WaitGroup
		ask := func(session string) error {
			_, err := q.request(t.Context(), session, func([]byte) bool { return true }, wire.RootsList, nil)
			return err
		}
		for range maxAwaited {
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
		if waited := time.Since(begun); waited != replyBound || len(q.awaited) != 0 {
			t.Errorf("after %v, %d sessions have questions", waited, len(q.awaited))
		}
		q.close()
		if err := ask("a"); code(err) != wire.InternalError {
			t.Errorf("a question after the end: %v", err)
		}
	})
}
