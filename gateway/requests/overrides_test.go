package requests_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
)

const invoiceDefinition = `{"name":"review_invoice","x":1.0,"arguments":[{"name":"id","required":true},{"name":"currency","required":true},{"name":"lang","required":true}]}`

// serveOverridden serves a prompt whose block gives it another name, a fixed argument and a default one.
func serveOverridden(t *testing.T) (s *gatewaytest.Server, p *gatewaytest.Peer) {
	p = gatewaytest.NewPeer(t, "billing", invoiceDefinition, "plain", `{"name":"other","arguments":[{"name":"a"}]}`)
	return gatewaytest.Serve(t, "auth {\n anonymous = true\n"+gatewaytest.Token("ann", "eng")+"}\n"+gatewaytest.Team("eng", `"group:eng"`, `
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

func TestOverrides_ChangeDefinitionAndArguments(t *testing.T) {
	s, p := serveOverridden(t)
	if got, want := s.ReportNames(), "unmatched billing.gone, misfit billing.other"; got != want && got != "misfit billing.other, unmatched billing.gone" {
		t.Errorf("reports %q, want %q", got, want)
	}
	for _, c := range []*gatewaytest.Client{s.Modern("ann"), s.Legacy("2025-11-25", "ann")} {
		p.Forget()
		list := c.Call("prompts/list", "")
		list.Want(t, http.StatusOK, `{"name":"review","x":1.0,"arguments":[{"name":"id","required":true},{"name":"lang","required":false}],"title":"Review"}`)
		if diff := cmp.Diff([]string{"billing.plain", "review"}, list.Names(t)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		c.Call("prompts/get", `{"name":"review","arguments":{"id":"7","extra":"x"}}`).Want(t, http.StatusOK, `"from billing"`)
		c.Call("prompts/get", `{"name":"review","arguments":{"lang":"de","id":"7"}}`).Want(t, http.StatusOK, `"from billing"`)
		c.Call("prompts/get", `{"name":"billing.plain"}`).Want(t, http.StatusOK, `"from billing"`)
		var got []string
		for _, call := range p.Calls("prompts/get") {
			params, _, _ := strings.Cut(string(call.Params), `,"_meta"`)
			got = append(got, strings.TrimSuffix(params, "}"))
		}
		want := []string{
			`{"name":"review_invoice","arguments":{"id":"7","extra":"x","currency":"EUR","lang":"en"}`,
			`{"name":"review_invoice","arguments":{"lang":"de","id":"7","currency":"EUR"}`, `{"name":"plain"`,
		}
		for i := range got {
			if !strings.HasPrefix(got[i]+"}", strings.TrimSuffix(want[i], "}")) {
				t.Errorf("the upstream received %s, want %s", got[i], want[i])
			}
		}
		c.Call("prompts/get", `{"name":"review","arguments":{"id":"7","currency":"USD"}}`).Want(t, http.StatusOK, `-32602`, `"reason":"fixed"`)
		c.Call("prompts/get", `{"name":"review"}`).Want(t, http.StatusOK, `-32602`, `"argument":"id"`)
		c.Call("completion/complete", `{"ref":{"type":"ref/prompt","name":"review"},"argument":{"name":"lang","value":"e"},"context":{"arguments":{"id":"7"}}}`).
			Want(t, http.StatusOK, `"from billing"`)
		heard := string(p.Calls("completion/complete")[0].Params)
		for _, part := range []string{`"name":"review_invoice"`, `"context":{"arguments":{"id":"7","currency":"EUR","lang":"en"}}`} {
			if !strings.Contains(heard, part) {
				t.Errorf("the upstream received %s, want %s in it", heard, part)
			}
		}
		for _, params := range []string{
			`{"ref":{"type":"ref/prompt","name":"review"},"argument":{"name":"currency","value":"e"}}`,
			`{"ref":{"type":"ref/prompt","name":"review"},"argument":{"name":"lang","value":"e"},"context":{"arguments":{"currency":"USD"}}}`,
		} {
			c.Call("completion/complete", params).Want(t, http.StatusOK, `-32602`, `"reason":"fixed"`)
		}
		if n := len(p.Calls("completion/complete")); n != 1 {
			t.Errorf("%d completions reached the upstream, want 1", n)
		}
		for _, name := range []string{"billing.review_invoice", "billing.other"} {
			c.Call("prompts/get", gatewaytest.GetParams(name)).Want(t, http.StatusOK, `"Unknown prompt: `+name)
		}
	}
}
