package transport

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// addSSE adds a session of HTTP+SSE whose client's posts are read from a channel.
func addSSE(t *Transport, owner string) (id string, posts chan incoming) {
	posts = make(chan incoming)
	session := &sseSession{owner: owner, posts: posts, over: make(chan struct{})}
	return t.sseSessions.add(session, t.peers), posts
}

// neighbour is one of two replicas in one process, which calls the other one's handlers.
type neighbour struct {
	name     string
	handlers map[string]func(context.Context, func(any) error) any
	other    *neighbour
	// calls are the topics of the calls to the other one; longest is the size of their largest
	// question, in bytes.
	calls   []string
	longest int
	// full is a topic under which the other one has no slot for the principal.
	full string
}

func (n *neighbour) Name() string               { return n.name }
func (*neighbour) Publish(string, string, any)  {}
func (*neighbour) Announce(topic string, _ any) {}
func (n *neighbour) Handle(topic string, handle func(context.Context, func(any) error) any) {
	n.handlers[topic] = handle
}

func (n *neighbour) Call(ctx context.Context, _, topic, _ string, question, answer any) error {
	asked, err := json.Marshal(question)
	if err != nil {
		return err
	}
	n.calls, n.longest = append(n.calls, topic), max(n.longest, len(asked))
	if topic == n.full {
		return errors.New("no slot")
	}
	got, err := json.Marshal(n.other.handlers[topic](ctx, func(message any) error { return json.Unmarshal(asked, message) }))
	if err != nil {
		return err
	}
	return json.Unmarshal(got, answer)
}

// A client can make up sessions and send large bodies to them: the replica that is to have the
// session is asked for it and for its owner before a body is sent.
func TestPassPost_AsksForSessionAndOwnerBeforeItSendsABody(t *testing.T) {
	here := &neighbour{name: "here", handlers: map[string]func(context.Context, func(any) error) any{}}
	there := &neighbour{name: "also", handlers: map[string]func(context.Context, func(any) error) any{}}
	here.other, there.other = there, here
	var replicas []*Transport
	for _, n := range []*neighbour{here, there} {
		replica := &Transport{peers: n}
		replica.handlePeers()
		replicas = append(replicas, replica)
	}
	ofAnn, posts := addSSE(replicas[1], "ann")
	go func() { <-posts }()
	body := []byte(`{"jsonrpc":"2.0","id":"` + strings.Repeat("x", 1<<20) + `","method":"ping"}`)
	for _, test := range []struct {
		session, owner, full string
		want                 posted
		calls                []string
	}{
		{"MADEUP.also", "ann", "", postUnknown, []string{topicSession}},
		{ofAnn, "bob", "", postUnknown, []string{topicSession}},
		{"MADEUP.here", "ann", "", postUnknown, nil},
		{"MADEUP", "ann", "", postUnknown, nil},
		{ofAnn, "ann", "", postTaken, []string{topicSession, topicPost}},
		{ofAnn, "ann", topicPost, postTooMany, []string{topicSession, topicPost}},
	} {
		here.calls, here.longest, here.full = nil, 0, test.full
		x := &exchange{t: replicas[0], r: httptest.NewRequestWithContext(t.Context(), http.MethodPost, ssePath, nil)}
		if got := x.passPost(test.session, test.owner, body); got != test.want || !slices.Equal(here.calls, test.calls) {
			t.Errorf("a post of %s to %s: %s after %q, want %s after %q", test.owner, test.session, got, here.calls, test.want, test.calls)
		}
		if test.want == postUnknown && here.longest > 1<<10 {
			t.Errorf("a post of %s to %s: %d bytes are sent", test.owner, test.session, here.longest)
		}
	}
}
