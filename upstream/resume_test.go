package upstream_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
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

// begins makes a peer answer gets with the beginning of a stream, which then ends. It returns the
// id of the last get.
func begins(p *upstreamtest.Peer, beginning string) (id *atomic.Value) {
	id = &atomic.Value{}
	p.Handle(wire.PromptsGet, func(w http.ResponseWriter, r *upstreamtest.Request) {
		id.Store(string(r.Message.ID))
		stream(w, strings.ReplaceAll(beginning, "ID", string(r.Message.ID)))
	})
	return id
}

func stream(w http.ResponseWriter, events string) {
	w.Header().Set("Content-Type", wire.ContentSSE)
	fmt.Fprint(w, events)
	w.(http.Flusher).Flush()
}

// resumes sets how a peer answers requests to resume a stream; it has no standalone stream.
func resumes(p *upstreamtest.Peer, answer func(w http.ResponseWriter, r *upstreamtest.Request, n int)) {
	var n atomic.Int32
	p.Handle(http.MethodGet, func(w http.ResponseWriter, r *upstreamtest.Request) {
		if r.Header.Get("Last-Event-ID") == "" {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		answer(w, r, int(n.Add(1)))
	})
}

// resumptions returns the event ids that streams were resumed from.
func resumptions(p *upstreamtest.Peer) string {
	var ids []string
	for _, r := range p.Seen(http.MethodGet) {
		if id := r.Header.Get("Last-Event-ID"); id != "" {
			ids = append(ids, id)
		}
	}
	return strings.Join(ids, " ")
}

func response(id *atomic.Value) string {
	return fmt.Sprintf("data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"messages\":[]}}\n\n", id.Load())
}

const progress = `data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}` + "\n\n"

func TestResume_ContinuesStreamThatEndedBeforeResponse(t *testing.T) {
	inBubble(t, upstreamtest.NewPeer, anywhere(), func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
		time.Sleep(time.Second)
		id := begins(p, "id: prime\nretry: 1500\ndata:\n\n")
		resumes(p, func(w http.ResponseWriter, r *upstreamtest.Request, n int) {
			if r.Header.Get("Mcp-Session-Id") != "s1" || r.Header.Get("Mcp-Protocol-Version") != wire.Rev20251125 || r.Header.Get("Accept") != wire.ContentSSE {
				t.Errorf("resumed with %v", r.Header)
			}
			events := "id: " + fmt.Sprint("e", n) + "\n"
			switch n {
			case 1:
				events += fmt.Sprintf(progress, id.Load(), n)
			case 2:
				events += "retry: 700\n" + fmt.Sprintf(progress, id.Load(), n)
			case 3:
				events = "" // nothing new
			default:
				events += response(id)
			}
			stream(w, events)
		})
		var told []string
		client := &upstream.Relay{Progress: true, Notify: func(_ string, params jsontext.Value) { told = append(told, string(params)) }}
		begun := time.Now()
		if _, err := c.Call(t.Context(), &upstream.Request{Method: wire.PromptsGet, Name: "p"}, client); err != nil {
			t.Fatal(err)
		}
		upstreamtest.Equal(t, "prime e1 e2 e2", resumptions(p), "events from which it resumed")
		if took := time.Since(begun); took != 2*1500*time.Millisecond+2*700*time.Millisecond {
			t.Errorf("the call took %s, want the waits that the server asked for: 4.4s", took)
		}
		upstreamtest.Equal(t, 2, len(told), "parts of the progress: %v", told)
		wantSeen(t, p, wire.PromptsGet, 1)
	})
}

// A server that cannot resume takes the GET for one of its standalone stream, where its requests
// may belong to any call.
func TestResume_TiesNoRequestToCall(t *testing.T) {
	inBubble(t, upstreamtest.NewPeer, anywhere(), func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
		time.Sleep(time.Second)
		var mu sync.Mutex
		responses := ""
		p.Handle(wire.PromptsGet, func(w http.ResponseWriter, r *upstreamtest.Request) {
			mu.Lock()
			defer mu.Unlock()
			responses += "data: " + string(wire.AppendResult(nil, r.Message.ID, jsontext.Value(`{"messages":[]}`))) + "\n\n"
			stream(w, "id: counted\nretry: 1000\ndata:\n\n")
		})
		resumes(p, func(w http.ResponseWriter, _ *upstreamtest.Request, n int) {
			mu.Lock()
			defer mu.Unlock()
			if n == 1 {
				stream(w, "data: "+rootsRequest+"\n\n")
				return
			}
			stream(w, responses)
		})
		var asked atomic.Int32
		var calls sync.WaitGroup
		for range 2 {
			calls.Go(func() { mustGetFor(t, c, rooted(&asked, 0)) })
		}
		calls.Wait()
		synctest.Wait()
		if got := answers(p); asked.Load() != 0 || !slices.Equal(got, []string{"error"}) {
			t.Errorf("of two calls %d were asked; the answers: %v", asked.Load(), got)
		}
	})
}

func TestResume_GivesUp(t *testing.T) {
	ended := func(w http.ResponseWriter, _ *upstreamtest.Request, _ int) { stream(w, "") }
	status := func(status int) func(http.ResponseWriter, *upstreamtest.Request, int) {
		return func(w http.ResponseWriter, _ *upstreamtest.Request, _ int) { w.WriteHeader(status) }
	}
	for name, test := range map[string]struct {
		beginning   string
		resume      func(http.ResponseWriter, *upstreamtest.Request, int)
		want        upstream.Reason
		least, most int // resumptions
		took        time.Duration
	}{
		"no ids":              {"data:\n\n", ended, upstream.BadResponse, 0, 0, 0},
		"an id for no header": {"id: a\x01b\ndata:\n\n", ended, upstream.BadResponse, 0, 0, 0},
		"a very long id":      {"id: " + strings.Repeat("x", 2000) + "\ndata:\n\n", ended, upstream.BadResponse, 0, 0, 0},
		"nonsense":            {"id: a\ndata: {\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\n\n", ended, upstream.BadResponse, 0, 0, 0},
		"no such stream":      {"id: a\ndata:\n\n", status(405), upstream.BadResponse, 1, 1, time.Second},
		"refused":             {"id: a\ndata:\n\n", status(400), upstream.BadResponse, 1, 1, time.Second},
		"session lost":        {"id: a\ndata:\n\n", status(404), upstream.BadResponse, 1, 1, time.Second},
		"down":                {"id: a\ndata:\n\n", status(503), upstream.Unreachable, 6, 6, 4 * time.Second},
		"never an end":        {"id: a\ndata:\n\n", ended, upstream.Timeout, 50, 100, 10 * time.Second},
		"to be left alone":    {"id: a\nretry: 99999999999999999999\nretry: 9223372036854775807\ndata:\n\n", ended, upstream.Timeout, 0, 0, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, upstreamtest.NewPeer, anywhere(), func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
				time.Sleep(time.Second)
				begins(p, test.beginning)
				resumes(p, test.resume)
				begun := time.Now()
				wantFailure(t, c, "p", test.want)
				if n := len(strings.Fields(resumptions(p))); n < test.least || n > test.most {
					t.Errorf("resumed %d times, want %d to %d", n, test.least, test.most)
				}
				if took := time.Since(begun); took > test.took {
					t.Errorf("took %s, want at most %s", took, test.took)
				}
				wantSeen(t, p, wire.PromptsGet, 1)
			})
		})
	}
}

// The modern era has no resumption (2026-07-28, Transports): a stream that breaks is a failed call.
func TestResume_IsNotTriedInTheModernEra(t *testing.T) {
	inBubble(t, upstreamtest.NewModernPeer, anywhere(), func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
		time.Sleep(time.Second)
		begins(p, "id: a\ndata:\n\n")
		wantFailure(t, c, "p", upstream.BadResponse)
		wantSeen(t, p, http.MethodGet, 0)
	})
}

func TestResume_ContinuesStandaloneStream(t *testing.T) {
	var purged atomic.Bool
	peer := func(t testing.TB) *upstreamtest.Peer {
		p := upstreamtest.NewPeer(t)
		n := 0
		p.Handle(http.MethodGet, func(w http.ResponseWriter, r *upstreamtest.Request) {
			if purged.Load() && r.Header.Get("Last-Event-ID") != "" {
				http.Error(w, "events purged", http.StatusBadRequest)
				return
			}
			n++
			w.Header().Set("Content-Type", wire.ContentSSE)
			fmt.Fprintf(w, "id: g%d\nretry: 2000\ndata:\n\n", n)
			p.Stream(w, r)
		})
		return p
	}
	inBubble(t, peer, anywhere(), func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
		time.Sleep(time.Minute)
		p.Break()
		time.Sleep(1900 * time.Millisecond)
		wantSeen(t, p, http.MethodGet, 1)
		time.Sleep(200 * time.Millisecond)
		purged.Store(true)
		p.Break()
		p.Prompts("meanwhile")
		time.Sleep(time.Minute)
		var ids []string
		for _, r := range p.Seen(http.MethodGet) {
			ids = append(ids, r.Header.Get("Last-Event-ID"))
		}
		if want := []string{"", "g1", "g2", ""}; !slices.Equal(ids, want) {
			t.Errorf("streams from %q, want %q", ids, want)
		}
		if got := names(c); got != "meanwhile" || p.Streams() != 1 {
			t.Errorf("names = %s, streams = %d", got, p.Streams())
		}
	})
}
