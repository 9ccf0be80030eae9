package gatewaytest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/wire"
)

// Peer is an [upstreamtest.Peer] that listens. Its responses have its name, and it has no sessions.
type Peer struct {
	*upstreamtest.Peer

	TB testing.TB
	// Name is the name of its upstream block, and URL its address.
	Name, URL string
	// Settings are further attributes of its upstream block.
	Settings string

	modern bool
	server *upstreamtest.Server
}

// Call is a message that a peer received.
type Call struct {
	ID     json.RawMessage
	Method string
	Params json.RawMessage
	Result json.RawMessage
	Error  json.RawMessage
	Header http.Header
}

// NewPeer starts a peer of the legacy era. Its prompts are names or whole definitions.
func NewPeer(tb testing.TB, name string, prompts ...string) *Peer {
	tb.Helper()
	return newPeer(tb, false, name, prompts)
}

// NewModernPeer starts a peer of the modern era.
func NewModernPeer(tb testing.TB, name string, prompts ...string) *Peer {
	tb.Helper()
	return newPeer(tb, true, name, prompts)
}

func newPeer(tb testing.TB, modern bool, name string, prompts []string) *Peer {
	tb.Helper()
	start := upstreamtest.NewPeer
	if modern {
		start = upstreamtest.NewModernPeer
	}
	p := &Peer{Peer: start(tb), TB: tb, Name: name, modern: modern}
	p.Sessionless = true
	p.Declare(`{"prompts":{"listChanged":true},"completions":{}}`)
	p.SetPrompts(prompts...)
	p.Answer("prompts/get", `{"messages":[{"role":"user","content":{"type":"text","text":"from `+name+`"}}]}`)
	p.Answer("completion/complete", `{"completion":{"values":["from `+name+`"]}}`)
	p.Intercept(nil)
	p.server = upstreamtest.Serve(tb, p)
	p.URL = p.server.URL
	return p
}

// NewDownPeer returns a peer "gone" that does not listen.
func NewDownPeer(tb testing.TB) *Peer {
	tb.Helper()
	p := NewPeer(tb, "gone")
	p.Stop()
	return p
}

// NewSilentPeer starts a peer that receives requests and never responds.
func NewSilentPeer(tb testing.TB, name string) *Peer {
	tb.Helper()
	p := NewPeer(tb, name)
	p.Settings = `timeout = "60s"`
	p.Intercept(func(_ http.ResponseWriter, r *http.Request, _ Call) bool {
		<-r.Context().Done()
		return true
	})
	return p
}

// Definitions returns prompts as definitions, each of which may be a name.
func Definitions(prompts ...string) []string {
	all := make([]string, len(prompts))
	for i, prompt := range prompts {
		all[i] = prompt
		if !strings.HasPrefix(prompt, "{") {
			all[i] = fmt.Sprintf(`{"name":%q}`, prompt)
		}
	}
	return all
}

// Stop stops the server and breaks its connections. It may be called again.
func (p *Peer) Stop() { p.server.Down() }

// Restart starts the server again at the same address, which nobody else has got meanwhile.
func (p *Peer) Restart() {
	p.TB.Helper()
	p.server.Up(p)
}

// SetPrompts replaces the prompts, which are names or whole definitions, without a notification.
func (p *Peer) SetPrompts(prompts ...string) { p.List(Definitions(prompts...)...) }

// Offer replaces the prompts and sends a list_changed notification.
func (p *Peer) Offer(prompts ...string) { p.Peer.Offer(Definitions(prompts...)...) }

// Announce sends a list_changed notification on all streams.
func (p *Peer) Announce() { p.Changed() }

// AwaitStream waits until the gateway has a stream on which it would be told of a change.
func (p *Peer) AwaitStream() *Peer {
	p.TB.Helper()
	upstreamtest.Eventually(p.TB, p.Name+" has a stream", func() bool { return p.Streams() > 0 })
	return p
}

// Answer sets the result of a method, or its error if the text begins with "error:".
func (p *Peer) Answer(method, text string) { p.Peer.Result(method, text) }

// Intercept lets a test respond to requests itself. Handle reports whether it has responded; if
// not, the peer does.
func (p *Peer) Intercept(handle func(w http.ResponseWriter, r *http.Request, call Call) bool) {
	p.Peer.Intercept(func(w http.ResponseWriter, r *upstreamtest.Request) bool {
		p.checkGet(r)
		return handle != nil && handle(w, r.Request, callOf(r))
	})
}

// OnGet is [Peer.Intercept] for gets.
func (p *Peer) OnGet(handle func(w http.ResponseWriter, r *http.Request, call Call) bool) {
	p.Intercept(func(w http.ResponseWriter, r *http.Request, call Call) bool {
		return call.Method == "prompts/get" && handle(w, r, call)
	})
}

// PauseGets makes each get wait until release is called, or its caller has gone. Entered has an
// element for each get that waits.
func (p *Peer) PauseGets() (entered <-chan struct{}, release func()) {
	waiting, released := make(chan struct{}, 1000), make(chan struct{})
	p.OnGet(func(_ http.ResponseWriter, r *http.Request, _ Call) bool {
		waiting <- struct{}{}
		select {
		case <-released:
		case <-r.Context().Done():
		}
		return false
	})
	release = sync.OnceFunc(func() { close(released) })
	p.TB.Cleanup(release)
	return waiting, release
}

// HoldGets makes each get wait until its caller has gone. Entered has an element for each get that
// waits, and gone for each whose caller has gone.
func (p *Peer) HoldGets() (entered, gone chan struct{}) {
	entered, gone = make(chan struct{}, 10), make(chan struct{}, 10)
	p.OnGet(func(_ http.ResponseWriter, r *http.Request, _ Call) bool {
		entered <- struct{}{}
		<-r.Context().Done()
		gone <- struct{}{}
		return true
	})
	return entered, gone
}

// Calls returns the requests and notifications of a method in the order of their arrival. Those of
// the method "" are replies.
func (p *Peer) Calls(method string) []Call {
	requests := p.Replies()
	if method != "" {
		requests = p.Seen(method)
	}
	var calls []Call
	for _, r := range requests {
		calls = append(calls, callOf(r))
	}
	return calls
}

func callOf(r *upstreamtest.Request) Call {
	m := r.Message
	return Call{
		json.RawMessage(m.ID), m.Method, json.RawMessage(m.Params), json.RawMessage(m.Result), json.RawMessage(m.Error), r.Header,
	}
}

// Forget forgets the calls so far.
func (p *Peer) Forget() { p.ForgetSeen() }

// checkGet checks a get or a completion of the gateway with its schema. It leaves out gets with
// arguments that are not strings: no revision allows them, and they are passed on as the client sent
// them.
func (p *Peer) checkGet(r *upstreamtest.Request) {
	method := r.Message.Method
	if method != "prompts/get" && method != "completion/complete" {
		return
	}
	var params struct{ Arguments map[string]json.RawMessage }
	if json.Unmarshal(r.Message.Params, &params) == nil {
		for _, value := range params.Arguments {
			if value[0] != '"' {
				return
			}
		}
	}
	revision := "2025-11-25"
	if p.modern {
		revision = Latest
	}
	CheckSchema(p.TB, revision, "", string(r.Body))
}

// Respond sends a result, or an error if the text begins with "error:".
func (p *Peer) Respond(w http.ResponseWriter, call Call, text string) {
	r := upstreamtest.Request{Message: wire.Message{ID: jsontext.Value(call.ID)}}
	r.Result(w, text)
}
