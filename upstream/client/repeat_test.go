package client_test

import (
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/wire"
)

// hangUp closes the connection of a request without a response.
func hangUp(t *testing.T, w http.ResponseWriter) {
	t.Helper()
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		t.Error(err)
		return
	}
	_ = conn.Close()
}

// connectWithIdle opens a session and then as many idle connections to its server.
func connectWithIdle(t *testing.T, peer *upstreamtest.Peer, connections int) *client.Session {
	t.Helper()
	session := connect(t, peer, nil)
	var arrived sync.WaitGroup
	arrived.Add(connections)
	peer.Handle(wire.Ping, func(w http.ResponseWriter, r *upstreamtest.Request) {
		arrived.Done()
		arrived.Wait() // until each has a connection of its own
		r.Result(w, `{}`)
	})
	var pings sync.WaitGroup
	for range connections {
		pings.Go(func() {
			if err := session.Ping(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	pings.Wait()
	return session
}

func TestCall_IsRepeatedOnceIfAKeptConnectionBreaks(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		hangUps int
		after   time.Duration
		relay   *client.Relay
		seen    int
		ok      bool
	}{
		"one hang-up":                   {hangUps: 1, seen: 2, ok: true},
		"hang-ups without end":          {hangUps: 100, seen: 2},
		"a hang-up after some time":     {hangUps: 1, after: 1100 * time.Millisecond, seen: 1},
		"a relay, which may have asked": {hangUps: 1, relay: &client.Relay{Progress: true, Notify: func(string, jsontext.Value) {}}, seen: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			peer := upstreamtest.NewPeer(t)
			session := connectWithIdle(t, peer, 8)
			var seen atomic.Int32
			peer.Handle(wire.PromptsGet, func(w http.ResponseWriter, r *upstreamtest.Request) {
				if int(seen.Add(1)) > test.hangUps {
					r.Result(w, `{"messages":[]}`)
					return
				}
				time.Sleep(test.after)
				hangUp(t, w)
			})
			_, err := session.Call(t.Context(), &client.Request{Method: wire.PromptsGet, Name: "p"}, test.relay)
			if (err == nil) != test.ok || client.Answered(err) != test.ok {
				t.Errorf("Call() = %v, want success: %v", err, test.ok)
			}
			if got := int(seen.Load()); got != test.seen {
				t.Errorf("the server saw the request %d times, want %d", got, test.seen)
			}
		})
	}
}

func TestCall_IsNotRepeatedOnAFreshConnection(t *testing.T) {
	t.Parallel()
	peer := upstreamtest.NewModernPeer(t)
	var seen atomic.Int32
	peer.Handle(wire.PromptsGet, func(w http.ResponseWriter, _ *upstreamtest.Request) {
		seen.Add(1)
		hangUp(t, w)
	})
	// Every response closes its connection, so that there is none to keep.
	server := upstreamtest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		peer.ServeHTTP(w, r)
	}))
	session, err := client.Connect(t.Context(), upstreamtest.HTTP("closing", server.URL), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	if _, err := session.Call(t.Context(), &client.Request{Method: wire.PromptsGet, Name: "p"}, nil); err == nil || seen.Load() != 1 {
		t.Errorf("Call() = %v, the server saw the request %d times, want once", err, seen.Load())
	}
}

func TestConnect_IsNotRepeated(t *testing.T) {
	t.Parallel()
	peer := upstreamtest.NewPeer(t)
	peer.Handle(wire.Initialize, func(w http.ResponseWriter, _ *upstreamtest.Request) { hangUp(t, w) })
	_, err := client.Connect(t.Context(), upstreamtest.HTTP("closing", upstreamtest.Serve(t, peer).URL), client.Options{})
	if n := len(peer.Seen(wire.Initialize)); err == nil || errors.Is(err, client.ErrSessionLost) || n != 1 {
		t.Errorf("Connect() = %v after %d handshakes, want an error after one", err, n)
	}
}
