package requests_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

func TestGet_ReachesTheOwnerUnderItsOwnName(t *testing.T) {
	reviews, wiki := gatewaytest.NewPeer(t, "reviews", "code"), gatewaytest.NewModernPeer(t, "wiki", "code", "grüße an alle")
	s := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", reviews, wiki))
	for _, revision := range append([]string{gatewaytest.Latest}, gatewaytest.LegacyRevisions...) {
		c := s.Modern("")
		if revision != gatewaytest.Latest {
			c = s.Legacy(revision, "")
		}
		c.Call("prompts/get", gatewaytest.GetParams("reviews.code")).Want(t, http.StatusOK, "from reviews")
		c.Call("prompts/get", gatewaytest.GetParams("wiki.code")).Want(t, http.StatusOK, "from wiki")
		c.Call("prompts/get", gatewaytest.GetParams("code")).Want(t, http.StatusOK, `"code":-32602`, `Unknown prompt: code`)
		c.Call("completion/complete", gatewaytest.CompleteParams("wiki.code")).Want(t, http.StatusOK, "from wiki")
	}
	s.Modern("").CallWithID("1", "prompts/get", gatewaytest.GetParams("wiki.grüße an alle"), "Mcp-Name", "=?base64?d2lraS5ncsO8w59lIGFuIGFsbGU=?=").Want(t, http.StatusOK, "from wiki")
	calls := wiki.Calls("prompts/get")
	last := calls[len(calls)-1]
	if got := string(last.Params); !strings.HasPrefix(got, `{"name":"grüße an alle"`) {
		t.Errorf("the owner received %s, want its own name for the prompt", got)
	}
	upstreamtest.Equal(t, "=?base64?Z3LDvMOfZSBhbiBhbGxl?=", last.Header.Get("Mcp-Name"), "the owner received Mcp-Name")
}

// odd has the members that JSON readers and writers tend to change.
const odd = `"big":12345678901234567890,"half":2.50,"e":1e3,"esc":"\u00e9\/\u2028","nul":null,"o":{"b":1,"a":[]},"io.example/x":{"y":[1.0]}`

func TestGet_PassesEachByteThrough(t *testing.T) {
	definition := `{"title":"T","name":"a","icons":[{"src":"https://x/y.png","sizes":["1x1"]}],` + odd + `,"arguments":[{"name":"n","schema":{"type":"integer","maximum":9007199254740993}}],"_meta":{"k":1e3}}`
	result := `{"messages":[{"role":"user","content":{"type":"hologram",` + odd + `},"annotations":{"priority":0.10}}],"description":"\u0041",` + odd + `,"_meta":{"k":2.50}}`
	p := gatewaytest.NewPeer(t, "p", definition)
	p.Answer("prompts/get", result)
	s := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", p))
	exposed := strings.Replace(definition, `"name":"a"`, `"name":"p.a"`, 1)
	for _, c := range []*gatewaytest.Client{s.Modern(""), s.Legacy("2025-11-25", "")} {
		c.Call("prompts/list", "").Want(t, http.StatusOK, exposed)
	}
	legacy := s.Legacy("2025-11-25", "")
	legacy.CallUnchecked("prompts/get", gatewaytest.GetParams("p.a")).Want(t, http.StatusOK, `"result":`+result)
	// For the modern era the gateway adds the members of that era, and changes no others.
	s.Modern("").CallUnchecked("prompts/get", gatewaytest.GetParams("p.a")).Want(t, http.StatusOK,
		`"result":`+strings.Replace(result, `"_meta":{"k":2.50}}`, `"_meta":{"k":2.50,"io.modelcontextprotocol/serverInfo":{"name":"promptweir","version":"1.2.3"}},"resultType":"complete"}`, 1))

	params := `{"includeContext":true,` + odd + `,"name":"p.a","arguments":{"n":9007199254740993,"h":2.50,"m":1e3},"_meta":{"k":1e3,"progressToken":7}}`
	legacy.CallUnchecked("prompts/get", params)
	calls := p.Calls("prompts/get")
	want := strings.Replace(strings.Replace(params, `"name":"p.a"`, `"name":"a"`, 1), `"progressToken":7`, `"progressToken":`+string(calls[len(calls)-1].ID), 1) // the gateway's own token
	upstreamtest.Equal(t, want, string(calls[len(calls)-1].Params), "params on the way up")
	for _, params := range []string{`{"name":"p.a"}`, `{"name":"p.a","arguments":{}}`} {
		legacy.CallUnchecked("prompts/get", params)
		calls := p.Calls("prompts/get")
		upstreamtest.Equal(t, strings.Replace(params, "p.a", "a", 1), string(calls[len(calls)-1].Params),
			"params on the way up")
	}
	p.Answer("completion/complete", `{"completion":{"values":["x"],"total":1e0,"hasMore":false},`+odd+`}`)
	legacy.CallUnchecked("completion/complete", `{"argument":{"name":"n","value":"\u0041"},"context":{"arguments":{"q":"\/"}},"ref":{"x":1.0,"name":"p.a","type":"ref/prompt"}}`).
		Want(t, http.StatusOK, `"result":{"completion":{"values":["x"],"total":1e0,"hasMore":false},`+odd+`}`)
	if diff := cmp.Diff(`{"argument":{"name":"n","value":"\u0041"},"context":{"arguments":{"q":"\/"}},"ref":{"x":1.0,"name":"a","type":"ref/prompt"}}`, string(p.Calls("completion/complete")[0].Params)); diff != "" {
		t.Errorf("params on the way up (-want +got):\n%s", diff)
	}
}

func TestHandle_ReturnsIDsUnchanged(t *testing.T) {
	s := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", gatewaytest.NewPeer(t, "p", "a")))
	for _, c := range []*gatewaytest.Client{s.Modern(""), s.Legacy("2025-06-18", "")} {
		for _, id := range []string{`0`, `-1`, `1.5`, `1e3`, `9007199254740993`, `12345678901234567890`, `""`, `"a\u0062\/\"é"`} {
			for method, params := range map[string]string{"prompts/list": "", "prompts/get": gatewaytest.GetParams("p.a"), "completion/complete": gatewaytest.CompleteParams("none"), "no/such": ""} {
				body, h := c.Encode(id, method, params)
				if got := gatewaytest.Send(t, http.MethodPost, c.URL, body, h); !strings.HasPrefix(got.Body, `{"jsonrpc":"2.0","id":`+id+`,`) {
					t.Errorf("%s with id %s: %s", method, id, got.Body)
				}
			}
		}
	}
}

func TestGet_RefusesWhatIsNoResultOfAGet(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", "a")
	s := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", p))
	p.Answer("prompts/get", `"text"`)
	s.Modern("").Call("prompts/get", gatewaytest.GetParams("p.a")).Want(t, http.StatusOK, `"code":-32603`, `"reason":"bad_response"`)
	p.Answer("prompts/get", `{"resultType":"input_required","inputRequests":{}}`)
	s.Modern("").Call("prompts/get", gatewaytest.GetParams("p.a")).Want(t, http.StatusOK, `"code":-32603`)
}

func TestGet_FailsOverToAnotherOwner(t *testing.T) {
	one, two := gatewaytest.NewPeer(t, "one", "a"), gatewaytest.NewPeer(t, "two", "a")
	one.Settings, two.Settings = `prefix = "same"`, `prefix = "same"`
	s := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", one, two))
	c := s.Modern("")
	if diff := cmp.Diff([]string{"same.a"}, c.List()); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	c.Call("prompts/get", gatewaytest.GetParams("same.a")).Want(t, http.StatusOK, "from one")
	one.Stop()
	c.Call("prompts/get", gatewaytest.GetParams("same.a")).Want(t, http.StatusOK, "from two")
	c.Call("completion/complete", gatewaytest.CompleteParams("same.a")).Want(t, http.StatusOK, "from two")
	one.Restart()
	one.AwaitStream() // until then, calls may find the old session, which the gateway is about to give up
	upstreamtest.Eventually(t, "the first owner is called first again", func() bool {
		return strings.Contains(c.Call("prompts/get", gatewaytest.GetParams("same.a")).Body, "from one")
	})
	one.Answer("prompts/get", `error:{"code":-32001,"message":"no"}`) // an error is an answer too
	c.Call("prompts/get", gatewaytest.GetParams("same.a")).Want(t, http.StatusOK, `"code":-32001`)
}

func TestComplete_NeedsAnUpstreamThatCompletes(t *testing.T) {
	with, without, lies := gatewaytest.NewPeer(t, "with", "a"), gatewaytest.NewPeer(t, "without", "a"), gatewaytest.NewPeer(t, "lies", "a")
	without.Declare(`{"prompts":{}}`)
	lies.Answer("completion/complete", `error:{"code":-32601,"message":"Method not found"}`)
	s := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", with, without, lies))
	for _, c := range []*gatewaytest.Client{s.Modern(""), s.Legacy("2025-03-26", "")} {
		c.Call("completion/complete", gatewaytest.CompleteParams("with.a")).Want(t, http.StatusOK, `"values":["from with"]`)
		c.Call("completion/complete", gatewaytest.CompleteParams("without.a")).Want(t, http.StatusOK, `"completion":{"values":[]}`)
		c.Call("completion/complete", gatewaytest.CompleteParams("lies.a")).Want(t, http.StatusOK, `"completion":{"values":[]}`)
		c.Call("completion/complete", gatewaytest.CompleteParams("with.b")).Want(t, http.StatusOK, `"code":-32602`, "Unknown prompt: with.b")
		for _, ref := range []string{`{"type":"ref/resource","uri":"x"}`, `{"type":"ref/none","name":"with.a"}`, `{"type":"ref/prompt"}`, `7`} {
			c.CallUnchecked("completion/complete", `{"ref":`+ref+`,"argument":{"name":"a","value":""}}`).Want(t, http.StatusOK, `"code":-32602`)
		}
	}
	upstreamtest.Equal(t, 0, len(without.Calls("completion/complete")), "requests at an upstream without completions")
}

// What one caller's completions do to a server concerns no other caller's gets.
func TestComplete_FailuresOfOneCallerOpenNoBreaker(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", "a")
	p.Settings = "breaker { failures = 2 }"
	p.Intercept(func(w http.ResponseWriter, _ *http.Request, call gatewaytest.Call) bool {
		if call.Method == "completion/complete" {
			w.WriteHeader(http.StatusInternalServerError)
		}
		return call.Method == "completion/complete"
	})
	s := gatewaytest.Serve(t, "auth {\n"+gatewaytest.Token("ann")+gatewaytest.Token("bob")+"}\n"+
		gatewaytest.Team("eng", `"user:ann", "user:bob"`, "", p))
	ann, bob := s.Modern("ann"), s.Modern("bob")
	for range 3 {
		ann.Call("completion/complete", gatewaytest.CompleteParams("p.a")).Want(t, http.StatusOK, `"bad_response"`)
	}
	bob.Call("prompts/get", gatewaytest.GetParams("p.a")).Want(t, http.StatusOK, `"from p"`)
}

func TestGet_CancelsUpstreamWhenItsClientLeaves(t *testing.T) {
	legacy, modern := gatewaytest.NewPeer(t, "p", "a"), gatewaytest.NewModernPeer(t, "p", "a")
	for _, p := range []*gatewaytest.Peer{legacy, modern} {
		p.Settings = `timeout = "60s"`
		s := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", p))
		entered, gone := p.HoldGets()
		for _, c := range []*gatewaytest.Client{s.Modern(""), s.Legacy("2025-11-25", "")} {
			body, h := c.Encode("1", "prompts/get", gatewaytest.GetParams("p.a"))
			ctx, cancel := context.WithCancel(t.Context())
			over := make(chan struct{})
			go func() {
				defer close(over)
				response, err := http.DefaultClient.Do(gatewaytest.NewRequest(ctx, t, http.MethodPost, c.URL, body, h))
				if err == nil {
					_ = response.Body.Close()
				}
			}()
			<-entered
			cancel()
			<-over
			<-gone
		}
		// In the legacy era a client may also cancel by a notification, and keep its connection.
		c := s.Legacy("2025-06-18", "")
		body, h := c.Encode(`"x"`, "prompts/get", gatewaytest.GetParams("p.a"))
		answered := make(chan gatewaytest.Response)
		go func() { answered <- gatewaytest.Send(t, http.MethodPost, c.URL, body, h) }()
		<-entered
		gatewaytest.Send(t, http.MethodPost, s.URL, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"x"}}`, s.Legacy("2025-06-18", "").Headers)
		select {
		case <-gone:
			t.Error("another session's notification cancelled the request")
		default:
		}
		gatewaytest.Send(t, http.MethodPost, s.URL, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"x","reason":"Esc"}}`, c.Headers).Want(t, http.StatusAccepted)
		<-gone
		(<-answered).Want(t, http.StatusOK, `"id":"x"`, `cancelled`)
		if p == modern { // a modern server learns of it by the end of the HTTP request
			continue
		}
		upstreamtest.Eventually(t, "the upstream was notified", func() bool { return len(p.Calls("notifications/cancelled")) == 3 })
		if told := p.Calls("notifications/cancelled"); !slices.ContainsFunc(told, func(call gatewaytest.Call) bool {
			return strings.Contains(string(call.Params), `"reason":"Esc"`)
		}) {
			t.Errorf("the upstream is not told why its client cancelled: %v", told)
		}
	}
}

func TestGet_KeepsConcurrentGetsApart(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", "a")
	s := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", p))
	p.OnGet(func(w http.ResponseWriter, _ *http.Request, call gatewaytest.Call) bool {
		p.Respond(w, call, `{"messages":[],"echo":`+string(call.Params)+`}`)
		return true
	})
	c := s.Legacy("2025-11-25", "")
	done := make(chan error, 8)
	for worker := range 8 {
		go func() {
			for i := range 50 {
				mark := fmt.Sprintf(`"mark-%d-%d-%s"`, worker, i, strings.Repeat("x", worker*300))
				body, h := c.Encode(mark, "prompts/get", `{"name":"p.a","arguments":{"m":`+mark+`}}`)
				got := gatewaytest.Send(t, http.MethodPost, c.URL, body, h)
				want := `{"jsonrpc":"2.0","id":` + mark + `,"result":{"messages":[],"echo":{"name":"a","arguments":{"m":` + mark + `}}}}`
				if got.Body != want {
					done <- fmt.Errorf("got %.99s…, want %.99s…", got.Body, want)
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

func TestComplete_RefusesMalformedParams(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", "a")
	s := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", p))
	const ref = `"ref":{"type":"ref/prompt","name":"p.a"}`
	for _, c := range []*gatewaytest.Client{s.Modern(""), s.Legacy("2025-11-25", "")} {
		for _, params := range []string{
			`{` + ref + `}`,
			`{` + ref + `,"argument":null}`,
			`{` + ref + `,"argument":[]}`,
			`{` + ref + `,"argument":{}}`,
			`{` + ref + `,"argument":{"name":"x"}}`,
			`{` + ref + `,"argument":{"name":"x","value":7}}`,
			`{` + ref + `,"argument":{"name":7,"value":""}}`,
			`{` + ref + `,"argument":{"name":"x","value":""},"context":[]}`,
			`{` + ref + `,"argument":{"name":"x","value":""},"context":{"arguments":["y"]}}`,
			`{` + ref + `,"argument":{"name":"x","value":""},"context":{"arguments":{"y":7}}}`,
			`{"ref":{"type":"ref/prompt","name":"p.a","title":7},"argument":{"name":"x","value":""}}`,
		} {
			c.CallUnchecked("completion/complete", params).Want(t, http.StatusOK, `"code":-32602`)
		}
		// A prompt that the caller does not see is unknown, however malformed the rest is.
		c.CallUnchecked("completion/complete", `{"ref":{"type":"ref/prompt","name":"none"}}`).Want(t, http.StatusOK, `"Unknown prompt: none"`)
	}
	upstreamtest.Equal(t, 0, len(p.Calls("completion/complete")), "malformed completions at the upstream")
}

func TestComplete_TakesNullForAbsent(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", "a")
	c := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", p)).Legacy("2025-11-25", "")
	for i, context := range []string{`null`, `{"arguments":null}`, `{"arguments":[]}`} {
		c.CallUnchecked("completion/complete", `{"ref":{"type":"ref/prompt","name":"p.a","title":null},"argument":{"name":"x","value":""},"context":`+context+`}`).
			Want(t, http.StatusOK, `"values"`)
		if got := string(p.Calls("completion/complete")[i].Params); strings.Contains(got, "null") || strings.Contains(got, "[]") {
			t.Errorf("the upstream gets %s", got)
		}
	}
}

func TestGet_WithoutMessagesIsBadResponse(t *testing.T) {
	for _, peer := range []*gatewaytest.Peer{gatewaytest.NewPeer(t, "p", "a"), gatewaytest.NewModernPeer(t, "p", "a")} {
		peer.Settings = "breaker { failures = 2 }"
		s := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", peer))
		clients := []*gatewaytest.Client{s.Modern(""), s.Legacy("2025-11-25", ""), s.Legacy("2024-11-05", "")}
		for _, result := range []string{`{}`, `{"resultType":"complete"}`, `{"messages":null}`, `{"messages":{}}`} {
			peer.Answer("prompts/get", result)
			for _, c := range clients {
				c.Call("prompts/get", gatewaytest.GetParams("p.a")).Want(t, http.StatusOK, `"code":-32603`, `"reason":"bad_response"`)
			}
		}
		peer.Answer("prompts/get", `{"messages":[]}`) // the circuit breaker has not opened
		for _, c := range clients {
			c.Call("prompts/get", gatewaytest.GetParams("p.a")).Want(t, http.StatusOK, `"messages":[]`)
		}
	}
}

func TestList_TreatsNullAsAbsent(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", `{"name":"a","title":null,"arguments":[{"name":"x","description":null}]}`, `{"name":"b","icons":null}`)
	s := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", p))
	for _, revision := range gatewaytest.LegacyRevisions {
		s.Legacy(revision, "").WantList("p.a", "p.b")
	}
	// Call checks the response against the schema.
	s.Modern("").Call("prompts/list", "").Want(t, http.StatusOK, `[{"name":"p.a","arguments":[{"name":"x"}]},{"name":"p.b"}]`)
	upstreamtest.Equal(t, "null_members p", s.ReportNames(), "reports")
	if text := s.Reports()[0].Text; !strings.Contains(text, `2 prompts`) || !strings.Contains(text, `title of prompt "a"`) {
		t.Errorf("the report does not say where: %s", text)
	}
}

func TestLock_ApprovesDefinitionWithoutNulls(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", `{"name":"a"}`)
	lock := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", p)).Lock()
	p.SetPrompts(`{"name":"a","description":null}`)
	s := gatewaytest.ServeLocked(t, gatewaytest.Team("eng", "", "lock = \"enforce\"\n", p), lock)
	s.Modern("").WantList("p.a")
}

func TestParams_NullIsAbsent(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", "a")
	s := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", p))
	legacy := s.Legacy("2025-11-25", "")
	legacy.CallUnchecked("prompts/list", `{"cursor":null,"_meta":null}`).Want(t, http.StatusOK, `"name":"p.a"`)
	legacy.CallUnchecked("prompts/list", `null`).Want(t, http.StatusOK, `"name":"p.a"`)
	legacy.CallUnchecked("prompts/get", `{"name":"p.a","arguments":null,"_meta":null}`).Want(t, http.StatusOK, `"from p"`)
	legacy.CallUnchecked("completion/complete",
		`{"ref":{"type":"ref/prompt","name":"p.a"},"argument":{"name":"x","value":""},"context":null}`).Want(t, http.StatusOK, `"from p"`)
	s.Modern("").CallUnchecked("prompts/get", `{"name":"p.a","arguments":null,"requestState":null,"inputResponses":null,`+gatewaytest.Meta+`}`).
		Want(t, http.StatusOK, `"from p"`)
	for _, method := range []string{"prompts/get", "completion/complete"} {
		for _, call := range p.Calls(method) {
			if strings.Contains(string(call.Params), "null") {
				t.Errorf("the upstream heard %s", call.Params)
			}
		}
	}
}
