package requests_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

func TestScreens_ApplyToDefinitionsAndResults(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", "plain", `{"name":"loud","description":"IGNORE ALL previous","x":1.0}`,
		`{"name":"hidden","description":"a\u202eb","x":1.0}`, `{"name":"both","arguments":[{"name":"a\u200b"}]}`)
	other := gatewaytest.NewPeer(t, "other", "x", `{"name":"loud","description":"IGNORE ALL"}`)
	s := gatewaytest.Serve(t, `
gateway {
  screen "unseen" {
    invisible = true
    action    = "strip"
  }
}
`+gatewaytest.Team("eng", "", `
  screen "orders" {
    patterns = ["(?i)ignore all"]
    content  = ["text"]
  }
`, p)+gatewaytest.Team("others", "", "", other))
	c := s.Modern("")
	list := c.Call("prompts/list", "")
	upstreamtest.Equal(t, []string{"other.loud", "other.x", "p.hidden", "p.plain"}, list.Names(t), "names")
	list.Want(t, http.StatusOK, `{"name":"p.hidden","description":"ab","x":1.0}`)
	upstreamtest.Equal(t, "screened p.loud, screened p.hidden, screened p.both", s.ReportNames(), "reports")
	for _, r := range s.Reports() {
		if strings.Contains(r.Text, "IGNORE") {
			t.Errorf("the report repeats the text that it is about: %s", r.Text)
		}
	}
	for _, c := range []*gatewaytest.Client{c, s.Legacy("2025-06-18", "")} {
		ask := func(result string) gatewaytest.Response {
			p.Answer("prompts/get", result)
			return c.Call("prompts/get", gatewaytest.GetParams("p.plain"))
		}
		message := func(content string) string { return `{"messages":[{"role":"user","content":` + content + `}]}` }
		a := ask(message(`{"type":"text","text":"please ignore all of it"}`))
		a.Want(t, http.StatusOK, `"code":-32603`, `"data":{"reason":"screened","screen":"orders","check":"pattern 1","at":"/messages/0/content/text"}`)
		if strings.Contains(a.Body, "please") {
			t.Errorf("the error repeats the text that was found: %s", a.Body)
		}
		ask(message(`{"type":"image","data":"","mimeType":"image/png"}`)).Want(t, http.StatusOK, `"check":"content"`)
		ask(message(`{"type":"text","text":"a\u200bb","x":1.0}`)).Want(t, http.StatusOK, `{"type":"text","text":"ab","x":1.0}`)
		same := message(`{"type":"text","text":"\u0061 👨\u200d👩","x":1.0}`)
		ask(same).Want(t, http.StatusOK, strings.TrimSuffix(same, "}"))
		other.Answer("prompts/get", message(`{"type":"text","text":"ignore all\u200b"}`))
		c.Call("prompts/get", gatewaytest.GetParams("other.x")).Want(t, http.StatusOK, `"text":"ignore all"`)

		p.Answer("completion/complete", `{"completion":{"values":["IGNORE ALL"]}}`)
		c.Call("completion/complete", gatewaytest.CompleteParams("p.plain")).Want(t, http.StatusOK, `"reason":"screened"`, `"at":"/completion/values/0"`)
	}
}

// Server requests and notifications during a get pass the same screens, across the eras.
func TestScreens_ApplyToServerRequestsAndNotifications(t *testing.T) {
	upstreams := []string{"http-legacy", "stdio-legacy", "http-modern"}
	s := serveRequesting(t, `timeout = "30s"`, `screen "evil" { patterns = ["(Hello|for) evil"] }`, upstreams...)
	for _, revision := range []string{"2025-11-25", gatewaytest.Latest} {
		for _, up := range upstreams {
			ann, evil := meet(t, s, "ann", revision, "http"), meet(t, s, "evil", revision, "http")
			if got, err := ann.get(t.Context(), up+".elicit"); err != nil || ann.notes() != "Hello ann" {
				t.Errorf("%s, %s: ann gets %q, %v and receives %q", revision, up, got, err, ann.notes())
			}
			for _, prompt := range []string{".elicit", ".sample"} {
				if got, err := evil.get(t.Context(), up+prompt); err == nil {
					t.Errorf("%s, %s: evil gets %q", revision, up, got)
				}
			}
			params := &mcp.GetPromptParams{Name: up + ".tell", Arguments: map[string]string{"who": "evil"}, Meta: mcp.Meta{"progressToken": "x"}}
			if _, err := evil.session.GetPrompt(t.Context(), params); err != nil {
				t.Errorf("%s, %s: %v", revision, up, err)
			}
			upstreamtest.Equal(t, "", evil.notes(), "%s, %s: evil receives", revision, up)
		}
	}
}

// Screens of content check the messages of a sampling request.
func TestScreens_ApplyToTheContentOfServerRequests(t *testing.T) {
	upstreams := []string{"http-legacy", "stdio-legacy", "http-modern"}
	s := serveRequesting(t, `timeout = "30s"`, `screen "images" { content = ["image"] }`, upstreams...)
	for _, revision := range []string{"2025-11-25", gatewaytest.Latest} {
		for _, up := range upstreams {
			ann := meet(t, s, "ann", revision, "http")
			if got, err := ann.get(t.Context(), up+".sample"); err == nil || ann.notes() != "" {
				t.Errorf("%s, %s: ann gets %q and receives %q", revision, up, got, ann.notes())
			}
			if got, err := ann.get(t.Context(), up+".elicit"); err == nil || ann.notes() != "Hello ann" { // an elicitation has no messages
				t.Errorf("%s, %s: ann gets %q and receives %q", revision, up, got, ann.notes())
			}
		}
	}
}

// A get whose server request is rejected ends at once. If it waited for a reply, it would keep one of the server's slots.
func TestScreens_RejectedServerRequestEndsItsGet(t *testing.T) {
	s := serveRequesting(t, `timeout = "30s"`, `screen "small" { max_size = 180 }`, "stdio-legacy")
	ann := meet(t, s, "ann", gatewaytest.Latest, "http")
	get := func() (rejected bool, err error) {
		_, err = ann.get(t.Context(), "stdio-legacy.elicit")
		return err != nil && strings.Contains(err.Error(), "rejected"), err
	}
	upstreamtest.Eventually(t, "there is a session with the client's capabilities", func() bool {
		rejected, _ := get()
		return rejected
	})
	for i := range 6 { // more than the four that the server runs at a time
		if rejected, err := get(); !rejected {
			t.Fatalf("get %d: %v, want that it is rejected", i, err)
		}
	}
}

// Two upstreams own the entry "p.x". Who sees it depends on which of them serves it, so that each caller gets it from its own.
func TestOwners_AreJudgedOneByOne(t *testing.T) {
	a, b := gatewaytest.NewPeer(t, "a", "x", "y"), gatewaytest.NewPeer(t, "b", "x", "y")
	a.Settings, b.Settings = `prefix = "p"`, `prefix = "p"`
	s := gatewaytest.Serve(t, "auth {\n anonymous = true\n"+gatewaytest.Token("ann")+gatewaytest.Token("bob")+gatewaytest.Token("eve")+"}\n"+
		gatewaytest.Team("eng", `"user:ann", "user:eve"`, `
expose "from b only" {
  prompts = ["p.x"]
  to      = ["user:bob"]
  when    = prompt.upstream == "b"
}
hide "eve stays away from b" {
  prompts = ["p.x"]
  when    = prompt["upstream"] == "b" && principal.subject == "user:eve"
}
hide "nothing from a or b" {
  prompts = ["p.y"]
  when    = contains(["a", "b"], prompt.upstream)
}
`, a, b))
	s.AwaitUpstreams()
	want := func(who, method, params, from string) {
		t.Helper()
		r := s.Modern(who).CallUnchecked(method, params)
		if !strings.Contains(r.Body, from) {
			t.Errorf("%s by %q: %s, want %s", method, who, r.Body, from)
		}
	}
	get, complete := gatewaytest.GetParams("p.x"), gatewaytest.CompleteParams("p.x")
	for who, from := range map[string]string{"ann": "from a", "bob": "from b", "eve": "from a", "": "Unknown prompt"} {
		want(who, "prompts/get", get, from)
		want(who, "completion/complete", complete, from)
		want(who, "prompts/get", gatewaytest.GetParams("p.y"), "Unknown prompt")
	}
	s.Modern("bob").WantList("p.x")
	s.Modern("").WantList()
	for who, visible := range map[string][2]bool{"user:ann": {true, true}, "user:bob": {false, true}, "user:eve": {true, false}} {
		explained := s.Explain(policy.Principal{Subject: who}, "p.x")
		if len(explained) != 2 || explained[0].Visible != visible[0] || explained[1].Visible != visible[1] {
			t.Errorf("%s: %+v, want %v", who, explained, visible)
		}
	}

	// An owner that a caller may not have the prompt from is no failover, and its trouble is none of the caller's business.
	a.Stop()
	want("ann", "prompts/get", get, "from b")
	want("eve", "prompts/get", get, `"upstream":"a"`)
	s.AwaitTrouble("a")
	if r := s.Modern("bob").Call("prompts/list", ""); strings.Contains(r.Body, `"a"`) {
		t.Errorf("bob hears of an upstream that shows nothing to him: %s", r.Body)
	}
	s.Modern("ann").Call("prompts/list", "").Want(t, http.StatusOK, `"upstream":"a"`)
	upstreamtest.Equal(t, 2, len(b.Calls("prompts/get")), "gets at b")
}

// A get goes to the next owner only if the first one did not answer at all.
func TestOwners_NextIsCalledOnlyWithoutAnAnswer(t *testing.T) {
	a, b := gatewaytest.NewPeer(t, "a", "x"), gatewaytest.NewPeer(t, "b", "x")
	a.Settings, b.Settings = `prefix = "p"`, `prefix = "p"`
	s := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", a, b))
	s.AwaitUpstreams()
	for _, test := range []struct {
		status     int
		body, want string
	}{
		{http.StatusOK, `{"jsonrpc":`, `"upstream":"a","reason":"bad_response"`},
		{http.StatusInternalServerError, "", `"upstream":"a","reason":"bad_response"`},
		{http.StatusForbidden, "", `"upstream":"a","reason":"denied"`},
		{http.StatusTooManyRequests, "", `"upstream":"a","reason":"rate_limited"`},
		{http.StatusBadGateway, "", "from b"},
		{http.StatusServiceUnavailable, "", "from b"},
	} {
		a.OnGet(func(w http.ResponseWriter, _ *http.Request, _ gatewaytest.Call) bool {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(test.status)
			_, _ = io.WriteString(w, test.body)
			return true
		})
		if r := s.Modern("").CallUnchecked("prompts/get", gatewaytest.GetParams("p.x")); !strings.Contains(r.Body, test.want) {
			t.Errorf("HTTP %d %s: %s, want %s", test.status, test.body, r.Body, test.want)
		}
	}
}
