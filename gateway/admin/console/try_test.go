package console_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/audit"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// trier is an operator with the admin token who tries prompts.
type trier struct {
	*gatewaytest.Server

	token string
	// log is the path of the audit log.
	log string
}

// withToken is a configuration with an admin token.
func withToken(token string) string {
	return fmt.Sprintf("admin {\n token_sha256 = \"%x\"\n}\n", sha256.Sum256([]byte(token)))
}

// serveTriers runs a gateway with an admin token and an audit log.
func serveTriers(t *testing.T, text string) *trier {
	t.Helper()
	log := filepath.Join(t.TempDir(), "audit.jsonl")
	cfg := gatewaytest.Load(t, fmt.Sprintf("audit {\n path = %q\n}\n%s%s", log, withToken("operator"), text))
	opened, err := audit.Open(&config.Audit{Path: log, Arguments: config.AuditNames, Required: true}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(opened.Close)
	s := gatewaytest.StartConfig(t, cfg, gateway.Options{Audit: opened})
	s.AwaitUpstreams()
	return &trier{s, "operator", log}
}

// post sends a form. The caller closes the response's body.
func (s *trier) post(path string, form url.Values) *http.Response {
	s.TB.Helper()
	r := gatewaytest.NewRequest(s.TB.Context(), s.TB, http.MethodPost, s.AdminURL+path, form.Encode(),
		append(gatewaytest.Bearer(s.token), "Content-Type", "application/x-www-form-urlencoded"))
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		s.TB.Fatal(err)
	}
	return response
}

// try gets a prompt.
func (s *trier) try(form url.Values) (state, html string) {
	s.TB.Helper()
	response := s.post("/try", form)
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return response.Status, ""
	}
	var tried struct{ State, HTML string }
	if err := json.NewDecoder(response.Body).Decode(&tried); err != nil {
		s.TB.Fatal(err)
	}
	return tried.State, tried.HTML
}

// logged waits until the audit log has lines with all parts.
func (s *trier) logged(parts ...string) {
	s.TB.Helper()
	content, err := os.ReadFile(s.log)
	if err != nil {
		s.TB.Fatal(err)
	}
	for line := range strings.Lines(string(content)) {
		found := true
		for _, part := range parts {
			found = found && strings.Contains(line, part)
		}
		if found {
			return
		}
	}
	s.TB.Errorf("no line with %q in\n%s", parts, content)
}

// Nobody answers what a server asks during the get.
func TestTry_DeclinesWhatAServerAsks(t *testing.T) {
	p := gatewaytest.NewRequestingPeer(t, gatewaytest.FormElicitation)
	s := serveTriers(t, gatewaytest.Team("eng", "", "", p.Peer))
	state, html := s.try(url.Values{"name": {"up.ask"}})
	if state != "done" || !strings.Contains(html, "no client can be asked during this call") { // the server's reason
		t.Errorf("%s: %s", state, html)
	}
}

func TestTry_GetsAsTheOperator(t *testing.T) {
	p := gatewaytest.NewPeer(t, "up", `{"name":"a","arguments":[{"name":"topic"},{"name":"empty"}]}`)
	s := serveTriers(t, gatewaytest.Team("eng", "", "", p))
	page := gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/prompt?name=up.a", "", gatewaytest.Bearer("operator")).Body
	if form, lost := strings.Index(page, `id="tryit"`), strings.Index(page, "Lost in clients"); form < 0 || lost < form {
		t.Errorf("the form is at %d, and what is lost in clients at %d", form, lost)
	}
	state, html := s.try(url.Values{"name": {"up.a"}, "as": {"user:bob"}, "a:topic": {"x"}, "a:empty": {""}})
	if state != "done" || !strings.Contains(html, "from up") {
		t.Errorf("%s: %s", state, html)
	}
	if params := string(p.Calls("prompts/get")[0].Params); !strings.Contains(params, `"arguments":{"topic":"x"}`) {
		t.Errorf("params %s", params)
	}
	s.logged(`"event":"get"`, `"subject":"operator"`, `"prompt":"up.a"`, `"upstream":"up"`, `"team":"eng"`, `"arguments":["topic"]`, `"via":"console"`, `"as":"user:bob"`, `"outcome":"ok"`, `"client":"127.0.0.1"`)
}

func TestTry_ShowsEachKindOfMessage(t *testing.T) {
	p := gatewaytest.NewPeer(t, "up", "a")
	const png = "iVBORw0KGgo="
	p.Answer("prompts/get", `{"description":"<i>d","messages":[
		{"role":"user","content":{"type":"text","text":"<script>alert(1)</script>\u202e"}},
		{"role":"assistant","content":{"type":"image","mimeType":"image/png","data":"`+png+`"}},
		{"role":"user","content":{"type":"image","mimeType":"image/svg+xml","data":"`+png+`"}},
		{"role":"user","content":{"type":"image","mimeType":"image/png","data":"\" onerror=\"alert(1)"}},
		{"role":"user","content":{"type":"audio","mimeType":"audio/wav","data":"`+png+`"}},
		{"role":"user","content":{"type":"resource","resource":{"uri":"file:///x","mimeType":"text/plain","text":"inside"}}},
		{"role":"user","content":{"type":"resource","resource":{"uri":"file:///y","mimeType":"text/html","blob":"`+png+`"}}},
		{"role":"user","content":{"type":"resource_link","uri":"javascript:alert(1)","name":"a link"}},
		{"role":"user","content":{"type":"else"}}]}`)
	s := serveTriers(t, gatewaytest.Team("eng", "", "", p))
	state, html := s.try(url.Values{"name": {"up.a"}})
	if state != "done" {
		t.Fatalf("%s: %s", state, html)
	}
	for _, part := range []string{
		"&lt;i&gt;d", "&lt;script&gt;alert(1)", "⟨U+202E⟩", `<img src="data:image/png;base64,` + png + `"`, "image/svg+xml, 8 bytes, which is not shown",
		`<audio controls src="data:audio/wav;base64,` + png + `"`, "file:///x", "inside", "text/html, 8 bytes", "a link", "unknown kind: else",
	} {
		if !strings.Contains(html, part) {
			t.Errorf("no %s in\n%s", part, html)
		}
	}
	if strings.Count(html, "<img") != 1 || strings.Contains(html, "<script") || strings.Contains(html, `href="javascript`) {
		t.Errorf("unsafe:\n%s", html)
	}
}

// The cost of a result is bounded by the part that is shown.
func TestTry_BoundsWhatIsShown(t *testing.T) {
	p := gatewaytest.NewPeer(t, "up", "a")
	p.Settings = "max_message = 33554432"
	const image = `{"role":"user","content":{"type":"image","mimeType":"image/png","data":"%s"}}`
	large := fmt.Sprintf(image, strings.Repeat("A", 5<<20))
	p.Answer("prompts/get", `{"messages":[`+large+","+large+strings.Repeat(`,{"role":"user","content":{"type":"text","text":"word"}}`, 10_000)+`],`+
		`"_meta":{"nested":`+strings.Repeat("[", 100)+strings.Repeat("1,", 1<<20)+"1"+strings.Repeat("]", 100)+`}}`)
	s := serveTriers(t, gatewaytest.Team("eng", "", "", p))
	response := s.post("/try", url.Values{"name": {"up.a"}})
	defer response.Body.Close()
	shown, err := io.ReadAll(response.Body)
	if err != nil || len(shown) > 6<<20 {
		t.Errorf("%d bytes, %v", len(shown), err)
	}
	for part, want := range map[string]int{"data:image/png": 1, "image/png, 3 932 160 bytes, which is not shown": 1, "word": 198, "9802 messages more, not shown": 1} {
		upstreamtest.Equal(t, want, strings.Count(strings.ReplaceAll(string(shown), "\u202f", " "), part), "times of %q", part)
	}
}

func TestTry_SaysWhyItFailed(t *testing.T) {
	p := gatewaytest.NewPeer(t, "up", "a", `{"name":"b","arguments":[{"name":"x","required":true}]}`)
	p.Answer("prompts/get", `error:{"code":-32002,"message":"<b>no"}`)
	s := serveTriers(t, gatewaytest.Team("eng", "", "", p, gatewaytest.NewDownPeer(t)))
	for name, want := range map[string]string{"up.a": "&lt;b&gt;no", "up.b": "x", "up.c": "Unknown prompt"} {
		if state, html := s.try(url.Values{"name": {name}}); state != "failed" || !strings.Contains(html, want) {
			t.Errorf("%s: %s %s, want %s", name, state, html, want)
		}
	}
	s.logged(`"prompt":"up.a"`, `"outcome":"upstream_error"`, `"code":-32002`, `"via":"console"`)
	s.logged(`"prompt":"up.b"`, `"outcome":"refused"`)
	s.logged(`"prompt":"up.c"`, `"outcome":"unknown"`)
}

func TestTry_CompletesArguments(t *testing.T) {
	p := gatewaytest.NewPeer(t, "up", `{"name":"a","arguments":[{"name":"x"},{"name":"y"}]}`)
	p.Answer("completion/complete", `{"completion":{"values":["one","<two>"]}}`)
	s := serveTriers(t, gatewaytest.Team("eng", "", "", p))
	response := s.post("/complete", url.Values{"name": {"up.a"}, "argument": {"x"}, "a:x": {"o"}, "a:y": {"known"}})
	defer response.Body.Close()
	var got struct{ Values []string }
	if err := json.NewDecoder(response.Body).Decode(&got); err != nil || strings.Join(got.Values, " ") != "one <two>" {
		t.Errorf("%v, %v", got, err)
	}
	params := string(p.Calls("completion/complete")[0].Params)
	for _, part := range []string{`"argument":{"name":"x","value":"o"}`, `"context":{"arguments":{"y":"known"}}`} {
		if !strings.Contains(params, part) {
			t.Errorf("params %s, want %s", params, part)
		}
	}
	s.logged(`"event":"completion"`, `"via":"console"`, `"outcome":"ok"`)
}

// Being on this machine is not enough.
func TestTry_NeedsTheAdminToken(t *testing.T) {
	p := gatewaytest.NewPeer(t, "up", "a")
	open := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", p))
	for _, path := range []string{"/try", "/complete"} {
		gatewaytest.Send(t, http.MethodPost, open.AdminURL+path, "name=up.a", nil).Want(t, http.StatusForbidden)
	}
	gatewaytest.Send(t, http.MethodGet, open.AdminURL+"/prompt?name=up.a", "", nil).Want(t, http.StatusOK, "To try it here, open the link")
	s := serveTriers(t, gatewaytest.Team("eng", "", "", p))
	s.token = "wrong"
	if state, _ := s.try(url.Values{"name": {"up.a"}}); !strings.HasPrefix(state, "403") {
		t.Errorf("with a wrong token: %s", state)
	}
	if calls := p.Calls("prompts/get"); len(calls) > 0 {
		t.Errorf("%d gets", len(calls))
	}
}

// Whoever closes the page ends the get.
func TestTry_EndsWithThePage(t *testing.T) {
	p := gatewaytest.NewPeer(t, "up", "a")
	entered, release := p.PauseGets()
	defer release()
	s := serveTriers(t, gatewaytest.Team("eng", "", "", p))
	ctx, leave := context.WithCancel(t.Context())
	go func() {
		<-entered
		leave()
	}()
	r := gatewaytest.NewRequest(ctx, t, http.MethodPost, s.AdminURL+"/try", "name=up.a",
		append(gatewaytest.Bearer(s.token), "Content-Type", "application/x-www-form-urlencoded"))
	if response, err := http.DefaultClient.Do(r); err == nil {
		_ = response.Body.Close()
		t.Fatal("the get has ended before the page was closed")
	}
	eventually(t, "the get is recorded as cancelled", func() bool {
		content, _ := os.ReadFile(s.log)
		return strings.Contains(string(content), `"outcome":"cancelled"`)
	})
}
