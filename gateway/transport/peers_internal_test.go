package transport

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/promptweir/promptweir/gateway/edge"
)

// Posts that other replicas pass on wait for a session whose client does not read: of each principal a few, so that others' are served.
func TestPost_WaitsForAFewOfEachPrincipal(t *testing.T) {
	transport := Transport{ledger: edge.New(edge.Options{})}
	add := func(owner string) (id string, posts chan incoming) {
		posts = make(chan incoming)
		return transport.sseSessions.add(&sseSession{owner: owner, posts: posts, over: make(chan struct{})}, ""), posts
	}
	ofAnn, _ := add("ann")
	ofBob, bobs := add("bob")
	ping := []byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	ctx, leave := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	for range maxPosts {
		waiting.Go(func() {
			if outcome := transport.post(ctx, post{ofAnn, "ann", ping}); outcome != postUnknown {
				t.Errorf("outcome %s of a post whose client has left, want %s", outcome, postUnknown)
			}
		})
	}
	for deadline := time.Now().Add(time.Minute); mayWait(&transport, "ann", maxPosts) && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	if outcome := transport.post(ctx, post{ofAnn, "ann", ping}); outcome != postTooMany {
		t.Errorf("outcome %s of one post more, want %s", outcome, postTooMany)
	}
	waiting.Go(func() { <-bobs })
	if outcome := transport.post(ctx, post{ofBob, "bob", ping}); outcome != postTaken {
		t.Errorf("outcome %s of another principal's post, want %s", outcome, postTaken)
	}
	if outcome := transport.post(ctx, post{ofBob, "ann", ping}); outcome != postUnknown {
		t.Errorf("outcome %s of a post to another principal's session, want %s", outcome, postUnknown)
	}
	leave()
	waiting.Wait()
	if !mayWait(&transport, "ann", 1) || !mayWait(&transport, "bob", 1) {
		t.Error("a post counts that does not wait any more")
	}
}

// mayWait reports whether fewer than so many posts of a principal wait.
func mayWait(t *Transport, owner string, most int) bool {
	release, ok := t.ledger.Count(owner, edge.Posts, most)
	if ok {
		release()
	}
	return ok
}
