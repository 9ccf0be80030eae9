package transport_test

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

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

var update = flag.Bool("update", false, "rewrite testdata/wire") //nolint:gochecknoglobals // a flag

// The transcripts in testdata/wire have one session of each revision, header by header, and serve as documentation too.
func TestWire_MatchesTheTranscripts(t *testing.T) {
	for _, revision := range append([]string{gatewaytest.Latest}, gatewaytest.LegacyRevisions...) {
		t.Run(revision, func(t *testing.T) {
			p := gatewaytest.NewPeer(t, "reviews", `{"name":"code","title":"Review code","description":"Reviews a change.","arguments":[{"name":"diff","required":true}]}`, "prose")
			s := gatewaytest.Serve(t, `gateway { page_size = 1 }`+"\n"+gatewaytest.Team("eng", "", "", p))
			tr := &transcript{t: t, url: s.URL, revision: revision}
			tr.session(s, p)
			tr.compare(filepath.Join("testdata", "wire", revision+".txtar"))
		})
	}
}

// Over HTTP+SSE, requests and responses travel apart.
func TestWire_MatchesTheTranscriptOfSSE(t *testing.T) {
	const revision = "2024-11-05"
	p := gatewaytest.NewPeer(t, "reviews", "code", "prose")
	s := gatewaytest.Serve(t, `gateway { page_size = 1 }`+"\n"+gatewaytest.Team("eng", "", "", p))
	tr := &transcript{t: t, url: s.URL, revision: revision}
	c := s.SSE("")
	tr.file("open", "GET /sse\nAccept: text/event-stream\n\n-> 200 OK\n")
	tr.archive.Files[0].Data = append(tr.archive.Files[0].Data, "Content-Type: "+c.Header.Get("Content-Type")+"\n\nevent: endpoint\ndata: /sse?sessionId=<session>\n"...)
	if !regexp.MustCompile(`/sse\?sessionId=[^&]+$`).MatchString(c.Endpoint) {
		t.Fatalf("the endpoint is %s", c.Endpoint)
	}
	say := func(name, method, params string) (event string) {
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params)
		c.Send(body)
		event = c.WantMessage(`"id":1`)
		gatewaytest.CheckSchema(t, revision, method, event)
		tr.overSSE(name, body, event)
		return event
	}
	say("initialize", "initialize", gatewaytest.InitializeParams(revision))
	const initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	c.Send(initialized)
	tr.overSSE("initialized", initialized, "")
	first := gatewaytest.Response{Body: say("first-page", "prompts/list", "{}")}
	say("last-page", "prompts/list", `{"cursor":`+string(first.Result(t, "nextCursor"))+`}`)
	say("get", "prompts/get", gatewaytest.GetParams("reviews.code"))
	say("get-of-an-unknown-prompt", "prompts/get", gatewaytest.GetParams("reviews.none"))
	p.AwaitStream().Offer("code", "prose", "tests")
	tr.overSSE("change", "", c.WantMessage("list_changed"))
	tr.compare(filepath.Join("testdata", "wire", revision+"-sse.txtar"))
}

// overSSE records a POST, if there is a body, and the event that follows it on the stream.
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

// transcript records messages.
type transcript struct {
	t             testing.TB
	url, revision string
	archive       txtar.Archive
}

// session plays the session that is recorded.
func (tr *transcript) session(s *gatewaytest.Server, p *gatewaytest.Peer) {
	c := &gatewaytest.Client{Server: s, TB: tr.t, Revision: tr.revision}
	if tr.revision == gatewaytest.Latest {
		tr.say(c, "discover", "server/discover", "")
	} else {
		a := tr.say(c, "initialize", "initialize", gatewaytest.InitializeParams(tr.revision))
		c.Headers = gatewaytest.Headers{"Mcp-Session-Id", a.Header.Get("Mcp-Session-Id"), "Mcp-Protocol-Version", tr.revision}
		if tr.revision < "2025-06-18" { // earlier revisions have no such header
			c.Headers = c.Headers[:2]
		}
		tr.exchange("initialized", http.MethodPost, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, c.Headers)
	}
	first := tr.say(c, "first-page", "prompts/list", "")
	tr.say(c, "last-page", "prompts/list", `{"cursor":`+string(first.Result(tr.t, "nextCursor"))+`}`)
	tr.say(c, "get", "prompts/get", `{"name":"reviews.code","arguments":{"diff":"-a +b"}}`)
	tr.say(c, "get-without-a-required-argument", "prompts/get", gatewaytest.GetParams("reviews.code"))
	tr.say(c, "get-of-an-unknown-prompt", "prompts/get", gatewaytest.GetParams("reviews.none"))
	tr.say(c, "complete", "completion/complete", gatewaytest.CompleteParams("reviews.code"))
	tr.say(c, "a-list-of-something-else", "tools/list", "")
	if tr.revision == "2025-03-26" {
		tr.exchange("a-batch", http.MethodPost, `[{"jsonrpc":"2.0","id":1,"method":"ping"},`+
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}},`+
			`{"jsonrpc":"2.0","id":2,"method":"prompts/get","params":{"name":"reviews.prose"}}]`, c.Headers)
	}
	tr.listen(c, p)
	if tr.revision != gatewaytest.Latest {
		tr.exchange("end", http.MethodDelete, "", c.Headers)
		tr.say(c, "after-the-end", "ping", "")
	}
}

func (tr *transcript) say(c *gatewaytest.Client, name, method, params string) gatewaytest.Response {
	body, h := c.Encode(`1`, method, params)
	a := tr.exchange(name, http.MethodPost, body, h)
	gatewaytest.CheckSchema(tr.t, tr.revision, method, a.Body)
	return a
}

func (tr *transcript) exchange(name, method, body string, h gatewaytest.Headers) gatewaytest.Response {
	a := gatewaytest.Send(tr.t, method, tr.url, body, h)
	tr.write(name, method, body, h, a.Status, a.Header, a.Body)
	return a
}

// listen records a stream with one change, until the gateway ends it.
func (tr *transcript) listen(c *gatewaytest.Client, p *gatewaytest.Peer) {
	method, body, h := http.MethodGet, "", append(gatewaytest.Headers{"Accept", "text/event-stream"}, c.Headers...)
	if tr.revision == gatewaytest.Latest {
		method = http.MethodPost
		body, h = c.Encode(`"changes"`, "subscriptions/listen", `{"notifications":{"promptsListChanged":true}}`)
	}
	stream := c.OpenStream(method, body, h)
	p.AwaitStream().Offer("code", "prose", "tests")
	var events strings.Builder
	for event := range stream.Events {
		if event.LastEventID != "" {
			events.WriteString("id: " + event.LastEventID + "\n")
		}
		events.WriteString("data: " + pretty(event.Data) + "\n\n")
		if strings.Contains(event.Data, "list_changed") {
			c.Drain()
		}
	}
	tr.write("changes", method, body, h, stream.Status, stream.Header, strings.TrimSpace(events.String()))
}

func (tr *transcript) write(name, method, body string, h gatewaytest.Headers, status int, got http.Header, text string) {
	var b strings.Builder
	r := gatewaytest.NewRequest(tr.t.Context(), tr.t, method, tr.url, body, h)
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

// writeHeaders writes the headers that belong to the protocol.
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

// volatile are the texts that differ from run to run, by their placeholders.
var volatile = map[string]*regexp.Regexp{ //nolint:gochecknoglobals // a constant table
	"Mcp-Session-Id: <session>": regexp.MustCompile(`Mcp-Session-Id: \S+`),
	`ursor": "<cursor>"`:        regexp.MustCompile(`ursor": "[^"]+"`),
	"id: <stream>.$1.<view>":    regexp.MustCompile(`id: [A-Z2-7]{26}\.(\d+)\.[0-9a-f]{32}`),
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
	tr.archive.Comment = fmt.Appendf(nil, "One session of revision %s over %s, as gateway/transport/wire_test.go plays it.\n"+
		"Values in <> differ from run to run; JSON is indented for reading. Rewritten by: go test ./gateway/transport -run TestWire -update\n\n", tr.revision, transport)
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
	upstreamtest.Equal(tr.t, string(want), string(got), "%s", path)
}
