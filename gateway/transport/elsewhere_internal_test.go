package transport

import (
	"context"
	"sync"
	"testing"
	"time"
)

// Posts that other replicas pass on wait for a session whose client does not read: of each principal a few, so that others' are served.
func TestPost_WaitsForAFewOfEachPrincipal(t *testing.T) {
	var transport Transport
	add := func(owner string) (id string, posts chan incoming) {
		posts = make(chan incoming)
		return transport.sseSessions.add(&sseSession{owner: owner, posts: posts, over: make(chan struct{})}, ""), posts
	}
	ofAnn, _ := add("ann")
	ofBob, bobs := add("bob")
	ping := []byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	ctx, leave := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	for range maxPassed {
		waiting.Go(func() {
			if outcome := transport.post(ctx, ofAnn, "ann", ping); outcome != postUnknown {
				t.Errorf("outcome %d of a post whose client has left, want %d", outcome, postUnknown)
			}
		})
	}
	for deadline := time.Now().Add(time.Minute); waitingOf(&transport, "ann") < maxPassed && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	if outcome := transport.post(ctx, ofAnn, "ann", ping); outcome != postTooMany {
		t.Errorf("outcome %d of one post more, want %d", outcome, postTooMany)
	}
	waiting.Go(func() { <-bobs })
	if outcome := transport.post(ctx, ofBob, "bob", ping); outcome != postTaken {
		t.Errorf("outcome %d of another principal's post, want %d", outcome, postTaken)
	}
	if outcome := transport.post(ctx, ofBob, "ann", ping); outcome != postUnknown {
		t.Errorf("outcome %d of a post to another principal's session, want %d", outcome, postUnknown)
	}
	leave()
	waiting.Wait()
	if kept := len(transport.sseSessions.passed); kept != 0 {
		t.Errorf("%d principals are kept without a post that waits", kept)
	}
}

func waitingOf(t *Transport, owner string) int {
	t.sseSessions.mu.Lock()
	defer t.sseSessions.mu.Unlock()
	return t.sseSessions.passed[owner]
}
