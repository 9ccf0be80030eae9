package gatewaytest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// InputRequests are the requests for input of a [NewInputRequiredPeer].
const InputRequests = `{"who":{"method":"elicitation/create","params":{"mode":"form","message":"Who?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}}}}}`

// NewInputRequiredPeer starts a modern peer "up" whose prompts require input, with a requestState
// unless that is "".
func NewInputRequiredPeer(tb testing.TB, state string) *Peer {
	tb.Helper()
	p := NewModernPeer(tb, "up", "ask", "other")
	p.OnGet(func(w http.ResponseWriter, _ *http.Request, call Call) bool {
		var params struct{ InputResponses json.RawMessage }
		if err := json.Unmarshal(call.Params, &params); err != nil {
			tb.Error(err)
		}
		result := `{"resultType":"complete","messages":[]}`
		if params.InputResponses == nil {
			result = `{"resultType":"input_required","x":2.50,"inputRequests":` + InputRequests
			if state != "" {
				result += `,"requestState":` + state
			}
			result += "}"
		}
		p.Respond(w, call, result)
		return true
	})
	return p
}

// Damaged returns a token with another character in its middle.
func Damaged(token string) string {
	at, other := len(token)/2, "A"
	if token[at] == 'A' {
		other = "B"
	}
	return token[:at] + other + token[at+1:]
}

// RetryParams returns the params of a get that is repeated with input, and with more as further
// members.
func RetryParams(name, state, more string) string {
	return fmt.Sprintf(`{"name":%q,"requestState":%q,"inputResponses":{"who":{"action":"accept","content":{"name":"x"}}}%s}`, name, state, more)
}

// FormElicitation, URLElicitation and RootsRequest are server requests for a [RequestingPeer].
const (
	FormElicitation = `elicitation/create {"message":"Who?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}},"x":2.50}`
	URLElicitation  = `elicitation/create {"mode":"url","message":"Go","url":"https://example.com/","elicitationId":"e1"}`
	RootsRequest    = `roots/list {}`
)

// RequestingPeer is a legacy peer that sends server requests during a get or a read, on its own
// stream and one after another. Its result has the replies.
type RequestingPeer struct {
	*Peer

	requests []string // methods and params

	mu        sync.Mutex // guards the fields below
	replies   map[string]chan string
	count     int
	abandoned int
}

// NewRequestingPeer starts a peer "up" whose prompt is "ask".
func NewRequestingPeer(tb testing.TB, requests ...string) *RequestingPeer {
	tb.Helper()
	p := &RequestingPeer{Peer: NewPeer(tb, "up", "ask"), requests: requests, replies: map[string]chan string{}}
	p.Intercept(p.handle)
	return p
}

// AbandonedGets returns the number of gets that the gateway gave up.
func (p *RequestingPeer) AbandonedGets() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.abandoned
}

func (p *RequestingPeer) handle(w http.ResponseWriter, r *http.Request, call Call) bool {
	switch call.Method {
	case "": // a reply
		p.mu.Lock()
		defer p.mu.Unlock()
		if reply := p.replies[strings.Trim(string(call.ID), `"`)]; reply != nil {
			reply <- string(call.Result) + string(call.Error)
		}
		w.WriteHeader(http.StatusAccepted)
		return true
	case "prompts/get", "resources/read":
		p.serveGet(w, r, call)
		return true
	}
	return false
}

func (p *RequestingPeer) serveGet(w http.ResponseWriter, r *http.Request, call Call) {
	send := func(format string, args ...any) {
		fmt.Fprintf(w, "data: "+format+"\n\n", args...)
		_ = http.NewResponseController(w).Flush() // an error means that the gateway has gone
	}
	w.Header().Set("Content-Type", "text/event-stream")
	replies := []string{}
	for _, request := range p.requests {
		method, params, _ := strings.Cut(request, " ")
		reply := make(chan string, 1)
		p.mu.Lock()
		p.count++
		id := fmt.Sprint("q", p.count)
		p.replies[id] = reply
		p.mu.Unlock()
		send(`{"jsonrpc":"2.0","id":%q,"method":%q,"params":%s}`, id, method, params)
		const ended = "has ended" // the gateway's error has these words as well, if it arrives first
		text := ended
		select {
		case text = <-reply:
		case <-r.Context().Done():
		}
		if strings.Contains(text, ended) {
			p.mu.Lock()
			p.abandoned++
			p.mu.Unlock()
			return
		}
		replies = append(replies, text)
		if id := elicitationID(params); id != "" {
			send(`{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":%q}}`, id)
		}
	}
	text, _ := json.Marshal(strings.Join(replies, " ")) // a string
	result := `"messages":[{"role":"user","content":{"type":"text","text":%s}}]`
	if call.Method == "resources/read" {
		result = `"contents":[{"uri":"memo:asked","text":%s}]`
	}
	send(`{"jsonrpc":"2.0","id":%s,"result":{`+result+`}}`, call.ID, text)
}

// elicitationID returns the id of an elicitation by URL, or "".
func elicitationID(params string) string {
	var p struct{ ElicitationID string }
	_ = json.Unmarshal([]byte(params), &p) // the test's own constants
	return p.ElicitationID
}
