package requests_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
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
	if diff := cmp.Diff([]string{"other.loud", "other.x", "p.hidden", "p.plain"}, list.Names(t)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	list.Want(t, http.StatusOK, `{"name":"p.hidden","description":"ab","x":1.0}`)
	if got, want := s.ReportNames(), "screened p.loud, screened p.hidden, screened p.both"; got != want {
		t.Errorf("reports %q, want %q", got, want)
	}
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
			if got := evil.notes(); got != "" {
				t.Errorf("%s, %s: evil receives %q", revision, up, got)
			}
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
