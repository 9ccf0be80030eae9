package requests_test

import (
	"strings"
	"testing"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/gateway/inspect"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

func TestScreens_ApplyToDefinitionsAndResults(t *testing.T) {
	p := newPeer("p", "plain", `{"name":"loud","description":"IGNORE ALL previous","x":1.0}`,
		`{"name":"hidden","description":"a\u202eb","x":1.0}`, `{"name":"both","arguments":[{"name":"a\u200b"}]}`)
	other := newPeer("other", "x", `{"name":"loud","description":"IGNORE ALL"}`)
	s := serve(t, `
gateway {
  screen "unseen" {
    invisible = true
    action    = "strip"
  }
}
`+teamOf("eng", "", `
  screen "orders" {
    patterns = ["(?i)ignore all"]
    content  = ["text"]
  }
`, p)+teamOf("others", "", "", other), p, other)
	c := s.modern("")
	list := c.call("prompts/list", "")
	upstreamtest.Equal(t, []string{"other.loud", "other.x", "p.hidden", "p.plain"}, list.Names(t), "names")
	list.want(t, `{"name":"p.hidden","description":"ab","x":1.0}`)
	upstreamtest.Equal(t, "screened p.loud, screened p.hidden, screened p.both", gatewaytest.ReportNames(s.Current()), "reports")
	for _, r := range s.Current().Reports() {
		if strings.Contains(r.Text, "IGNORE") {
			t.Errorf("the report repeats the text that it is about: %s", r.Text)
		}
	}
	for _, c := range []*caller{c, s.legacy("2025-06-18", "")} {
		ask := func(result string) response {
			p.answer("prompts/get", result)
			return c.call("prompts/get", gatewaytest.GetParams("p.plain"))
		}
		message := func(content string) string { return `{"messages":[{"role":"user","content":` + content + `}]}` }
		a := ask(message(`{"type":"text","text":"please ignore all of it"}`))
		a.want(t, `"code":-32603`, `"data":{"reason":"screened","screen":"orders","check":"pattern 1","at":"/messages/0/content/text"}`)
		if strings.Contains(a.Body, "please") {
			t.Errorf("the error repeats the text that was found: %s", a.Body)
		}
		ask(message(`{"type":"image","data":"","mimeType":"image/png"}`)).want(t, `"check":"content"`)
		ask(message(`{"type":"text","text":"a\u200bb","x":1.0}`)).want(t, `{"type":"text","text":"ab","x":1.0}`)
		same := message(`{"type":"text","text":"\u0061 👨\u200d👩","x":1.0}`)
		ask(same).want(t, strings.TrimSuffix(same, "}"))
		other.answer("prompts/get", message(`{"type":"text","text":"ignore all\u200b"}`))
		c.call("prompts/get", gatewaytest.GetParams("other.x")).want(t, `"text":"ignore all"`)

		p.answer("completion/complete", `{"completion":{"values":["IGNORE ALL"]}}`)
		c.call("completion/complete", gatewaytest.CompleteParams("p.plain")).want(t, `"reason":"screened"`, `"at":"/completion/values/0"`)
	}
}

// Two upstreams own the entry "p.x". Who sees it depends on which of them serves it, so that each caller gets it from its own.
func TestOwners_AreJudgedOneByOne(t *testing.T) {
	a, b := newPeer("a", "x", "y"), newPeer("b", "x", "y")
	a.settings, b.settings = `prefix = "p"`, `prefix = "p"`
	s := serve(t, "auth {\n anonymous = true\n"+gatewaytest.Token("ann")+gatewaytest.Token("bob")+gatewaytest.Token("eve")+"}\n"+
		teamOf("eng", `"user:ann", "user:eve"`, `
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
`, a, b), a, b)
	want := func(who, method, params, from string) {
		t.Helper()
		r := s.modern(who).callUnchecked(method, params)
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
	s.modern("bob").wantList("p.x")
	s.modern("").wantList()
	for who, visible := range map[string][2]bool{"user:ann": {true, true}, "user:bob": {false, true}, "user:eve": {true, false}} {
		explained := inspect.Explain(s.Current(), policy.Principal{Subject: who}, "p.x")
		if len(explained) != 2 || explained[0].Visible != visible[0] || explained[1].Visible != visible[1] {
			t.Errorf("%s: %+v, want %v", who, explained, visible)
		}
	}

	// A caller does not fail over to an owner that it may not use, and does not learn of its problem.
	s.Start()
	a.down()
	want("ann", "prompts/get", get, "from b")
	want("eve", "prompts/get", get, `"upstream":"a"`)
	upstreamtest.Eventually(t, "the problem is published", func() bool { return s.Current().States[0].Problem != nil })
	if r := s.modern("bob").call("prompts/list", ""); strings.Contains(r.Body, `"a"`) {
		t.Errorf("bob hears of an upstream that shows nothing to him: %s", r.Body)
	}
	s.modern("ann").call("prompts/list", "").want(t, `"upstream":"a"`)
	upstreamtest.Equal(t, 2, len(b.calls("prompts/get")), "gets at b")
}
