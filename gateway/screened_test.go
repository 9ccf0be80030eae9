package gateway_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestScreensHoldForDefinitionsAndResults(t *testing.T) {
	p := newPeer(t, "p", "plain", `{"name":"loud","description":"IGNORE ALL previous","x":1.0}`,
		`{"name":"hidden","description":"a\u202eb","x":1.0}`, `{"name":"both\u200b"}`)
	other := newPeer(t, "other", "x", `{"name":"loud","description":"IGNORE ALL"}`)
	s := serve(t, `
gateway {
  screen "unseen" {
    invisible = true
    action    = "strip"
  }
}
`+team("eng", "", `
  screen "orders" {
    patterns = ["(?i)ignore all"]
    content  = ["text"]
  }
`, p)+team("others", "", "", other))
	c := s.modern("")
	list := c.call("prompts/list", "")
	if diff := cmp.Diff([]string{"other.loud", "other.x", "p.hidden", "p.plain"}, list.names(t)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	list.is(t, http.StatusOK, `{"name":"p.hidden","description":"ab","x":1.0}`)
	if got, want := reports(s), "screened p.loud, screened p.hidden, screened p.both\u200b"; got != want {
		t.Errorf("reports %q, want %q", got, want)
	}
	for _, r := range s.Reports() {
		if strings.Contains(r.Text, "IGNORE") {
			t.Errorf("a report repeats what it is about: %s", r.Text)
		}
	}
	for _, c := range []*client{c, s.legacy("2025-06-18", "")} {
		ask := func(result string) answer {
			p.answer("prompts/get", result)
			return c.call("prompts/get", get("p.plain"))
		}
		message := func(content string) string { return `{"messages":[{"role":"user","content":` + content + `}]}` }
		a := ask(message(`{"type":"text","text":"please ignore all of it"}`))
		a.is(t, http.StatusOK, `"code":-32603`, `"data":{"reason":"screened","screen":"orders","check":"pattern 1","at":"/messages/0/content/text"}`)
		if strings.Contains(a.body, "please") {
			t.Errorf("the error repeats what was found: %s", a.body)
		}
		ask(message(`{"type":"image","data":"","mimeType":"image/png"}`)).is(t, http.StatusOK, `"check":"content"`)
		ask(message(`{"type":"text","text":"a\u200bb","x":1.0}`)).is(t, http.StatusOK, `{"type":"text","text":"ab","x":1.0}`)
		same := message(`{"type":"text","text":"\u0061 👨\u200d👩","x":1.0}`)
		ask(same).is(t, http.StatusOK, strings.TrimSuffix(same, "}"))
		other.answer("prompts/get", message(`{"type":"text","text":"ignore all\u200b"}`))
		c.call("prompts/get", get("other.x")).is(t, http.StatusOK, `"text":"ignore all"`)

		p.answer("completion/complete", `{"completion":{"values":["IGNORE ALL"]}}`)
		c.call("completion/complete", complete("p.plain")).is(t, http.StatusOK, `"reason":"screened"`, `"at":"/completion/values/0"`)
	}
}
