package gateway_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

var update = flag.Bool("update", false, "rewrite testdata/wire") //nolint:gochecknoglobals // a flag

// TestWire holds one session of each revision, over HTTP, against testdata/wire: what is said on the wire, header by
// header, to be read as documentation.
func TestWire(t *testing.T) {
	for _, revision := range append([]string{latest}, legacyRevisions...) {
		t.Run(revision, func(t *testing.T) {
			p := newPeer(t, "reviews", `{"name":"code","title":"Review code","description":"Reviews a change.","arguments":[{"name":"diff","required":true}]}`, "prose")
			s := serve(t, `gateway { page_size = 1 }`+"\n"+team("eng", "", "", p))
			tr := &transcript{t: t, url: s.url, revision: revision}
			tr.session(s, p)
			tr.compare(filepath.Join("testdata", "wire", revision+".txtar"))
		})
	}
}

// TestWireOverSSE is TestWire for HTTP+SSE, where requests and responses travel apart.
func TestWireOverSSE(t *testing.T) {
	const revision = "2024-11-05"
	p := newPeer(t, "reviews", "code", "prose")
	s := serve(t, `gateway { page_size = 1 }`+"\n"+team("eng", "", "", p))
	tr := &transcript{t: t, url: s.url, revision: revision}
	c := s.sse("")
	tr.file("open", "GET /sse\nAccept: text/event-stream\n\n-> 200 OK\n")
	tr.archive.Files[0].Data = append(tr.archive.Files[0].Data, "Content-Type: "+c.header.Get("Content-Type")+"\n\nevent: endpoint\ndata: /sse?sessionId=<session>\n"...)
	if !regexp.MustCompile(`/sse\?sessionId=[^&]+$`).MatchString(c.endpoint) {
		t.Fatalf("the endpoint is %s", c.endpoint)
	}
	say := func(name, method, params string) (event string) {
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params)
		c.post(body)
		event = c.expect(`"id":1`)
		conform(t, revision, method, event)
		tr.overSSE(name, body, event)
		return event
	}
	say("initialize", "initialize", initializeParams(revision))
	const initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	c.post(initialized)
	tr.overSSE("initialized", initialized, "")
	first := answer{body: say("first-page", "prompts/list", "{}")}
	say("last-page", "prompts/list", `{"cursor":`+string(first.result(t, "nextCursor"))+`}`)
	say("get", "prompts/get", get("reviews.code"))
	say("get-of-an-unknown-prompt", "prompts/get", get("reviews.none"))
	p.watched().offer("code", "prose", "tests")
	tr.overSSE("change", "", c.expect("list_changed"))
	tr.compare(filepath.Join("testdata", "wire", revision+"-sse.txtar"))
}

// overSSE writes down a POST, unless there is none, and the event that came for it on the stream.
func (tr *transcript) overSSE(name, body, event string) {
	var text string
	if body != "" {
		text = "POST /sse?sessionId=<session>\nContent-Type: application/json\n\n" + pretty(body) + "\n\n-> 202 Accepted\n"
	}
	if event != "" {
		text += "\nthe stream says:\nevent: message\ndata: " + pretty(event) + "\n"
	}
	tr.file(name, strings.TrimPrefix(text, "\n"))
}

// transcript writes down what is said.
type transcript struct {
	t             testing.TB
	url, revision string
	archive       txtar.Archive
}

// session is what the transcript is of.
func (tr *transcript) session(s *server, p *peer) {
	c := &client{server: s, t: tr.t, revision: tr.revision}
	if tr.revision == latest {
		tr.say(c, "discover", "server/discover", "")
	} else {
		a := tr.say(c, "initialize", "initialize", initializeParams(tr.revision))
		c.headers = headers{"Mcp-Session-Id", a.header.Get("Mcp-Session-Id"), "Mcp-Protocol-Version", tr.revision}
		if tr.revision < "2025-06-18" { // the header came with that revision
			c.headers = c.headers[:2]
		}
		tr.exchange("initialized", http.MethodPost, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, c.headers)
	}
	first := tr.say(c, "first-page", "prompts/list", "")
	tr.say(c, "last-page", "prompts/list", `{"cursor":`+string(first.result(tr.t, "nextCursor"))+`}`)
	tr.say(c, "get", "prompts/get", `{"name":"reviews.code","arguments":{"diff":"-a +b"}}`)
	tr.say(c, "get-without-a-required-argument", "prompts/get", get("reviews.code"))
	tr.say(c, "get-of-an-unknown-prompt", "prompts/get", get("reviews.none"))
	tr.say(c, "complete", "completion/complete", complete("reviews.code"))
	tr.say(c, "a-list-of-something-else", "tools/list", "")
	if tr.revision == "2025-03-26" {
		tr.exchange("a-batch", http.MethodPost, `[{"jsonrpc":"2.0","id":1,"method":"ping"},`+
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}},`+
			`{"jsonrpc":"2.0","id":2,"method":"prompts/get","params":{"name":"reviews.prose"}}]`, c.headers)
	}
	tr.listen(c, p)
	if tr.revision != latest {
		tr.exchange("end", http.MethodDelete, "", c.headers)
		tr.say(c, "after-the-end", "ping", "")
	}
}

func (tr *transcript) say(c *client, name, method, params string) answer {
	body, h := c.envelope(`1`, method, params)
	a := tr.exchange(name, http.MethodPost, body, h)
	conform(tr.t, tr.revision, method, a.body)
	return a
}

func (tr *transcript) exchange(name, method, body string, h headers) answer {
	a := send(tr.t, method, tr.url, body, h)
	tr.write(name, method, body, h, a.status, a.header, a.body)
	return a
}

// listen writes down a stream with one change, until the gateway ends it.
func (tr *transcript) listen(c *client, p *peer) {
	method, body, h := http.MethodGet, "", append(headers{"Accept", "text/event-stream"}, c.headers...)
	if tr.revision == latest {
		method = http.MethodPost
		body, h = c.envelope(`"changes"`, "subscriptions/listen", `{"notifications":{"promptsListChanged":true}}`)
	}
	stream := c.openWith(method, body, h)
	p.watched().offer("code", "prose", "tests")
	events, data := "", ""
	for data != "done" {
		event, ok := <-stream.events
		switch {
		case !ok:
			data = "done"
			continue
		case event.LastEventID != "":
			events += "id: " + event.LastEventID + "\n"
		}
		events += "data: " + pretty(event.Data) + "\n\n"
		if strings.Contains(event.Data, "list_changed") {
			c.Drain()
		}
	}
	tr.write("changes", method, body, h, stream.status, stream.header, strings.TrimSpace(events))
}

func (tr *transcript) write(name, method, body string, h headers, status int, got http.Header, text string) {
	var b strings.Builder
	r := newHTTPRequest(tr.t.Context(), tr.t, method, tr.url, body, h)
	fmt.Fprintf(&b, "%s /mcp\n", method)
	writeHeaders(&b, r.Header)
	if body != "" {
		fmt.Fprintf(&b, "\n%s\n", pretty(body))
	}
	fmt.Fprintf(&b, "\n-> %d %s\n", status, http.StatusText(status))
	writeHeaders(&b, got)
	if text != "" {
		fmt.Fprintf(&b, "\n%s\n", pretty(text))
	}
	tr.file(name, b.String()+"\n")
}

func (tr *transcript) file(name, text string) {
	name = fmt.Sprintf("%02d-%s", len(tr.archive.Files)+1, name)
	tr.archive.Files = append(tr.archive.Files, txtar.File{Name: name, Data: []byte(placeholders(text))})
}

// writeHeaders writes those that say something about the protocol.
func writeHeaders(b *strings.Builder, h http.Header) {
	for _, name := range []string{"Accept", "Content-Type", "Mcp-Protocol-Version", "Mcp-Session-Id", "Mcp-Method", "Mcp-Name", "Cache-Control", "X-Accel-Buffering"} {
		if value := h.Get(name); value != "" {
			fmt.Fprintf(b, "%s: %s\n", name, value)
		}
	}
}

func pretty(text string) string {
	var b bytes.Buffer
	if json.Indent(&b, []byte(text), "", "  ") != nil {
		return text
	}
	return b.String()
}

// volatile is what differs from run to run, by the placeholder for it.
var volatile = map[string]*regexp.Regexp{ //nolint:gochecknoglobals // a constant table
	"Mcp-Session-Id: <session>": regexp.MustCompile(`Mcp-Session-Id: \S+`),
	`ursor": "<cursor>"`:        regexp.MustCompile(`ursor": "[^"]+"`),
	"id: <stream>.$1.<view>":    regexp.MustCompile(`id: [0-9a-f]{16}\.(\d+)\.[0-9a-f]{32}`),
}

func placeholders(text string) string {
	for placeholder, pattern := range volatile {
		text = pattern.ReplaceAllString(text, placeholder)
	}
	return text
}

func (tr *transcript) compare(path string) {
	transport := "HTTP"
	if strings.Contains(path, "sse") {
		transport = "HTTP+SSE"
	}
	tr.archive.Comment = fmt.Appendf(nil, "One session of revision %s over %s, as gateway/wire_test.go plays it.\n"+
		"Values in <> differ from run to run; JSON is indented for reading. Rewritten by: go test ./gateway -run TestWire -update\n\n", tr.revision, transport)
	got := txtar.Format(&tr.archive)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			tr.t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o600); err != nil {
			tr.t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		tr.t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		tr.t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}
