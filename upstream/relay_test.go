package upstream_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/wire"
)

const rootsRequest = `{"jsonrpc":"2.0","id":"q","method":"roots/list"}`

// rooted is the relay of a client that lists its roots after a time, and counts the requests for
// them.
func rooted(asked *atomic.Int32, after time.Duration) *upstream.Relay {
	return &upstream.Relay{
		Capabilities: jsontext.Value(`{"roots":{}}`),
		Reply: func(ctx context.Context, method string, _ jsontext.Value) (jsontext.Value, error) {
			asked.Add(1)
			if method != wire.RootsList {
				return nil, wire.NewError(wire.InternalError, "what?")
			}
			select {
			case <-time.After(after):
				return jsontext.Value(`{"roots":[]}`), nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		},
	}
}

// answers returns the replies that a peer got: "result" or "error" for each.
func answers(p *upstreamtest.Peer) (kinds []string) {
	for _, r := range p.Seen(http.MethodPost) {
		switch {
		case !r.Message.IsResponse():
		case r.Message.Error != nil:
			kinds = append(kinds, "error")
		default:
			kinds = append(kinds, "result")
		}
	}
	slices.Sort(kinds)
	return kinds
}

func getFor(ctx context.Context, c *upstream.Connector, client *upstream.Relay) error {
	_, err := getNamed(ctx, c, "p", client)
	return err
}

// mustGetFor fails the test if a get for a client fails.
func mustGetFor(t *testing.T, c *upstream.Connector, client *upstream.Relay) {
	t.Helper()
	if err := getFor(t.Context(), c, client); err != nil {
		t.Error(err)
	}
}

// asks makes a peer send a request on a get's own stream, and respond some time after the reply.
func asks(p *upstreamtest.Peer, after time.Duration) {
	answered := make(chan struct{})
	p.Handle("", func(http.ResponseWriter, *upstreamtest.Request) { close(answered) })
	p.Handle(wire.PromptsGet, func(w http.ResponseWriter, r *upstreamtest.Request) {
		upstreamtest.Event(w, rootsRequest)
		<-answered
		select {
		case <-time.After(after):
			upstreamtest.Event(w, string(wire.AppendResult(nil, r.Message.ID, jsontext.Value(`{"messages":[]}`))))
		case <-r.Context().Done():
		}
	})
}

func TestRelay_PausesTimeoutDuringReply(t *testing.T) {
	for after, want := range map[time.Duration]upstream.Reason{800 * time.Millisecond: "", 1100 * time.Millisecond: upstream.Timeout} {
		u := anywhere()
		u.Timeout = time.Second
		inBubble(t, upstreamtest.NewPeer, u, func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
			asks(p, after)
			var asked atomic.Int32
			begun := time.Now()
			if err := getFor(t.Context(), c, rooted(&asked, time.Hour)); unavailable(err) != want {
				t.Errorf("answered %v after the client: %v, want reason %q", after, err, want)
			}
			if took := since(begun); took < time.Hour || took > time.Hour+time.Second {
				t.Errorf("it took %v", took)
			}
			if asked.Load() != 1 || len(p.Seen(wire.PromptsGet)) != 1 {
				t.Errorf("the client was asked %d times, the server %d times", asked.Load(), len(p.Seen(wire.PromptsGet)))
			}
		})
	}
}

// A panic in relaying a server request is for the server to hear of, and ends neither the call nor the process.
func TestRelay_PanicRefusesOneServerRequest(t *testing.T) {
	inBubble(t, upstreamtest.NewPeer, anywhere(), func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
		asks(p, 0)
		relay := rooted(new(atomic.Int32), 0)
		relay.Reply = func(context.Context, string, jsontext.Value) (jsontext.Value, error) { panic("out of range") }
		mustGetFor(t, c, relay)
		if got := answers(p); !slices.Equal(got, []string{"error"}) {
			t.Errorf("the server received %q, want one error", got)
		}
	})
}

func TestRelay_LendsSlotDuringReply(t *testing.T) {
	u := anywhere()
	u.Concurrency = 1
	inBubble(t, upstreamtest.NewPeer, u, func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
		p.Handle(wire.PromptsGet, func(w http.ResponseWriter, r *upstreamtest.Request) {
			upstreamtest.Event(w, rootsRequest)
			<-r.Context().Done()
		})
		var asked atomic.Int32
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- getFor(ctx, c, rooted(&asked, time.Hour)) }()
		synctest.Wait()
		p.Result(wire.PromptsGet, `{"messages":[]}`)
		for range 2 {
			mustGetFor(t, c, &upstream.Relay{})
		}
		cancel()
		if err := <-ended; err == nil || asked.Load() != 1 {
			t.Errorf("a call that was given up: %v; %d were asked", err, asked.Load())
		}
		mustGetFor(t, c, &upstream.Relay{})
	})
}

func TestRelay_KeepsARetiredConnectorDuringReply(t *testing.T) {
	inBubble(t, upstreamtest.NewPeer, anywhere(), func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
		asks(p, time.Second)
		var asked atomic.Int32
		ended := make(chan error, 1)
		begun := time.Now()
		go func() { ended <- getFor(t.Context(), c, rooted(&asked, time.Hour)) }()
		synctest.Wait()
		c.Retire(t.Context())
		if after, want := since(begun), time.Hour+time.Second; after != want {
			t.Errorf("Retire returned after %s, want %s", after, want)
		}
		if err := <-ended; err != nil || asked.Load() != 1 {
			t.Errorf("the get: %v; %d were asked", err, asked.Load())
		}
	})
}

func TestRelay_PreventsRetryAfterServerRequest(t *testing.T) {
	u := anywhere()
	u.Attempts = 3
	inBubble(t, upstreamtest.NewPeer, u, func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
		p.Handle(wire.PromptsGet, func(w http.ResponseWriter, _ *upstreamtest.Request) {
			p.Say(rootsRequest)
			time.Sleep(time.Millisecond)
			w.WriteHeader(http.StatusBadGateway)
		})
		var asked atomic.Int32
		if err := getFor(t.Context(), c, rooted(&asked, 0)); unavailable(err) != upstream.Unreachable {
			t.Error(err)
		}
		if asked.Load() != 1 || len(p.Seen(wire.PromptsGet)) != 1 {
			t.Errorf("the client was asked %d times, the server %d times", asked.Load(), len(p.Seen(wire.PromptsGet)))
		}
	})
}

// The server sends requests on streams that belong to no call.
func TestRelay_GivesUntiedRequestToSoleCallOnly(t *testing.T) {
	inBubble(t, upstreamtest.NewPeer, anywhere(), func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
		proceed := make(chan struct{})
		p.Handle(wire.PromptsGet, func(w http.ResponseWriter, r *upstreamtest.Request) {
			select {
			case <-proceed:
				r.Result(w, `{"messages":[]}`)
			case <-r.Context().Done():
			}
		})
		var asked atomic.Int32
		ended := make(chan error, 2)
		begin := func(ctx context.Context) { go func() { ended <- getFor(ctx, c, rooted(&asked, 0)) }() }

		begin(t.Context())
		begin(t.Context())
		synctest.Wait()
		wantSeen(t, p, wire.Initialize, 2) // calls with the same capabilities share one
		p.Say(rootsRequest)
		synctest.Wait()
		if asked.Load() != 0 || !slices.Equal(answers(p), []string{"error", "error"}) {
			t.Errorf("of two calls %d were asked; the answers: %v", asked.Load(), answers(p))
		}
		close(proceed)
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		synctest.Wait()

		proceed = make(chan struct{})
		begin(t.Context())
		synctest.Wait()
		p.Say(rootsRequest) // also on the primary session's stream, which relays nothing
		synctest.Wait()
		if asked.Load() != 1 || !slices.Equal(answers(p), []string{"error", "error", "error", "result"}) {
			t.Errorf("the only call was asked %d times; the answers: %v", asked.Load(), answers(p))
		}
		ctx, cancel := context.WithCancel(t.Context())
		begin(ctx)
		synctest.Wait()
		wantSeen(t, p, wire.Initialize, 4) // now that calls take turns
		cancel()
		if err := <-ended; err == nil {
			t.Error("a call that was given up has a result")
		}
		begin(t.Context())
		synctest.Wait()
		wantSeen(t, p, wire.Initialize, 5) // late messages about the call that was given up must not reach the next
		close(proceed)
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
}

func TestRelay_GivesUntiedRequestToFirstCallOnly(t *testing.T) {
	for earlier, want := range []int32{1, 0} {
		inBubble(t, upstreamtest.NewPeer, anywhere(), func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
			var asked atomic.Int32
			for range earlier {
				mustGetFor(t, c, rooted(&asked, 0))
			}
			p.Handle(wire.PromptsGet, func(w http.ResponseWriter, r *upstreamtest.Request) {
				p.Say(rootsRequest)
				time.Sleep(time.Second)
				r.Result(w, `{"messages":[]}`)
			})
			if err := getFor(t.Context(), c, rooted(&asked, 0)); err != nil || asked.Load() != want {
				t.Errorf("after %d calls %d are asked (%v), want %d", earlier, asked.Load(), err, want)
			}
		})
	}
}

// The server sends progress of one call on the stream of another.
func TestRelay_KeepsCallsApart(t *testing.T) {
	inBubble(t, upstreamtest.NewPeer, anywhere(), func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
		tokens := make(chan jsontext.Value, 2)
		p.Handle(wire.PromptsGet, func(w http.ResponseWriter, r *upstreamtest.Request) {
			own := r.Params.Object("_meta").Get(wire.MetaProgressToken)
			tokens <- own
			time.Sleep(time.Second)
			other := <-tokens
			if string(other) == string(own) {
				tokens <- other
				other = <-tokens
			}
			w.Header().Set("Content-Type", wire.ContentSSE)
			for i, token := range []jsontext.Value{other, own, jsontext.Value(`"odd"`)} {
				upstreamtest.Event(w, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`, token, i))
			}
			upstreamtest.Event(w, `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"not wanted"}}`)
			upstreamtest.Event(w, string(wire.AppendResult(nil, r.Message.ID, jsontext.Value(`{"messages":[]}`))))
		})
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				var told []string
				client := &upstream.Relay{Progress: true, Notify: func(method string, params jsontext.Value) {
					told = append(told, method+string(params[len(params)-13:]))
				}}
				mustGetFor(t, c, client)
				if want := []string{`notifications/progress"progress":1}`}; !slices.Equal(told, want) {
					t.Errorf("told of %q, want %q", told, want)
				}
			})
		}
		all.Wait()
	})
}

func TestSessionPool_IsBoundedAndClosesIdleSessions(t *testing.T) {
	inBubble(t, upstreamtest.NewPeer, anywhere(), func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
		declared := map[string]bool{}
		for _, sampling := range []string{``, `"sampling":{},`, `"sampling":{"tools":{}},`, `"sampling":{"context":{}},`} {
			for _, elicitation := range []string{`{}`, `{"url":{}}`, `{"form":{},"url":{}}`} {
				var asked atomic.Int32
				client := rooted(&asked, 0)
				client.Capabilities = jsontext.Value(fmt.Sprintf(`{%s"x":{},"elicitation":%s}`, sampling, elicitation))
				for range 2 {
					mustGetFor(t, c, client)
				}
				synctest.Wait()
				if open := len(p.Seen(wire.Initialize)) - len(p.Seen(http.MethodDelete)); open > 9 {
					t.Errorf("%d sessions are open", open)
				}
			}
		}
		for _, r := range p.Seen(wire.Initialize) {
			declared[string(r.Params.Get("capabilities"))] = true
		}
		if n := len(p.Seen(wire.Initialize)); n != 13 || len(declared) != 13 || !declared[`{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}}}`] {
			t.Errorf("%d sessions that declare %v", n, declared)
		}
		time.Sleep(6 * time.Minute)
		wantSeen(t, p, http.MethodDelete, 12)
	})
}

func TestSessionPool_FallsBackToPrimarySession(t *testing.T) {
	inBubble(t, upstreamtest.NewPeer, anywhere(), func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
		p.Status(wire.Initialize, http.StatusServiceUnavailable)
		var asked atomic.Int32
		for range 3 {
			mustGetFor(t, c, rooted(&asked, 0))
		}
		wantSeen(t, p, wire.Initialize, 2)
	})
}

// Callers without a credential are one caller: a client cannot get around its share by not saying
// who it is.
func TestSessionPool_AnonymousCallersShareTheirPart(t *testing.T) {
	inBubble(t, upstreamtest.NewPeer, anywhereSSE(), testAnonymousCallers)
}

func testAnonymousCallers(t *testing.T, peer *upstreamtest.Peer, c *upstream.Connector) {
	peer.Handle(wire.PromptsGet, func(w http.ResponseWriter, r *upstreamtest.Request) {
		if name, _ := r.Params.Text("name"); name == "anonymous" {
			<-r.Context().Done()
			return
		}
		r.Result(w, `{"messages":[]}`)
	})
	getAs := func(ctx context.Context, name, caller string) error {
		relay := rooted(new(atomic.Int32), 0)
		relay.Caller = caller
		_, err := getNamed(ctx, c, name, relay)
		return err
	}
	ctx, cancel := context.WithCancel(t.Context())
	var hanging sync.WaitGroup
	for range 6 {
		hanging.Go(func() { _ = getAs(ctx, "anonymous", "") })
	}
	defer hanging.Wait()
	defer cancel()
	synctest.Wait()
	wantSeen(t, peer, wire.PromptsGet, 2)
	for range 3 {
		if err := getAs(t.Context(), "ann's", "user:ann"); err != nil {
			t.Errorf("get = %v", err)
		}
	}
	sessions := map[string]int{}
	for _, r := range peer.Seen(wire.PromptsGet) {
		name, _ := r.Params.Text("name")
		sessions[name]++
		if r.Header.Get(wire.HeaderSessionID) == "s1" {
			t.Errorf("the get %q was made on the primary session, which declares no roots", name)
		}
	}
	if sessions["anonymous"] != 2 || sessions["ann's"] != 3 {
		t.Errorf("gets at the server: %v, want 2 anonymous ones and 3 of ann", sessions)
	}
}
