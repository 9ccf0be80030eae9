package gateway_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestGetGoesToTheOwnerUnderTheOwnersName(t *testing.T) {
	reviews, wiki := newPeer(t, "reviews", "code"), newModernPeer(t, "wiki", "code", "grüße an alle")
	s := serve(t, team("eng", "", "", reviews, wiki))
	for _, revision := range append([]string{latest}, legacyRevisions...) {
		c := s.modern("")
		if revision != latest {
			c = s.legacy(revision, "")
		}
		c.call("prompts/get", get("reviews.code")).is(t, http.StatusOK, "from reviews")
		c.call("prompts/get", get("wiki.code")).is(t, http.StatusOK, "from wiki")
		c.call("prompts/get", get("code")).is(t, http.StatusOK, `"code":-32602`, `Unknown prompt: code`)
		c.call("completion/complete", complete("wiki.code")).is(t, http.StatusOK, "from wiki")
	}
	s.modern("").callAs("1", "prompts/get", get("wiki.grüße an alle"), "Mcp-Name", "=?base64?d2lraS5ncsO8w59lIGFuIGFsbGU=?=").is(t, http.StatusOK, "from wiki")
	calls := wiki.heard("prompts/get")
	last := calls[len(calls)-1]
	if got := string(last.Params); !strings.HasPrefix(got, `{"name":"grüße an alle"`) {
		t.Errorf("the owner got %s, want its own name", got)
	}
	if got := last.header.Get("Mcp-Name"); got != "=?base64?Z3LDvMOfZSBhbiBhbGxl?=" {
		t.Errorf("the owner got Mcp-Name %q", got)
	}
}

// odd has whatever JSON readers are tempted to change.
const odd = `"big":12345678901234567890,"half":2.50,"e":1e3,"esc":"\u00e9\/\u2028","nul":null,"o":{"b":1,"a":[]},"io.example/x":{"y":[1.0]}`

func TestNothingIsLost(t *testing.T) {
	definition := `{"title":"T","name":"a","icons":[{"src":"https://x/y.png","sizes":["1x1"]}],` + odd + `,"arguments":[{"name":"n","schema":{"type":"integer","maximum":9007199254740993}}],"_meta":{"k":1e3}}`
	result := `{"messages":[{"role":"user","content":{"type":"hologram",` + odd + `},"annotations":{"priority":0.10}}],"description":"\u0041",` + odd + `,"_meta":{"k":2.50}}`
	p := newPeer(t, "p", definition)
	p.answer("prompts/get", result)
	s := serve(t, team("eng", "", "", p))
	exposed := strings.Replace(definition, `"name":"a"`, `"name":"p.a"`, 1)
	for _, c := range []*client{s.modern(""), s.legacy("2025-11-25", "")} {
		c.call("prompts/list", "").is(t, http.StatusOK, exposed)
	}
	legacy := s.legacy("2025-11-25", "")
	legacy.callRaw("prompts/get", get("p.a")).is(t, http.StatusOK, `"result":`+result)
	// To the modern era, what belongs to it is added and everything else stays.
	s.modern("").callRaw("prompts/get", get("p.a")).is(t, http.StatusOK,
		`"result":`+strings.Replace(result, `"_meta":{"k":2.50}}`, `"_meta":{"k":2.50,"io.modelcontextprotocol/serverInfo":{"name":"promptweir","version":"1.2.3"}},"resultType":"complete"}`, 1))

	params := `{"includeContext":true,` + odd + `,"name":"p.a","arguments":{"n":9007199254740993,"h":2.50,"m":1e3},"_meta":{"k":1e3,"progressToken":7}}`
	legacy.callRaw("prompts/get", params)
	calls := p.heard("prompts/get")
	want := strings.Replace(strings.Replace(params, `"name":"p.a"`, `"name":"a"`, 1), `"progressToken":7`, `"progressToken":`+string(calls[len(calls)-1].ID), 1) // the gateway's own
	if diff := cmp.Diff(want, string(calls[len(calls)-1].Params)); diff != "" {
		t.Errorf("params on the way up (-want +got):\n%s", diff)
	}
	for _, params := range []string{`{"name":"p.a"}`, `{"name":"p.a","arguments":{}}`} {
		legacy.callRaw("prompts/get", params)
		calls := p.heard("prompts/get")
		if diff := cmp.Diff(strings.Replace(params, "p.a", "a", 1), string(calls[len(calls)-1].Params)); diff != "" {
			t.Errorf("params on the way up (-want +got):\n%s", diff)
		}
	}
	p.answer("completion/complete", `{"completion":{"values":["x"],"total":1e0,"hasMore":false},`+odd+`}`)
	legacy.callRaw("completion/complete", `{"argument":{"name":"n","value":"\u0041"},"context":{"arguments":{"q":"\/"}},"ref":{"x":1.0,"name":"p.a","type":"ref/prompt"}}`).
		is(t, http.StatusOK, `"result":{"completion":{"values":["x"],"total":1e0,"hasMore":false},`+odd+`}`)
	if diff := cmp.Diff(`{"argument":{"name":"n","value":"\u0041"},"context":{"arguments":{"q":"\/"}},"ref":{"x":1.0,"name":"a","type":"ref/prompt"}}`, string(p.heard("completion/complete")[0].Params)); diff != "" {
		t.Errorf("params on the way up (-want +got):\n%s", diff)
	}
}

func TestIDsComeBackAsTheyWere(t *testing.T) {
	s := serve(t, team("eng", "", "", newPeer(t, "p", "a")))
	for _, c := range []*client{s.modern(""), s.legacy("2025-06-18", "")} {
		for _, id := range []string{`0`, `-1`, `1.5`, `1e3`, `9007199254740993`, `12345678901234567890`, `""`, `"a\u0062\/\"é"`} {
			for method, params := range map[string]string{"prompts/list": "", "prompts/get": get("p.a"), "completion/complete": complete("none"), "no/such": ""} {
				body, h := c.envelope(id, method, params)
				if got := send(t, http.MethodPost, c.url, body, h); !strings.HasPrefix(got.body, `{"jsonrpc":"2.0","id":`+id+`,`) {
					t.Errorf("%s with id %s: %s", method, id, got.body)
				}
			}
		}
	}
}

func TestErrorsOfUpstreamsPassAsTheyAre(t *testing.T) {
	p := newPeer(t, "p", "a")
	s := serve(t, team("eng", "", "", p))
	for _, failure := range []string{
		`{"code":-32001,"message":"no such \u0041","data":{"n":12345678901234567890,"h":2.50}}`,
		`{"code":0,"message":"","data":null}`,
		`{"message":"first","code":-32601,"extra":1e3}`,
		`{"code":-32020,"message":"its own headers"}`,
	} {
		p.answer("prompts/get", "error:"+failure)
		for _, c := range []*client{s.modern(""), s.legacy("2025-11-25", "")} {
			c.call("prompts/get", get("p.a")).is(t, http.StatusOK, `,"error":`+failure+`}`)
		}
	}
	p.answer("prompts/get", `"text"`)
	s.modern("").call("prompts/get", get("p.a")).is(t, http.StatusOK, `"code":-32603`, `"reason":"bad_response"`)
	p.answer("prompts/get", `{"resultType":"input_required","inputRequests":{}}`)
	s.modern("").call("prompts/get", get("p.a")).is(t, http.StatusOK, `"code":-32603`)
}

func TestAnotherOwnerAnswersWhereOneDoesNot(t *testing.T) {
	one, two := newPeer(t, "one", "a"), newPeer(t, "two", "a")
	one.settings, two.settings = `prefix = "same"`, `prefix = "same"`
	s := serve(t, team("eng", "", "", one, two))
	c := s.modern("")
	if diff := cmp.Diff([]string{"same.a"}, c.list()); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	c.call("prompts/get", get("same.a")).is(t, http.StatusOK, "from one")
	one.stop()
	c.call("prompts/get", get("same.a")).is(t, http.StatusOK, "from two")
	c.call("completion/complete", complete("same.a")).is(t, http.StatusOK, "from two")
	one.restart()
	one.watched() // until then, calls may still find the session that is about to be given up for what failed before
	eventually(t, "the first is the first again", func() bool {
		return strings.Contains(c.call("prompts/get", get("same.a")).body, "from one")
	})
	one.answer("prompts/get", `error:{"code":-32001,"message":"no"}`) // an answer, if not a nice one
	c.call("prompts/get", get("same.a")).is(t, http.StatusOK, `"code":-32001`)
}

func TestCompletion(t *testing.T) {
	with, without, lies := newPeer(t, "with", "a"), newPeer(t, "without", "a"), newPeer(t, "lies", "a")
	without.capabilities = `{"prompts":{}}`
	lies.answer("completion/complete", `error:{"code":-32601,"message":"Method not found"}`)
	s := serve(t, team("eng", "", "", with, without, lies))
	for _, c := range []*client{s.modern(""), s.legacy("2025-03-26", "")} {
		c.call("completion/complete", complete("with.a")).is(t, http.StatusOK, `"values":["from with"]`)
		c.call("completion/complete", complete("without.a")).is(t, http.StatusOK, `"completion":{"values":[]}`)
		c.call("completion/complete", complete("lies.a")).is(t, http.StatusOK, `"completion":{"values":[]}`)
		c.call("completion/complete", complete("with.b")).is(t, http.StatusOK, `"code":-32602`, "Unknown prompt: with.b")
		for _, ref := range []string{`{"type":"ref/resource","uri":"x"}`, `{"type":"ref/none","name":"with.a"}`, `{"type":"ref/prompt"}`, `7`} {
			c.callRaw("completion/complete", `{"ref":`+ref+`,"argument":{"name":"a","value":""}}`).is(t, http.StatusOK, `"code":-32602`)
		}
	}
	if n := len(without.heard("completion/complete")); n != 0 {
		t.Errorf("an upstream without completions was asked %d times", n)
	}
}

// hold makes a peer's get wait until the caller has gone; entered says when one waits, gone when its caller has gone.
func hold(p *peer) (entered, gone chan struct{}) {
	entered, gone = make(chan struct{}, 10), make(chan struct{}, 10)
	p.intercept(func(_ http.ResponseWriter, r *http.Request, call heard) bool {
		if call.Method != "prompts/get" {
			return false
		}
		entered <- struct{}{}
		<-r.Context().Done()
		gone <- struct{}{}
		return true
	})
	return entered, gone
}

func TestWhoGoesCancelsUpstream(t *testing.T) {
	for _, p := range []*peer{newPeer(t, "p", "a"), newModernPeer(t, "p", "a")} {
		p.settings = `timeout = "60s"`
		s := serve(t, team("eng", "", "", p))
		entered, gone := hold(p)
		for _, c := range []*client{s.modern(""), s.legacy("2025-11-25", "")} {
			body, h := c.envelope("1", "prompts/get", get("p.a"))
			ctx, cancel := context.WithCancel(t.Context())
			over := make(chan struct{})
			go func() {
				defer close(over)
				response, err := http.DefaultClient.Do(newHTTPRequest(ctx, t, http.MethodPost, c.url, body, h))
				if err == nil {
					_ = response.Body.Close()
				}
			}()
			<-entered
			cancel()
			<-over
			<-gone
		}
		// In the legacy era a client may also say so, and keep its connection.
		c := s.legacy("2025-06-18", "")
		body, h := c.envelope(`"x"`, "prompts/get", get("p.a"))
		answered := make(chan answer)
		go func() { answered <- send(t, http.MethodPost, c.url, body, h) }()
		<-entered
		send(t, http.MethodPost, s.url, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"x"}}`, s.legacy("2025-06-18", "").headers)
		select {
		case <-gone:
			t.Error("another session's notification cancelled the request")
		default:
		}
		send(t, http.MethodPost, s.url, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"x"}}`, c.headers).is(t, http.StatusAccepted)
		<-gone
		(<-answered).is(t, http.StatusOK, `"id":"x"`, `cancelled`)
		if p.modern {
			continue
		}
		eventually(t, "the upstream was told", func() bool { return len(p.heard("notifications/cancelled")) == 3 })
	}
}

func TestManyGetsAtOnceKeepApart(t *testing.T) {
	p := newPeer(t, "p", "a")
	s := serve(t, team("eng", "", "", p))
	p.intercept(func(w http.ResponseWriter, _ *http.Request, call heard) bool {
		if call.Method != "prompts/get" {
			return false
		}
		p.respond(w, call, `{"messages":[],"echo":`+string(call.Params)+`}`)
		return true
	})
	c := s.legacy("2025-11-25", "")
	done := make(chan error, 8)
	for worker := range 8 {
		go func() {
			for i := range 50 {
				mark := fmt.Sprintf(`"mark-%d-%d-%s"`, worker, i, strings.Repeat("x", worker*300))
				body, h := c.envelope(mark, "prompts/get", `{"name":"p.a","arguments":{"m":`+mark+`}}`)
				got := send(t, http.MethodPost, c.url, body, h)
				want := `{"jsonrpc":"2.0","id":` + mark + `,"result":{"messages":[],"echo":{"name":"a","arguments":{"m":` + mark + `}}}}`
				if got.body != want {
					done <- fmt.Errorf("got %.99s…, want %.99s…", got.body, want)
					return
				}
			}
			done <- nil
		}()
	}
	for range 8 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
