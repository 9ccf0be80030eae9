package console_test

import (
	"errors"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// Somebody who edits a prompt's file sees it beside what clients get.
func TestPrompt_ShowsItsFile(t *testing.T) {
	const team = `team "eng" {
 members = ["user:ann"]
 upstream "notes" { files = ["prompts/*.md"] }
 prompt "notes.fixed" { arguments = { tone = "calm" } }
 screen "clean" {
  invisible = true
  action    = "strip"
 }
 screen "tags" { patterns = ["hunter2"] }
}
`
	const front = "---\narguments:\n  - name: code\n    required: true\n  - name: tone\n    values: [brief, long]\n---\n"
	serve := func(text string, written ...string) (*gatewaytest.Server, func(name, text string)) {
		t.Helper()
		dir := t.TempDir()
		write := func(name, text string) {
			t.Helper()
			path := filepath.Join(dir, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		write("gateway.hcl", text)
		for i := 0; i < len(written); i += 2 {
			write(written[i], written[i+1])
		}
		cfg, diagnostics := config.Load(filepath.Join(dir, "gateway.hcl"), config.Options{})
		if err := diagnostics.Err(); err != nil {
			t.Fatal(err)
		}
		s := gatewaytest.StartConfig(t, cfg, gateway.Options{})
		s.AwaitUpstreams()
		return s, write
	}
	open, write := serve(team, "prompts/a.md", front+"<b>Read {{code}}, be {{tone}}.\n", "prompts/fixed.md", front+"Be {{tone}}.\n")
	page := func(query string, form url.Values) string {
		t.Helper()
		return gatewaytest.Send(t, http.MethodPost, open.AdminURL+"/prompt?"+query, form.Encode(),
			gatewaytest.Headers{"Content-Type", "application/x-www-form-urlencoded"}).Body
	}
	shows := func(query string, form url.Values, parts ...string) {
		t.Helper()
		eventually(t, "the page shows "+strings.Join(parts, ", "), func() bool {
			body := page(query, form)
			for _, part := range parts {
				if !strings.Contains(body, part) {
					return false
				}
			}
			return true
		})
	}
	shows("name=notes.a", nil, "<code>---\narguments:", "&lt;b&gt;Read {{code}}", "&lt;b&gt;Read ⟨code⟩, be brief.", "prompts/a.md")
	shows("name=notes.a", url.Values{"a:code": {"x\r\ny"}, "a:tone": {"long"}}, "&lt;b&gt;Read x\ny, be long.")
	shows("name=notes.fixed", url.Values{"a:tone": {"long"}}, "Be calm.")
	// As a get, past the screens.
	shows("name=notes.a", url.Values{"a:code": {"x\u200by"}}, "&lt;b&gt;Read xy, be brief.")
	shows("name=notes.a", url.Values{"a:code": {"hunter2"}}, "a get fails: the result is rejected: pattern 1 at /messages/0/content/text (screen &#34;tags&#34;)")
	write("prompts/a.md", front+"Now {{code}}.\n")
	shows("name=notes.a", nil, "Now ⟨code⟩.")
	write("prompts/a.md", "---\ntitle: [Wrong]\n---\nLater.\n")
	shows("name=notes.a", nil, "This text is not served; the last good one is:", "a.md:2: ", "<mark>title: [Wrong]\n</mark>", "Now ⟨code⟩.")

	auth := "auth {\n" + gatewaytest.Token("ann") + "}\n"
	for _, test := range []struct {
		text  string
		token gatewaytest.Headers
		want  bool
	}{
		{team + auth, nil, false}, // another person on this machine
		{team + auth + withToken("operator"), gatewaytest.Bearer("operator"), true},
	} {
		s, _ := serve(test.text, "prompts/a.md", "A secret.\n", "prompts/fixed.md", front+"Be {{tone}}.\n")
		body := gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/prompt?name=notes.a", "", test.token).Body
		upstreamtest.Equal(t, test.want, strings.Contains(body, "A secret."), "with %q, the page shows the text", test.token)
	}
}
