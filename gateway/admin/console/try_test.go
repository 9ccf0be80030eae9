package console_test

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/audit"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
)

// trier is somebody who tries prompts with the admin token.
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

// try gets a prompt. Each question is answered by a function, which gets the path for answers and
// the question.
func (s *trier) try(form url.Values, answer func(path, question string)) (state, html string) {
	s.TB.Helper()
	response := s.post("/try", form)
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return response.Status, ""
	}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e struct{ State, HTML string }
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			s.TB.Fatalf("%v: %s", err, lines.Text())
		}
		if e.State != "asking" {
			return e.State, e.HTML
		}
		run := regexp.MustCompile(`data-run="(\w+)"`).FindStringSubmatch(e.HTML)
		answer("/try/"+run[1], e.HTML)
	}
	s.TB.Fatalf("the response ends without an outcome: %v", lines.Err())
	return "", ""
}

// answers answers a question, and wants a status.
func (s *trier) answers(path string, status int, form url.Values) {
	s.TB.Helper()
	response := s.post(path, form)
	defer response.Body.Close()
	if response.StatusCode != status {
		s.TB.Errorf("%s %v: %s, want %d", path, form, response.Status, status)
	}
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

const forms = `elicitation/create {"message":"<b>Who?</b>","requestedSchema":{"type":"object","required":["age"],"properties":{` +
	`"name":{"type":"string","title":"Your name"},"age":{"type":"integer","description":"In years","minimum":18},"mail":{"type":"string","format":"email"},"kind":{"type":"string","enum":["a","b"],"enumNames":["Apple","Bee"],"default":"b"},` +
	`"many":{"type":"array","items":{"enum":["x","y","z"]}},"sure":{"type":"boolean"}}}}`

func TestTry_AnswersWhatAServerAsks(t *testing.T) {
	p := gatewaytest.NewRequestingPeer(t, forms, gatewaytest.URLElicitation)
	s := serveTriers(t, gatewaytest.Team("eng", "", "", p.Peer))
	asked := 0
	state, html := s.try(url.Values{"name": {"up.ask"}, "as": {"user:bob"}, "a:topic": {"x"}, "a:empty": {""}}, func(path, question string) {
		asked++
		if asked == 2 {
			if !strings.Contains(question, `href="https://example.com/"`) {
				t.Errorf("no link in %s", question)
			}
			s.answers(path, http.StatusOK, url.Values{"action": {"accept"}})
			return
		}
		for _, part := range []string{"&lt;b&gt;Who?&lt;/b&gt;", "Your name", "In years", "At least 18.", `type="email"`, `<option value="a">Apple</option>`, `type="checkbox" name="a:many" value="z"`} {
			if !strings.Contains(question, part) {
				t.Errorf("no %s in %s", part, question)
			}
		}
		s.answers(path, http.StatusUnprocessableEntity, url.Values{"action": {"accept"}, "a:age": {"old"}})
		s.answers(path, http.StatusUnprocessableEntity, url.Values{"action": {"accept"}, "a:age": {"17"}})
		s.answers(path, http.StatusUnprocessableEntity, url.Values{"action": {"accept"}, "a:age": {"41"}, "a:mail": {"nobody"}})
		s.answers(path, http.StatusBadRequest, url.Values{"action": {"else"}})
		s.answers(path, http.StatusOK, url.Values{"action": {"accept"}, "a:name": {"Ann"}, "a:age": {"41"}, "a:many": {"x", "z"}, "a:sure": {"true"}})
	})
	if state != "done" || asked != 2 {
		t.Fatalf("%s after %d questions: %s", state, asked, html)
	}
	for _, part := range []string{`{&#34;name&#34;:&#34;Ann&#34;,&#34;age&#34;:41,&#34;kind&#34;:&#34;b&#34;,&#34;many&#34;:[&#34;x&#34;,&#34;z&#34;],&#34;sure&#34;:true}`} {
		if !strings.Contains(html, part) {
			t.Errorf("no %s in %s", part, html)
		}
	}
	call := p.Calls("prompts/get")[0]
	if got := string(call.Params); !strings.Contains(got, `"arguments":{"topic":"x"}`) {
		t.Errorf("params %s", got)
	}
	s.logged(`"event":"get"`, `"subject":"operator"`, `"prompt":"up.ask"`, `"upstream":"up"`, `"team":"eng"`, `"arguments":["topic"]`, `"via":"console"`, `"as":"user:bob"`, `"outcome":"ok"`, `"client":"127.0.0.1"`)

	state, html = s.try(url.Values{"name": {"up.ask"}}, func(path, _ string) { s.answers(path, http.StatusOK, url.Values{"action": {"decline"}}) })
	if state != "done" || !strings.Contains(html, "decline") {
		t.Errorf("declined: %s %s", state, html)
	}
	s.answers("/try/none", http.StatusNotFound, url.Values{"action": {"accept"}})
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
	state, html := s.try(url.Values{"name": {"up.a"}}, nil)
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

// A person sees where an address leads before it is opened, whatever the server puts around that.
func TestTry_SaysWhereAnAddressLeads(t *testing.T) {
	for address, want := range map[string][]string{
		"https://accounts.example.com:443@evil.example.org/" + strings.Repeat("x", 2000) + "/end": {"<b><bdi>evil.example.org</bdi></b>", "x/end"},
		"https://xn--80ak6aa92e.com/": {"<bdi>xn--80ak6aa92e.com</bdi>", "may imitate another name"},
		"javascript:alert(1)":         {"<code><bdi>javascript:alert(1)</bdi></code>"},
	} {
		p := gatewaytest.NewRequestingPeer(t, fmt.Sprintf(`elicitation/create {"mode":"url","message":"Go","elicitationId":"1","url":%q}`, address))
		s := serveTriers(t, gatewaytest.Team("eng", "", "", p.Peer))
		s.try(url.Values{"name": {"up.ask"}}, func(path, question string) {
			for _, part := range want {
				if !strings.Contains(question, part) {
					t.Errorf("no %s in %s", part, question)
				}
			}
			if strings.Contains(question, `href="javascript`) {
				t.Errorf("a link that runs: %s", question)
			}
			s.answers(path, http.StatusOK, url.Values{"action": {"decline"}})
		})
	}
}

// A result costs what is shown of it, whatever the server packs into it.
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
		if got := strings.Count(strings.ReplaceAll(string(shown), "\u202f", " "), part); got != want {
			t.Errorf("%d times %q, want %d", got, part, want)
		}
	}
}

func TestTry_SaysWhyItFailed(t *testing.T) {
	p := gatewaytest.NewPeer(t, "up", "a", `{"name":"b","arguments":[{"name":"x","required":true}]}`)
	p.Answer("prompts/get", `error:{"code":-32002,"message":"<b>no"}`)
	s := serveTriers(t, gatewaytest.Team("eng", "", "", p, gatewaytest.NewDownPeer(t)))
	for name, want := range map[string]string{"up.a": "&lt;b&gt;no", "up.b": "x", "up.c": "Unknown prompt"} {
		if state, html := s.try(url.Values{"name": {name}}, nil); state != "failed" || !strings.Contains(html, want) {
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
	for _, path := range []string{"/try", "/try/x", "/complete"} {
		gatewaytest.Send(t, http.MethodPost, open.AdminURL+path, "name=up.a", nil).Want(t, http.StatusForbidden)
	}
	gatewaytest.Send(t, http.MethodGet, open.AdminURL+"/prompt?name=up.a", "", nil).Want(t, http.StatusOK, "To try it here, open the link")
	s := serveTriers(t, gatewaytest.Team("eng", "", "", p))
	s.token = "wrong"
	if state, _ := s.try(url.Values{"name": {"up.a"}}, nil); !strings.HasPrefix(state, "403") {
		t.Errorf("with a wrong token: %s", state)
	}
	if calls := p.Calls("prompts/get"); len(calls) > 0 {
		t.Errorf("%d gets", len(calls))
	}
}

// Whoever closes the page ends the get, and what it asks.
func TestTry_EndsWithThePage(t *testing.T) {
	p := gatewaytest.NewRequestingPeer(t, gatewaytest.FormElicitation)
	s := serveTriers(t, gatewaytest.Team("eng", "", "", p.Peer))
	response := s.post("/try", url.Values{"name": {"up.ask"}})
	line, err := bufio.NewReader(response.Body).ReadString('\n')
	if err != nil || !strings.Contains(line, "asking") {
		t.Fatalf("%s, %v", line, err)
	}
	response.Body.Close()
	path := "/try/" + regexp.MustCompile(`data-run=\\"(\w+)\\"`).FindStringSubmatch(line)[1]
	eventually(t, "the run has ended", func() bool {
		ended := s.post(path, url.Values{"action": {"neither"}}) // which answers nothing, as one that is known would
		defer ended.Body.Close()
		return ended.StatusCode == http.StatusNotFound
	})
	eventually(t, "the server hears of it", func() bool { return p.AbandonedGets() == 1 })
	s.logged(`"prompt":"up.ask"`, `"outcome":"cancelled"`)
}
