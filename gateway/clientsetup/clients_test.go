package clientsetup

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"reflect"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/config/clientfile"
)

// A shell reads a command as it is meant; a file is JSON.
func TestFor_CanBePasted(t *testing.T) {
	const token = "hunter2"
	for _, endpoint := range []string{"http://127.0.0.1:8080/mcp", "https://prompts.example.com/a b/$(x)'\"<&>"} {
		for _, access := range []Access{Open, SignIn, Token, Certificate} {
			for _, c := range For(endpoint, "prompts", access, Registration{}) {
				if c.Where != "in a shell" {
					wantInFile(t, c, endpoint)
					continue
				}
				program, arguments, _ := strings.Cut(c.Text, " ")
				shell := exec.CommandContext(t.Context(), "sh", "-c", "printf '%s\\n' "+arguments)
				shell.Env = []string{TokenVariable + "=" + token}
				out, err := shell.Output()
				if err != nil || !strings.Contains(string(out), "\n"+endpoint+"\n") {
					t.Errorf("%s %s: a shell reads %q, %v", program, arguments, out, err)
				}
				if got := strings.Contains(string(out), "\nAuthorization: Bearer "+token+"\n") ||
					strings.Contains(string(out), "\n--bearer-token-env-var\n"+TokenVariable+"\n"); got != (access == Token) {
					t.Errorf("%s: has a header: %t", c.Text, got)
				}
			}
		}
	}
}

// wantInFile checks that a client's file has the endpoint, and that its edits make the same file.
func wantInFile(t *testing.T, c Client, endpoint string) {
	t.Helper()
	var file, edited any
	if c.Name == "goose" {
		if err := yaml.Unmarshal([]byte(c.Text), &file); err != nil || !strings.Contains(fmt.Sprint(file), "uri:"+endpoint) {
			t.Errorf("%s: %v, and %s in\n%s", c.Name, err, endpoint, c.Text)
		}
		return
	}
	err := json.Unmarshal([]byte(c.Text), &file)
	if quoted := indent(endpoint); err != nil || !strings.Contains(c.Text, quoted) {
		t.Errorf("%s: %v, and %s in\n%s", c.Name, err, quoted, c.Text)
	}
	var made []byte
	for _, edit := range c.Edits {
		if made, err = clientfile.Apply(made, edit); err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
	}
	if err := json.Unmarshal(made, &edited); err != nil || !reflect.DeepEqual(file, edited) {
		t.Errorf("%s: %v: the edits make\n%s\nwant\n%s", c.Name, err, made, c.Text)
	}
}

// The links are read as the clients read them, in JavaScript.
func TestFor_LinksHaveTheServer(t *testing.T) {
	const endpoint, name = "https://prompts.example.com/mcp?a=b&c+d", "my prompts"
	for access, header := range map[Access][]string{Open: {"", ""}, Token: {"Bearer ${input:promptweir-token}", "Bearer ${env:" + TokenVariable + "}"}} {
		got := map[string]server{}
		names := map[string]string{}
		for _, c := range For(endpoint, name, access, Registration{}) {
			if c.Link == "" {
				continue
			}
			u, err := url.Parse(c.Link)
			if err != nil {
				t.Fatalf("%s: %v", c.Link, err)
			}
			text, _ := url.PathUnescape(u.RawQuery)
			names[c.Name] = u.Query().Get("name")
			if config := u.Query().Get("config"); config != "" {
				decoded, _ := base64.StdEncoding.DecodeString(config)
				text = string(decoded)
			}
			var s server
			var named struct{ Name string }
			if err := errors.Join(json.Unmarshal([]byte(text), &s), json.Unmarshal([]byte(text), &named)); err != nil {
				t.Fatalf("%s: %v: %s", c.Name, err, text)
			}
			got[c.Name], names[c.Name] = s, cmp.Or(names[c.Name], named.Name)
		}
		want := map[string]server{"vscode": {Type: "http", URL: endpoint}, "cursor": {URL: endpoint}}
		for i, client := range []string{"vscode", "cursor"} {
			if s := want[client]; header[i] != "" {
				s.Headers = map[string]string{"Authorization": header[i]}
				want[client] = s
			}
		}
		if !reflect.DeepEqual(got, want) || names["vscode"] != name || names["cursor"] != name {
			t.Errorf("the links have %+v, named %q, want %+v", got, names, want)
		}
	}
}

// Clients that lose prompts are pointed at the variant that helps, or told how to turn it on.
func TestFor_PointsAtTheFittingVariant(t *testing.T) {
	const endpoint = "http://127.0.0.1:8080/mcp"
	fits := map[string]config.Variant{"gemini": "flat", "zed": "flat", "goose": "flat", "windsurf": "tools", "codex": "tools"}
	on, off := For(endpoint, "p", Open, Registration{}, config.VariantTools, config.VariantFlat), For(endpoint, "p", Open, Registration{})
	for i := range on {
		variant := endpoint + "/" + string(fits[on[i].Name])
		if fits[on[i].Name] == "" {
			if !reflect.DeepEqual(on[i], off[i]) {
				t.Errorf("%+v\n%+v", on[i], off[i])
			}
			continue
		}
		if !strings.Contains(on[i].Text, variant) || strings.Contains(off[i].Text, variant) ||
			!strings.Contains(off[i].Then, `variants = ["`+string(fits[on[i].Name])+`"]`) || !strings.Contains(off[i].Then, variant) {
			t.Errorf("%+v\n%+v", on[i], off[i])
		}
	}
	for _, c := range For(endpoint+"/tools", "p", Open, Registration{}) {
		if strings.Contains(c.Text+c.Then, "/tools/tools") {
			t.Errorf("the URL of a variant is that of an endpoint: %+v", c)
		}
	}
	w := httptest.NewRecorder()
	ServePage(w, endpoint, Open, Registration{}, config.VariantFlat)
	if page := w.Body.String(); !strings.Contains(page, endpoint+"/flat&#34;") || !strings.Contains(page, `<code id="endpoint">`+endpoint+"</code>") {
		t.Errorf("%s", page)
	}
}

// A registered client is in the words of each client, in text, edits and links alike, and on the page.
func TestFor_HasTheRegisteredClient(t *testing.T) {
	const endpoint = "https://p.example.com/mcp"
	auth := &config.Auth{JWTs: []config.JWT{{Name: "other"}, {
		Name: "idp", ClientID: "the id", CallbackPort: 33418, RequestScopes: []string{"https://p.example.com/mcp/read", "offline_access"},
	}}}
	registered := RegistrationOf(auth)
	const scopes = "https://p.example.com/mcp/read offline_access"
	want := map[string][]string{
		"claude":         {"--client-id 'the id' --callback-port 33418"},
		"vscode":         {`"oauth": {`, `"clientId": "the id"`},
		"cursor":         {`"auth": {`, `"CLIENT_ID": "the id"`},
		"claude-desktop": {`"33418"`, `"--static-oauth-client-info"`, `{\"client_id\":\"the id\"}`, `{\"scope\":\"` + scopes + `\"}`},
		"gemini":         {`"clientId": "the id"`, `"redirectUri": "http://localhost:33418/oauth/callback"`, `"enabled": true`, `"offline_access"`},
		"zed":            {`"oauth": {`, `"client_id": "the id"`},
		"opencode":       {`"callbackPort": 33418`, `"clientId": "the id"`, `"type": "remote"`},
		"goose":          {"client_id: the id"},
		"codex": {
			"--oauth-client-id 'the id' -c mcp_oauth_callback_port=33418",
			"codex mcp login p -c mcp_oauth_callback_port=33418 --scopes " + strings.ReplaceAll(scopes, " ", ",") + " signs in",
		},
	}
	without := For(endpoint, "p", SignIn, Registration{})
	w := httptest.NewRecorder()
	ServePage(w, endpoint, SignIn, registered)
	if page := html.UnescapeString(w.Body.String()); strings.Count(page, "the id") < len(want) {
		t.Errorf("the page lacks the registered client:\n%s", page)
	}
	for i, c := range For(endpoint, "p", SignIn, registered) {
		for _, part := range want[c.Name] {
			if !strings.Contains(c.Text+"\n"+c.Then, part) || strings.Contains(without[i].Text+without[i].Then, part) && !strings.Contains(part, "type") {
				t.Errorf("%s: want %s in\n%s\n%s", c.Name, part, c.Text, c.Then)
			}
		}
		if c.Where != "in a shell" {
			wantInFile(t, c, endpoint)
		}
		link, _ := url.PathUnescape(c.Link)
		if _, config, ok := strings.Cut(link, "config="); ok {
			decoded, _ := base64.StdEncoding.DecodeString(config)
			link = string(decoded)
		}
		if c.Link != "" && !strings.Contains(link, "the id") {
			t.Errorf("%s: the link has no registered client: %s", c.Name, link)
		}
		delete(want, c.Name)
	}
	if len(want) > 0 {
		t.Errorf("not listed: %v", want)
	}
	auth.Anonymous = true // no one needs to sign in
	if got := RegistrationOf(auth); got.ClientID != "" || RegistrationOf(nil).ClientID != "" {
		t.Errorf("RegistrationOf = %+v", got)
	}
}

// Nobody is told to sign in, or to set a token, where the gateway wants none.
func TestFor_SaysOnlyWhatIsTrueOfTheGateway(t *testing.T) {
	jwts := []config.JWT{{Name: "idp"}}
	tokens := []config.Token{{Subject: "ci"}}
	for name, test := range map[string]struct {
		auth *config.Auth
		want Access
	}{
		"no auth":              {nil, Open},
		"tokens":               {&config.Auth{Tokens: tokens}, Token},
		"provider":             {&config.Auth{JWTs: jwts, Tokens: tokens}, SignIn},
		"certificates":         {&config.Auth{}, Certificate},
		"provider, anonymous":  {&config.Auth{JWTs: jwts, Anonymous: true}, Open},
		"tokens and anonymous": {&config.Auth{Tokens: tokens, Anonymous: true}, Open},
	} {
		access := AccessOf(test.auth)
		w := httptest.NewRecorder()
		ServePage(w, "http://127.0.0.1:8080/mcp", access, Registration{})
		page := strings.ToLower(w.Body.String())
		signsIn := strings.Contains(page, "signs in") || strings.Contains(page, "sign in")
		hasToken := strings.Contains(page, "token")
		if access != test.want || signsIn != (access == SignIn) || hasToken != (access == Token) {
			t.Errorf("%s: access %d, want %d; signs in: %t, token: %t", name, access, test.want, signsIn, hasToken)
		}
	}
}

// The page's policy lets its own script run, and no other.
func TestServePage_RunsItsOwnScriptOnly(t *testing.T) {
	w := httptest.NewRecorder()
	ServePage(w, "http://127.0.0.1:8080/mcp", Open, Registration{})
	_, script, _ := strings.Cut(w.Body.String(), "<script>")
	script, _, _ = strings.Cut(script, "</script>")
	policy := w.Header().Get("Content-Security-Policy")
	if !strings.Contains(script, "clipboard") || !strings.Contains(policy, "; script-src "+hashOf(script)+";") {
		t.Errorf("Content-Security-Policy %q for the script\n%s", policy, script)
	}
	if buttons, codes := strings.Count(w.Body.String(), "<button"), strings.Count(w.Body.String(), "</code>"); buttons != codes {
		t.Errorf("%d buttons for %d texts", buttons, codes)
	}
}

func TestServePage_EscapesTheEndpoint(t *testing.T) {
	w := httptest.NewRecorder()
	ServePage(w, "http://localhost/<script>alert(1)</script>", Open, Registration{})
	if body := w.Body.String(); w.Code != http.StatusOK || strings.Contains(body, "<script>alert") || !strings.Contains(body, "&lt;script&gt;") {
		t.Errorf("status %d:\n%s", w.Code, body)
	}
}
