package upstream_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
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
		begin := func() { go func() { ended <- getFor(t.Context(), c, rooted(&asked, 0)) }() }

		begin()
		begin()
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
		begin()
		synctest.Wait()
		p.Say(rootsRequest) // also on the primary session's stream, which relays nothing
		synctest.Wait()
		if asked.Load() != 1 || !slices.Equal(answers(p), []string{"error", "error", "error", "result"}) {
			t.Errorf("the only call was asked %d times; the answers: %v", asked.Load(), answers(p))
		}
		close(proceed)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
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

// Servers send the end of an elicitation by URL outside of the call's stream, and some clients reply only then.
func TestRelay_EndOfAnElicitationFindsItsCall(t *testing.T) {
	inBubble(t, upstreamtest.NewPeer, anywhere(), func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
		replies := map[string]chan struct{}{`"a"`: make(chan struct{}, 1), `"b"`: make(chan struct{}, 1)}
		p.Handle("", func(_ http.ResponseWriter, r *upstreamtest.Request) { replies[string(r.Message.ID)] <- struct{}{} })
		p.Handle(wire.PromptsGet, func(w http.ResponseWriter, r *upstreamtest.Request) {
			name, _ := r.Params.Text("name")
			upstreamtest.Event(w, fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":"elicitation/create","params":{"mode":"url","elicitationId":"of %s"}}`, name, name))
			<-replies[`"`+name+`"`]
			upstreamtest.Event(w, string(wire.AppendResult(nil, r.Message.ID, jsontext.Value(`{"messages":[]}`))))
		})
		var all sync.WaitGroup
		for _, name := range []string{"a", "b"} {
			all.Go(func() {
				ended := make(chan string, 2)
				client := &upstream.Relay{
					Capabilities: jsontext.Value(`{"elicitation":{"url":{}}}`),
					Notify:       func(method string, params jsontext.Value) { ended <- method + string(params) },
				}
				client.Reply = func(context.Context, string, jsontext.Value) (jsontext.Value, error) {
					want := fmt.Sprintf(`notifications/elicitation/complete{"elicitationId":"of %s"}`, name)
					select {
					case got := <-ended:
						upstreamtest.Equal(t, want, got, "the notification of %s", name)
					case <-time.After(time.Minute):
						t.Errorf("%s is not notified", name)
					}
					return jsontext.Value(`{"action":"accept"}`), nil
				}
				if _, err := getNamed(t.Context(), c, name, client); err != nil || len(ended) > 0 {
					t.Errorf("get = %v, and %d more notifications", err, len(ended))
				}
			})
		}
		for _, id := range []string{"of b", "of another", "of a"} {
			synctest.Wait()
			p.Say(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":%q}}`, id))
		}
		all.Wait()
		wantSeen(t, p, wire.Initialize, 2) // the calls share a session
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

// Calls that come together do not wait for each other's sessions, which may take long to open.
func TestSessionPool_OpensSessionsForCallsTogether(t *testing.T) {
	u := anywhereSSE()
	u.Timeout = time.Minute
	inBubble(t, upstreamtest.NewPeer, u, func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
		p.Intercept(func(_ http.ResponseWriter, r *upstreamtest.Request) bool {
			if r.Message.Method == wire.Initialize {
				time.Sleep(5 * time.Second)
			}
			return false
		})
		p.Handle(wire.PromptsGet, func(w http.ResponseWriter, r *upstreamtest.Request) {
			time.Sleep(time.Second)
			r.Result(w, `{"messages":[]}`)
		})
		begun := time.Now()
		var all sync.WaitGroup
		for i := range 5 {
			relay := rooted(new(atomic.Int32), 0)
			relay.Caller = strconv.Itoa(i / 2)
			all.Go(func() { mustGetFor(t, c, relay) })
		}
		all.Wait()
		upstreamtest.Equal(t, 7*time.Second, since(begun), "duration of five calls, as the sessions of four are opened together")
		wantSeen(t, p, wire.Initialize, 5)
	})
}

// Callers without a credential are one caller: a client cannot get around its share by not saying
// who it is.
func TestSessionPool_AnonymousCallersShareTheirPart(t *testing.T) {
	inBubble(t, upstreamtest.NewPeer, anywhereSSE(), func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
		p.Handle(wire.PromptsGet, func(w http.ResponseWriter, r *upstreamtest.Request) {
			if name, _ := r.Params.Text("name"); name == "anonymous" {
				<-r.Context().Done()
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
		wantSeen(t, p, wire.PromptsGet, 2)
		for range 3 {
			if err := getAs(t.Context(), "ann's", "user:ann"); err != nil {
				t.Errorf("get = %v", err)
			}
		}
		wantSeen(t, p, wire.PromptsGet, 5)
	})
}
