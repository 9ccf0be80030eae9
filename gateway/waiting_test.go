package gateway_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// legacyAsker is a legacy peer that asks its caller, on the get's own stream, the questions that it is told to ask, one
// after another, and answers with the answers.
type legacyAsker struct {
	*peer
	questions []string // method and params

	mu      sync.Mutex // guards what follows
	waiting map[string]chan string
	count   int
	given   int // gets that were given up
}

func newLegacyAsker(t *testing.T, questions ...string) *legacyAsker {
	a := &legacyAsker{peer: newPeer(t, "up", "ask"), questions: questions, waiting: map[string]chan string{}}
	a.intercept(a.handle)
	return a
}

func (a *legacyAsker) handle(w http.ResponseWriter, r *http.Request, call heard) bool {
	switch call.Method {
	case "": // an answer
		a.mu.Lock()
		defer a.mu.Unlock()
		if waiting := a.waiting[strings.Trim(string(call.ID), `"`)]; waiting != nil {
			waiting <- string(call.Result) + string(call.Error)
		}
		w.WriteHeader(http.StatusAccepted)
		return true
	case "prompts/get":
		a.ask(w, r, call)
		return true
	}
	return false
}

func (a *legacyAsker) ask(w http.ResponseWriter, r *http.Request, call heard) {
	say := func(format string, args ...any) {
		fmt.Fprintf(w, "data: "+format+"\n\n", args...)
		_ = http.NewResponseController(w).Flush() // the gateway has gone
	}
	w.Header().Set("Content-Type", "text/event-stream")
	answers := []string{}
	for _, question := range a.questions {
		method, params, _ := strings.Cut(question, " ")
		answer := make(chan string, 1)
		a.mu.Lock()
		a.count++
		id := fmt.Sprint("q", a.count)
		a.waiting[id] = answer
		a.mu.Unlock()
		say(`{"jsonrpc":"2.0","id":%q,"method":%q,"params":%s}`, id, method, params)
		text := "has ended"
		select {
		case text = <-answer:
		case <-r.Context().Done():
		}
		if strings.Contains(text, "has ended") { // whichever of the two comes first
			a.mu.Lock()
			a.given++
			a.mu.Unlock()
			return
		}
		answers = append(answers, text)
		if elicitation := urlElicitation(params); elicitation != "" {
			say(`{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":%q}}`, elicitation)
		}
	}
	text, _ := json.Marshal(strings.Join(answers, " "))
	say(`{"jsonrpc":"2.0","id":%s,"result":{"messages":[{"role":"user","content":{"type":"text","text":%s}}]}}`, call.ID, text)
}

func urlElicitation(params string) string {
	var p struct{ ElicitationID string }
	_ = json.Unmarshal([]byte(params), &p) // they are written below
	return p.ElicitationID
}

func (a *legacyAsker) givenUp() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.given
}

const (
	formQuestion = `elicitation/create {"message":"Who?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}},"x":2.50}`
	urlQuestion  = `elicitation/create {"mode":"url","message":"Go","url":"https://example.com/","elicitationId":"e1"}`
	rootsAsked   = `roots/list {}`
)

// answerKeys are the keys of an answer's inputRequests, each with the answer.
func (a answer) responses(t *testing.T, value string) string {
	t.Helper()
	var requests map[string]struct{ Method string }
	if err := json.Unmarshal(a.result(t, "inputRequests"), &requests); err != nil {
		t.Fatalf("no inputRequests: %s", a.body)
	}
	responses := map[string]json.RawMessage{}
	for key := range requests {
		responses[key] = json.RawMessage(value)
	}
	text, _ := json.Marshal(responses)
	return string(text)
}

func resumed(state, responses string) string {
	return fmt.Sprintf(`{"name":"up.ask","requestState":%q,"inputResponses":%s}`, state, responses)
}

func TestAModernClientAnswersALegacyServer(t *testing.T) {
	p := newLegacyAsker(t, formQuestion, rootsAsked)
	s := serve(t, team("a", "", "", p.peer))
	call := s.capable("", `{"elicitation":{},"roots":{"listChanged":true}}`)
	first := call("prompts/get", get("up.ask"))
	first.is(t, 200, `"resultType":"input_required"`, `"method":"elicitation/create"`, `"x":2.50`)
	conform(t, latest, "prompts/get", first.body)
	again := call("prompts/get", resumed(first.state(t), `{}`)) // what was left unanswered is asked again
	again.is(t, 200, `"resultType":"input_required"`, `"method":"elicitation/create"`)
	second := call("prompts/get", resumed(again.state(t), again.responses(t, `{"action":"accept","content":{"name":"\u0041"}}`)))
	second.is(t, 200, `"resultType":"input_required"`, `"method":"roots/list"`)
	last := call("prompts/get", resumed(second.state(t), second.responses(t, `{"roots":[]}`)))
	last.is(t, 200, `"resultType":"complete"`, `\\u0041`, `roots`)
	conform(t, latest, "prompts/get", last.body)
	if n := len(p.heard("prompts/get")); n != 1 {
		t.Errorf("the server was asked %d times", n)
	}
	for _, initialize := range p.heard("initialize")[1:] {
		if !strings.Contains(string(initialize.Params), `"capabilities":{"elicitation":{},"roots":{}}`) {
			t.Errorf("the server learns %s", initialize.Params)
		}
	}
}

func TestAWaitingCallGoesOnForWhomItAskedOnly(t *testing.T) {
	p := newLegacyAsker(t, formQuestion)
	text := "gateway { cursor_keys = [\"%KEY%\"] }\nauth {\n" + token("ann") + token("bob") + "}\n" + team("a", `"user:ann", "user:bob"`, "", p.peer)
	s, elsewhere := serve(t, text), serve(t, text)
	ann, bob := s.capable("ann", `{"elicitation":{}}`), s.capable("bob", `{"elicitation":{}}`)
	refused := func(what string, a answer) {
		t.Helper()
		if a.is(t, 200, `"code":-32602`, `"reason":"state"`, "repeat the get"); t.Failed() {
			t.Errorf("%s is not refused", what)
		}
	}
	asked := ann("prompts/get", get("up.ask"))
	state, responses := asked.state(t), asked.responses(t, `{"action":"accept","content":{"name":"ann"}}`)
	refused("another caller", bob("prompts/get", resumed(state, responses)))
	refused("another replica", elsewhere.capable("ann", `{"elicitation":{}}`)("prompts/get", resumed(state, responses)))
	refused("a damaged state", ann("prompts/get", resumed(state[:len(state)-3]+"AAA", responses)))
	refused("other arguments", ann("prompts/get", strings.Replace(resumed(state, responses), `{"name"`, `{"arguments":{"a":"b"},"name"`, 1)))
	ann("prompts/get", resumed(state, `{"1":"text"}`)).is(t, 200, `"code":-32602`)
	ann("prompts/get", resumed(state, responses)).is(t, 200, `"resultType":"complete"`, `ann`)
	refused("a second time", ann("prompts/get", resumed(state, responses)))
}

// One who leaves questions unanswered keeps a server on which calls take turns from asking again in the same name, and
// from nobody else.
func TestNobodyHoldsAServerByNotAnswering(t *testing.T) {
	text := curiousUpstream(t, "stdio-legacy", "timeout = \"2s\"")
	s := serve(t, "auth {\n"+token("ann")+token("bob")+"}\n"+team("a", `"user:ann", "user:bob"`, text))
	ann, bob := s.capable("ann", `{"elicitation":{}}`), s.capable("bob", `{"elicitation":{}}`)
	const elicit = `{"name":"stdio-legacy.elicit","arguments":{"who":"x"}}`
	for i := range 3 {
		a := ann("prompts/get", elicit)
		if asked := strings.Contains(a.body, `"input_required"`); asked != (i < 2) {
			t.Errorf("ann's get %d: %s", i, a.body)
		}
	}
	bob("prompts/get", elicit).is(t, 200, `"input_required"`)
}

func TestAWaitingCallEndsWithTheGateway(t *testing.T) {
	p := newLegacyAsker(t, formQuestion)
	s := serve(t, team("a", "", "", p.peer))
	call := s.capable("", `{"elicitation":{}}`)
	asked := call("prompts/get", get("up.ask"))
	s.stop()
	call("prompts/get", resumed(asked.state(t), asked.responses(t, `{"action":"decline"}`))).is(t, 200, `"error"`)
	eventually(t, "the call is given up", func() bool { return p.givenUp() == 1 })
}

func TestACallWhoseQuestionsAreRejectedIsLetGoOf(t *testing.T) {
	p := newLegacyAsker(t, formQuestion)
	s := serve(t, team("a", "", `screen "short" { max_size = 150 }`, p.peer)) // the question alone would fit
	s.capable("", `{"elicitation":{}}`)("prompts/get", get("up.ask")).is(t, 200, `"reason":"screened"`, `"check":"size"`)
	eventually(t, "the call is given up", func() bool { return p.givenUp() == 1 })
}

// able returns a legacy client that has initialized a session with capabilities.
func (s *server) able(revision, token, capabilities string) *client {
	s.t.Helper()
	c := &client{server: s, t: s.t, revision: revision, headers: bearer(token)}
	a := c.call("initialize", strings.Replace(initializeParams(revision), `"capabilities":{}`, `"capabilities":`+capabilities, 1))
	a.is(s.t, http.StatusOK)
	c.headers = append(c.headers, "Mcp-Session-Id", a.header.Get("Mcp-Session-Id"), "Mcp-Protocol-Version", revision)
	return c
}

// begin makes a get whose response is expected to be a stream.
func (c *client) begin(id, params string) *stream {
	c.t.Helper()
	body, h := c.envelope(id, "prompts/get", params)
	return c.openWith(http.MethodPost, body, h)
}

// elicitation reads a message of a stream as a question, and returns its id.
func (s *stream) elicitation(revision string) (id string) {
	s.t.Helper()
	data := s.next().Data
	var message struct {
		ID     json.RawMessage
		Method string
	}
	if err := json.Unmarshal([]byte(data), &message); err != nil || message.Method != "elicitation/create" || message.ID == nil {
		s.t.Fatalf("got %s, want a question", data)
	}
	conform(s.t, revision, "elicitation/create", data)
	return string(message.ID)
}

// reply answers a question in a POST of its own.
func (c *client) reply(id, result string) {
	c.t.Helper()
	send(c.t, http.MethodPost, c.url, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result), c.headers).is(c.t, http.StatusAccepted)
}

func TestAnAnswerCountsFromTheSessionThatWasAskedOnly(t *testing.T) {
	p := newLegacyAsker(t, formQuestion)
	s := serve(t, "auth {\n"+token("ann")+token("bob")+"}\n"+team("a", `"user:ann", "user:bob"`, "", p.peer))
	ann, bob := s.able("2025-11-25", "ann", `{"elicitation":{}}`), s.able("2025-11-25", "bob", `{"elicitation":{}}`)
	twin := s.able("2025-11-25", "ann", `{"elicitation":{}}`)
	asked := ann.begin("7", get("up.ask"))
	id := asked.elicitation("2025-11-25")
	bob.reply(id, `{"action":"accept","content":{"name":"bob"}}`)
	twin.reply(id, `{"action":"accept","content":{"name":"twin"}}`)
	stolen := append(bearer("bob"), ann.headers[2:]...)
	send(t, http.MethodPost, s.url, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"cancel"}}`, id), stolen).is(t, http.StatusNotFound)
	asked.silent()
	ann.reply(id, `{"action":"accept","content":{"name":"ann"}}`)
	ann.reply(id, `{"action":"accept","content":{"name":"later"}}`)
	data := asked.next().Data
	conform(t, "2025-11-25", "prompts/get", data)
	if !strings.Contains(data, `"id":7`) || !strings.Contains(data, "ann") || strings.Contains(data, "later") {
		t.Errorf("got %s", data)
	}
	asked.ended()
}

func TestARefusalOfTheClientsReachesTheServer(t *testing.T) {
	p := newLegacyAsker(t, formQuestion)
	s := serve(t, team("a", "", "", p.peer))
	c := s.able("2025-06-18", "", `{"elicitation":{}}`)
	asked := c.begin("7", get("up.ask"))
	id := asked.elicitation("2025-06-18")
	send(t, http.MethodPost, c.url, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-1,"message":"not now","data":2.50}}`, id), c.headers).is(t, http.StatusAccepted)
	if data := asked.next().Data; !strings.Contains(data, `not now`) || !strings.Contains(data, `2.50`) {
		t.Errorf("got %s", data)
	}
}

func TestElicitationByURL(t *testing.T) {
	p := newLegacyAsker(t, urlQuestion)
	s := serve(t, team("a", "", "", p.peer))
	form := s.able("2025-11-25", "", `{"elicitation":{}}`) // by form only
	if refused := form.callRaw("prompts/get", get("up.ask")); strings.Contains(refused.body, "elicitation/c") {
		t.Errorf("got %s", refused.body)
	} else {
		refused.is(t, 200, `-32602`)
	}
	c := s.able("2025-11-25", "", `{"elicitation":{"url":{}}}`)
	asked := c.begin("7", get("up.ask"))
	c.reply(asked.elicitation("2025-11-25"), `{"action":"accept"}`)
	if data := asked.next().Data; !strings.Contains(data, `"notifications/elicitation/complete","params":{"elicitationId":"e1"}`) {
		t.Errorf("got %s", data)
	}
	asked.next()

	modern := asker(t, "")
	modern.intercept(func(w http.ResponseWriter, _ *http.Request, call heard) bool {
		result := `{"resultType":"complete","messages":[]}`
		if !strings.Contains(string(call.Params), "inputResponses") {
			result = `{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"mode":"url","message":"m","url":"https://example.com/"}}}}`
		}
		if call.Method == "prompts/get" {
			modern.respond(w, call, result)
		}
		return call.Method == "prompts/get"
	})
	s = serve(t, team("a", "", "", modern))
	c = s.able("2025-11-25", "", `{"elicitation":{"url":{}}}`)
	asked = c.begin("8", get("up.ask"))
	c.reply(asked.elicitation("2025-11-25"), `{"action":"accept"}`) // with the id that the schema wants
	if data := asked.next().Data; !strings.Contains(data, `"messages":[]`) {
		t.Errorf("got %s", data)
	}
}

func TestALegacyClientAnswersAModernServer(t *testing.T) {
	p := asker(t, `"\u0041 <b> \/"`)
	s := serve(t, team("a", "", "", p))
	c := s.able("2025-06-18", "", `{"elicitation":{}}`)
	asked := c.begin("7", get("up.ask"))
	c.reply(asked.elicitation("2025-06-18"), `{"action":"accept","content":{"name":"x"}}`)
	data := asked.next().Data
	conform(t, "2025-06-18", "prompts/get", data)
	if strings.Contains(data, "resultType") {
		t.Errorf("got %s", data)
	}
	gets := p.heard("prompts/get")
	for _, part := range []string{`"inputResponses":{"who":{"action":"accept","content":{"name":"x"}}}`, `"requestState":"\u0041 <b> \/"`} {
		if got := string(gets[len(gets)-1].Params); !strings.Contains(got, part) {
			t.Errorf("the server gets %s, want %s in it", got, part)
		}
	}
	s.able("2025-06-18", "", `{}`).call("prompts/get", get("up.ask")).is(t, 200, `-32021`, `{"elicitation":{"form":{}}}`)

	p.answer("prompts/get", `{"resultType":"input_required","inputRequests":`+question+`}`)
	p.intercept(nil)
	asked = c.begin("8", get("up.ask"))
	for range 8 {
		c.reply(asked.elicitation("2025-06-18"), `{"action":"decline"}`)
	}
	if data := asked.next().Data; !strings.Contains(data, `"code":-32603`) || !strings.Contains(data, "again and again") {
		t.Errorf("got %s", data)
	}
}

func TestAQuestionEndsWithItsClient(t *testing.T) {
	p := newLegacyAsker(t, formQuestion)
	s := serve(t, team("a", "", "", p.peer))
	given := 0
	gone := func(how string, answered bool) {
		t.Helper()
		if !answered {
			given++
		}
		eventually(t, how+": the get is given up", func() bool { return p.givenUp() == given })
	}

	c := s.able("2025-11-25", "", `{"elicitation":{}}`)
	asked := c.begin("7", get("up.ask"))
	id := asked.elicitation("2025-11-25")
	send(t, http.MethodPost, c.url, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`, c.headers).is(t, http.StatusAccepted)
	if data := asked.next().Data; !strings.Contains(data, `"notifications/cancelled"`) || !strings.Contains(data, id) {
		t.Errorf("got %s, want the question %s taken back", data, id)
	}
	gone("cancel", false)

	asked = c.begin("8", get("up.ask"))
	asked.elicitation("2025-11-25")
	asked.close()
	gone("the stream is closed", false)

	asked = c.begin("9", get("up.ask"))
	asked.elicitation("2025-11-25")
	send(t, http.MethodDelete, c.url, "", c.headers).is(t, http.StatusNoContent)
	if data := asked.next().Data; !strings.Contains(data, `"result"`) { // the server was told that there is no answer
		t.Errorf("got %s", data)
	}

	pipes := s.stdio("")
	pipes.request(`1`, "initialize", `"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}}`)
	pipes.next()
	pipes.request(`2`, "prompts/get", `"name":"up.ask"`)
	pipes.expect(`"elicitation/create"`)
	_ = pipes.in.Close()
	pipes.over()

	modern := s.capable("", `{"elicitation":{}}`)
	modern("prompts/get", get("up.ask")).is(t, 200, "input_required") // and never comes back
}

func TestAServerTakesItsQuestionBack(t *testing.T) {
	p := newPeer(t, "up", "ask")
	arrived := make(chan struct{}, 3)
	p.intercept(func(w http.ResponseWriter, _ *http.Request, call heard) bool {
		if call.Method != "prompts/get" {
			return false
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for _, message := range []string{
			`{"jsonrpc":"2.0","id":"q","method":"roots/list"}`,
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"q"}}`,
			`{"jsonrpc":"2.0","id":` + string(call.ID) + `,"result":{"messages":[]}}`,
		} {
			fmt.Fprintf(w, "data: %s\n\n", message)
			_ = http.NewResponseController(w).Flush() // noticed by the test
			<-arrived                                 // or the question is taken back before it is put
		}
		return true
	})
	s := serve(t, team("a", "", "", p))
	c := s.able("2025-11-25", "", `{"roots":{}}`)
	asked := c.begin("7", get("up.ask"))
	for _, want := range []string{`"method":"roots/list"`, `"method":"notifications/cancelled"`, `"messages":[]`} {
		data := asked.next().Data
		if conform(t, "2025-11-25", "prompts/get", data); !strings.Contains(data, want) {
			t.Errorf("got %s, want %s in it", data, want)
		}
		arrived <- struct{}{}
	}
	for _, answer := range p.heard("") {
		t.Errorf("the server hears %s%s", answer.Result, answer.Error)
	}
}

func TestAClientThatIsNotAskedGetsPlainJSON(t *testing.T) {
	s := serve(t, team("a", "", "", newPeer(t, "up", "ask")))
	a := s.able("2025-11-25", "", `{"roots":{},"elicitation":{}}`).call("prompts/get", get("up.ask"))
	if a.is(t, 200, `"messages"`); a.header.Get("Content-Type") != "application/json" {
		t.Errorf("content type %s", a.header.Get("Content-Type"))
	}
}

func TestABatchIsNotAsked(t *testing.T) {
	p := newLegacyAsker(t, formQuestion)
	s := serve(t, team("a", "", "", p.peer))
	c := s.able("2025-03-26", "", `{"roots":{},"elicitation":{}}`)
	a := send(t, http.MethodPost, c.url, `[{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"up.ask"}},{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"loud"}}]`, c.headers)
	a.is(t, 200, `-32601`, `-32602`)
}

func TestLogLevels(t *testing.T) {
	p := newPeer(t, "p", "a")
	s := serve(t, team("a", "", "", p))
	for _, revision := range legacyRevisions {
		c := s.legacy(revision, "")
		c.call("logging/setLevel", `{"level":"notice"}`).is(t, 200, `"result":{}`)
		c.callRaw("logging/setLevel", `{"level":"loud"}`).is(t, 200, `"code":-32602`)
	}
	modern := s.modern("")
	level := func(level string) string {
		return `{"name":"p.a",` + strings.Replace(meta, `"_meta":{`, `"_meta":{"io.modelcontextprotocol/logLevel":`+level+`,`, 1) + `}`
	}
	modern.callRaw("prompts/get", level(`"debug"`)).is(t, 200, `"messages"`)
	modern.callRaw("prompts/get", level(`"loud"`)).is(t, 400, `"code":-32602`)
	modern.callRaw("prompts/get", level(`7`)).is(t, 400, `"code":-32602`)
}
