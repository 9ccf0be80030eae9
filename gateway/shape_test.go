package gateway_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const invoiceDefinition = `{"name":"review_invoice","x":1.0,"arguments":[{"name":"id","required":true},{"name":"currency","required":true},{"name":"lang","required":true}]}`

// shaped has a prompt under a name of its own, with a fixed argument and one with a default.
func shaped(t *testing.T) (s *server, p *peer) {
	p = newPeer(t, "billing", invoiceDefinition, "plain", `{"name":"other","arguments":[{"name":"a"}]}`)
	return serve(t, "auth {\n anonymous = true\n"+token("ann", "eng")+"}\n"+team("eng", `"group:eng"`, `
  prompt "billing.review_invoice" {
    name        = "review"
    title       = "Review"
    arguments   = { currency = "EUR" }
    defaults    = { lang = "en" }
  }
  prompt "billing.gone" { title = "nobody has it" }
  prompt "billing.other" { arguments = { b = "there is none" } }
  expose "review" {
    prompts = ["billing.plain"]
    to      = ["*"]
  }
`, p)), p
}

func TestAShapedPrompt(t *testing.T) {
	s, p := shaped(t)
	if got, want := reports(s), "unmatched billing.gone, misfit billing.other"; got != want && got != "misfit billing.other, unmatched billing.gone" {
		t.Errorf("reports %q, want %q", got, want)
	}
	for _, c := range []*client{s.modern("ann"), s.legacy("2025-11-25", "ann")} {
		p.forget()
		list := c.call("prompts/list", "")
		list.is(t, http.StatusOK, `{"name":"review","x":1.0,"arguments":[{"name":"id","required":true},{"name":"lang","required":false}],"title":"Review"}`)
		if diff := cmp.Diff([]string{"billing.plain", "review"}, list.names(t)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		c.call("prompts/get", `{"name":"review","arguments":{"id":"7","extra":"x"}}`).is(t, http.StatusOK, `"from billing"`)
		c.call("prompts/get", `{"name":"review","arguments":{"lang":"de","id":"7"}}`).is(t, http.StatusOK, `"from billing"`)
		c.call("prompts/get", `{"name":"billing.plain"}`).is(t, http.StatusOK, `"from billing"`)
		var got []string
		for _, call := range p.heard("prompts/get") {
			params, _, _ := strings.Cut(string(call.Params), `,"_meta"`)
			got = append(got, strings.TrimSuffix(params, "}"))
		}
		want := []string{
			`{"name":"review_invoice","arguments":{"id":"7","extra":"x","currency":"EUR","lang":"en"}`,
			`{"name":"review_invoice","arguments":{"lang":"de","id":"7","currency":"EUR"}`, `{"name":"plain"`,
		}
		for i := range got {
			if !strings.HasPrefix(got[i]+"}", strings.TrimSuffix(want[i], "}")) {
				t.Errorf("the upstream heard %s, want %s", got[i], want[i])
			}
		}
		c.call("prompts/get", `{"name":"review","arguments":{"id":"7","currency":"USD"}}`).is(t, http.StatusOK, `-32602`, `"reason":"fixed"`)
		c.call("prompts/get", `{"name":"review"}`).is(t, http.StatusOK, `-32602`, `"argument":"id"`)
		c.call("completion/complete", `{"ref":{"type":"ref/prompt","name":"review"},"argument":{"name":"lang","value":"e"},"context":{"arguments":{"id":"7"}}}`).
			is(t, http.StatusOK, `"from billing"`)
		heard := string(p.heard("completion/complete")[0].Params)
		for _, part := range []string{`"name":"review_invoice"`, `"context":{"arguments":{"id":"7","currency":"EUR","lang":"en"}}`} {
			if !strings.Contains(heard, part) {
				t.Errorf("the upstream heard %s, want %s in it", heard, part)
			}
		}
		for _, params := range []string{
			`{"ref":{"type":"ref/prompt","name":"review"},"argument":{"name":"currency","value":"e"}}`,
			`{"ref":{"type":"ref/prompt","name":"review"},"argument":{"name":"lang","value":"e"},"context":{"arguments":{"currency":"USD"}}}`,
		} {
			c.call("completion/complete", params).is(t, http.StatusOK, `-32602`, `"reason":"fixed"`)
		}
		if n := len(p.heard("completion/complete")); n != 1 {
			t.Errorf("%d completions reached the upstream, want 1", n)
		}
		for _, name := range []string{"billing.review_invoice", "billing.other"} {
			c.call("prompts/get", get(name)).is(t, http.StatusOK, `"Unknown prompt: `+name)
		}
	}
}
