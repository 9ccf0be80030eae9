package transport_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// A client of each revision, over each transport that the revision has, talks through the gateway to an upstream of each
// revision, over each transport. The test logs the outcome as a table.
func TestMatrix_AllClientsWithAllUpstreams(t *testing.T) {
	var text strings.Builder
	var ups []end
	for _, e := range ends() {
		if e.transport == "sse" && e.revision != "2024-11-05" {
			continue // the next revision replaced it by Streamable HTTP
		}
		ups = append(ups, e)
		startActor(t, e, &text)
	}
	s := gatewaytest.Serve(t, "gateway { page_size = 50 }\n"+"team \"eng\" {\n"+text.String()+"}\n")
	want := len(ups) * len(actorPrompts())
	upstreamtest.Eventually(t, "each upstream's prompts are listed", func() bool { return len(s.Modern("").List()) == want })
	table := [][]string{{"client \\ upstream"}}
	for _, up := range ups {
		table[0] = append(table[0], up.String())
	}
	// Most of the time is that between two notifications of one client, so that clients play side by side. Each begins with
	// another upstream, and has it to itself: an upstream counts what reaches it.
	playing := make([]sync.Mutex, len(ups))
	var clients sync.WaitGroup // more of them than t.Parallel would let play at a time
	for i, down := range ends() {
		row := make([]string, 1+len(ups))
		row[0] = down.String()
		table = append(table, row)
		clients.Go(func() {
			t.Run("client "+down.String(), func(t *testing.T) {
				c := newCaller(t, s, down)
				for turn := range ups {
					column := (i + turn) % len(ups)
					playing[column].Lock()
					ok := t.Run("upstream "+ups[column].String(), func(t *testing.T) { newCell(t, c, ups[column]).play() })
					playing[column].Unlock()
					row[1+column] = map[bool]string{true: "ok", false: "FAILED"}[ok]
				}
			})
		})
	}
	clients.Wait()
	t.Logf("In each cell: the list over several pages, every type of content, arguments, completion, errors, changes, cancelling.\n%s", aligned(table))
}

func aligned(table [][]string) string {
	var b strings.Builder
	for _, row := range table {
		for _, field := range row {
			fmt.Fprintf(&b, "%-18s", field)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// end is the revision and the transport of a client or an upstream.
type end struct{ revision, transport string }

func (e end) String() string { return e.revision + " " + e.transport }

func (e end) name() string { return strings.ReplaceAll(e.transport+e.revision, "-", "") }

// ends returns each revision over each of its transports. A client may use HTTP+SSE in any legacy revision.
func ends() []end {
	var all []end
	for _, revision := range append(slices.Clone(gatewaytest.LegacyRevisions), gatewaytest.Latest) {
		all = append(all, end{revision, "http"}, end{revision, "stdio"})
		if revision != gatewaytest.Latest {
			all = append(all, end{revision, "sse"})
		}
	}
	return all
}

// cell is one client with one upstream.
type cell struct {
	*caller

	t  *testing.T
	up end
}

func newCell(t *testing.T, c *caller, up end) *cell { return &cell{caller: c, t: t, up: up} }

func (c *cell) play() {
	c.list()
	c.contents()
	c.arguments()
	c.completion()
	c.failures()
	c.change()
	c.cancel()
	if report := c.report(); report.Wrong != nil {
		c.t.Errorf("messages to the upstream violate its schema: %s", report.Wrong)
	}
}

// ask makes a request about a prompt of the upstream, and fails the test if the response violates the client's schema.
func (c *cell) ask(method, params string) gatewaytest.Response {
	c.t.Helper()
	body := c.call(method, strings.ReplaceAll(params, "<up>", c.up.name()))
	a := gatewaytest.Response{Status: http.StatusOK, Body: body}
	if !strings.Contains(params, "<up>.none") && !c.ahead(params) {
		gatewaytest.CheckSchema(c.t, c.end.revision, method, body)
	}
	return a
}

// ahead reports whether params ask for content that a later revision than the client's introduced. The gateway passes it
// on all the same, but the client's schema does not know it.
func (c *cell) ahead(params string) bool {
	for content, since := range map[string]string{"audio": "2025-03-26", "resource_link": "2025-06-18", "hologram": "9999-99-99"} {
		if strings.Contains(params, "<up>."+content) && c.end.revision < since {
			return true
		}
	}
	return false
}

func (c *cell) names() []string {
	c.t.Helper()
	var names []string
	for params, pages := "{}", 1; ; pages++ {
		a := c.ask("prompts/list", params)
		for _, name := range a.Names(c.t) {
			if own, ok := strings.CutPrefix(name, c.up.name()+"."); ok {
				names = append(names, own)
			}
		}
		cursor := a.Result(c.t, "nextCursor")
		if cursor == nil {
			if pages < 2 {
				c.t.Errorf("the list has %d page, want several", pages)
			}
			return names
		}
		params = `{"cursor":` + string(cursor) + `}`
	}
}

func (c *cell) list() {
	c.t.Helper()
	want := actorPrompts()
	slices.Sort(want)
	upstreamtest.Equal(c.t, want, slices.DeleteFunc(c.names(), func(name string) bool { return name == "grown" }),
		"list")
}

func (c *cell) contents() {
	for name, content := range contents {
		if name == "resource_link" {
			c.link(content)
			continue
		}
		c.ask("prompts/get", `{"name":"<up>.`+name+`"}`).Want(c.t, http.StatusOK, `"messages":[{"role":"user","content":`+content+`}]`, `"x-kept":2.50`)
	}
}

// link gets a link, and reads it.
func (c *cell) link(content string) {
	a := c.ask("prompts/get", `{"name":"<up>.resource_link"}`)
	start := strings.Index(a.Body, "promptweir://"+c.up.name()+"/")
	if start < 0 {
		c.t.Fatalf("no link in %s", a.Body)
	}
	uri, _, _ := strings.Cut(a.Body[start:], `"`)
	a.Want(c.t, http.StatusOK, strings.Replace(content, "file:///a", uri, 1), `"x-kept":2.50`)
	c.ask("resources/read", `{"uri":"`+uri+`"}`).Want(c.t, http.StatusOK, `"contents":[{"uri":"`+uri+`","text":"A"}]`, `"x-kept":2.50`)
	unknown := c.ask("resources/read", `{"uri":"`+strings.Replace(uri, "promptweir://", "promptweir://x", 1)+`"}`)
	unknown.Want(c.t, http.StatusOK, `"code":`+map[bool]string{true: "-32602", false: "-32002"}[c.end.revision == gatewaytest.Latest])
}

func (c *cell) arguments() {
	c.ask("prompts/get", `{"name":"<up>.greet","arguments":{"who":"é"}}`).Want(c.t, http.StatusOK, `hello é`)
	c.ask("prompts/get", `{"name":"<up>.greet","arguments":{}}`).Want(c.t, http.StatusOK, `"code":-32602`, `who`)
}

func (c *cell) completion() {
	const about = `{"ref":{"type":"ref/prompt","name":"<up>.%s"},"argument":{"name":"who","value":"w"}}`
	c.ask("completion/complete", fmt.Sprintf(about, "greet")).Want(c.t, http.StatusOK, `"values":["greet w"]`)
	c.ask("completion/complete", fmt.Sprintf(about, "none")).Want(c.t, http.StatusOK, `"code":-32602`)
}

func (c *cell) failures() {
	c.ask("prompts/get", `{"name":"<up>.fail"}`).Want(c.t, http.StatusOK, `"error":`+failure)
	c.ask("prompts/get", `{"name":"<up>.none"}`).Want(c.t, http.StatusOK, `"code":-32602`)
}

// change makes the upstream add or remove a prompt and announce it. The client is notified, and then lists the change.
func (c *cell) change() {
	before := slices.Contains(c.names(), "grown")
	c.ask("prompts/get", `{"name":"<up>.grow"}`).Want(c.t, http.StatusOK, `"messages"`)
	for {
		select {
		case message := <-c.changes:
			gatewaytest.CheckSchema(c.t, c.end.revision, "", message)
		case <-time.After(gatewaytest.Timeout):
			c.t.Fatal("the client was not notified of a change")
		}
		if slices.Contains(c.names(), "grown") != before {
			return // else the notification was about an earlier change of another upstream
		}
	}
}

func (c *cell) cancel() {
	before := c.report()
	cancel := c.start(`{"name":"` + c.up.name() + `.hold"}`)
	upstreamtest.Eventually(c.t, "the upstream holds the get", func() bool { return c.report().Holding == before.Holding+1 })
	cancel()
	upstreamtest.Eventually(c.t, "the upstream knows that the get is cancelled", func() bool {
		now := c.report()
		return now.Holding == before.Holding && now.Cancelled == before.Cancelled+1
	})
}

// report gets the upstream's report.
func (c *cell) report() (r report) {
	c.t.Helper()
	var result struct {
		Result struct {
			Messages []struct{ Content struct{ Text string } }
		}
	}
	a := c.ask("prompts/get", `{"name":"<up>.report"}`)
	err := json.Unmarshal([]byte(a.Body), &result)
	if err == nil && len(result.Result.Messages) == 1 {
		err = json.Unmarshal([]byte(result.Result.Messages[0].Content.Text), &r)
	}
	if err != nil {
		c.t.Fatalf("no report: %v, %s", err, a.Body)
	}
	return r
}

// caller is a client of a revision over a transport.
type caller struct {
	end end
	// call sends a request and returns its response.
	call func(method, params string) string
	// start sends a get without waiting for its response, and returns the function that cancels it.
	start func(params string) (cancel func())
	// changes has the notifications that the client received.
	changes chan string
}

func newCaller(t *testing.T, s *gatewaytest.Server, e end) *caller {
	switch e.transport {
	case "http":
		return httpCaller(t, s, e)
	case "sse":
		c := s.SSESession(e.revision, "")
		return newDuplex(t, e, c.Send, func() (string, bool) {
			event, ok := <-c.Events
			return event.Data, ok
		})
	}
	p := s.Stdio("")
	d := newDuplex(t, e, p.Send, func() (string, bool) {
		line, ok := <-p.Lines
		return line, ok
	})
	if e.revision == gatewaytest.Latest {
		p.Send(`{"jsonrpc":"2.0","id":"changes","method":"subscriptions/listen","params":{"notifications":{"promptsListChanged":true},` + gatewaytest.Meta + `}}`)
		return d
	}
	d.call("initialize", gatewaytest.InitializeParams(e.revision))
	p.Send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return d
}

func httpCaller(t *testing.T, s *gatewaytest.Server, e end) *caller {
	t.Helper()
	var c *gatewaytest.Client
	if e.revision == gatewaytest.Latest {
		c = s.Modern("")
	} else {
		c = s.Legacy(e.revision, "")
	}
	c.TB = t
	changes := make(chan string, 1000)
	stream := c.Listen(`"changes"`)
	go func() {
		for event := range stream.Events {
			if strings.Contains(event.Data, "list_changed") {
				changes <- event.Data
			}
		}
	}()
	return &caller{
		end: e, changes: changes,
		call: func(method, params string) string {
			body, h := c.Encode("1", method, params)
			return gatewaytest.Send(t, http.MethodPost, c.URL, body, h).Body
		},
		start: func(params string) func() {
			ctx, leave := context.WithCancel(t.Context())
			var done sync.WaitGroup
			body, h := c.Encode(`"held"`, "prompts/get", params)
			request := gatewaytest.NewRequest(ctx, t, http.MethodPost, c.URL, body, h)
			done.Go(func() {
				if response, err := http.DefaultClient.Do(request); err == nil {
					_ = response.Body.Close()
				}
			})
			return func() {
				if e.revision != gatewaytest.Latest {
					gatewaytest.Send(t, http.MethodPost, c.URL, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"held"}}`, c.Headers)
				}
				leave()
				done.Wait()
			}
		},
	}
}

// newDuplex returns a caller with one connection for both directions. Next returns the next message.
func newDuplex(t *testing.T, e end, say func(string), next func() (string, bool)) *caller {
	c := &caller{end: e, changes: make(chan string, 1000)}
	answers := make(chan string, 100)
	go func() {
		for message, ok := next(); ok; message, ok = next() {
			switch {
			case strings.Contains(message, "list_changed"):
				c.changes <- message
			case strings.Contains(message, `"id":1,`):
				answers <- message
			}
		}
	}()
	request := func(id, method, params string) string {
		if e.revision == gatewaytest.Latest {
			params = strings.Replace(strings.TrimSuffix(params, "}")+","+gatewaytest.Meta+"}", "{,", "{", 1)
		}
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, id, method, params)
	}
	c.call = func(method, params string) string {
		say(request("1", method, params))
		select {
		case answer := <-answers:
			return answer
		case <-time.After(gatewaytest.Timeout):
			t.Fatalf("no response to %s %s", method, params)
			return ""
		}
	}
	c.start = func(params string) func() {
		say(request(`"held"`, "prompts/get", params))
		return func() {
			say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"held"}}`)
		}
	}
	return c
}

// actor is an MCP server of one revision, for any transport.
type actor struct {
	revision string
	// say sends a notification.
	say func(method string)
	// byResponse says that a client cancels a request by closing its response.
	byResponse bool

	mu sync.Mutex // guards the fields below
	report
	grown   bool
	waiting map[string]chan struct{}
}

// report is an actor's account of what it received.
type report struct {
	Holding, Cancelled int
	// Wrong are the violations of the revision's schema by messages of the gateway.
	Wrong []string
}

// contents are the kinds of content that the revisions know, and one that none knows. Each is the only message of the
// prompt with its name.
var contents = map[string]string{ //nolint:gochecknoglobals // a constant table
	"text":          `{"type":"text","text":"caf\u00e9 \u2028"}`,
	"image":         `{"type":"image","data":"QUJD","mimeType":"image/png"}`,
	"audio":         `{"type":"audio","data":"QUJD","mimeType":"audio/wav"}`,
	"resource":      `{"type":"resource","resource":{"uri":"file:///a","mimeType":"text/plain","text":"a"}}`,
	"resource_link": `{"type":"resource_link","uri":"file:///a","name":"a"}`,
	"hologram":      `{"type":"hologram","voxels":12345678901234567890}`,
}

const failure = `{"code":-32001,"message":"not today","data":{"left":1e400}}`

func actorPrompts() []string {
	names := []string{"greet", "fail", "grow", "hold", "report"}
	for name := range contents {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// take handles a message and returns its response, or "" if there is none. It may block until ctx ends.
func (a *actor) take(ctx context.Context, body []byte) string {
	var call struct {
		ID     json.RawMessage
		Method string
		Params struct {
			Name, Cursor, URI string
			RequestID         json.RawMessage
			Arguments         map[string]any
			Argument          struct{ Value string }
			Ref               struct{ Name string }
		}
	}
	err := json.Unmarshal(body, &call)
	if err == nil {
		revision := a.revision
		switch {
		case call.Method == "server/discover": // finds out the server's revision
			revision = gatewaytest.Latest
		case call.Method == "initialize" && revision == gatewaytest.Latest: // a child that has not answered that for a while gets both
			revision = gatewaytest.LegacyRevisions[len(gatewaytest.LegacyRevisions)-1]
		}
		err = upstreamtest.Violation(revision, "", body)
	}
	if err != nil {
		a.mu.Lock()
		a.Wrong = append(a.Wrong, err.Error())
		a.mu.Unlock()
	}
	result := ""
	switch call.Method {
	case "initialize":
		result = fmt.Sprintf(`{"protocolVersion":%q,"capabilities":%s,"serverInfo":{"name":"actor","version":"1"}}`, a.revision, a.capabilities())
	case "server/discover":
		result = `{"resultType":"complete","supportedVersions":["` + gatewaytest.Latest + `"],"ttlMs":0,"cacheScope":"public","capabilities":` + a.capabilities() + `}`
	case "ping":
		result = `{}`
	case "prompts/list":
		result = a.page(call.Params.Cursor)
	case "prompts/get":
		return a.get(ctx, string(call.ID), call.Params.Name, call.Params.Arguments)
	case "resources/read":
		result = fmt.Sprintf(`{"contents":[{"uri":%q,"text":"A"}],"ttlMs":0,"cacheScope":"public","x-kept":2.50}`, call.Params.URI)
	case "completion/complete":
		result = fmt.Sprintf(`{"completion":{"values":[%q]}}`, call.Params.Ref.Name+" "+call.Params.Argument.Value)
	case "notifications/cancelled":
		a.release(string(call.Params.RequestID))
	}
	switch {
	case call.ID == nil:
		return ""
	case result == "" || (call.Method == "initialize") == (a.revision == gatewaytest.Latest) && (call.Method == "initialize" || call.Method == "server/discover"):
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"Method not found"}}`, call.ID)
	}
	return a.response(string(call.ID), result)
}

func (a *actor) capabilities() string {
	if a.revision == "2024-11-05" { // which cannot declare completions
		return `{"prompts":{"listChanged":true}}`
	}
	return `{"prompts":{"listChanged":true},"completions":{}}`
}

// response returns a response with a result in the form of the actor's revision.
func (a *actor) response(id, result string) string {
	if a.revision == gatewaytest.Latest && !strings.Contains(result, "resultType") {
		result = `{"resultType":"complete",` + result[1:]
		result = strings.Replace(result, ",}", "}", 1)
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
}

// page returns one of several pages of four prompts each.
func (a *actor) page(cursor string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	names := actorPrompts()
	if a.grown {
		names = append(names, "grown")
	}
	from := 0
	_, _ = fmt.Sscanf(cursor, "from %d", &from) // an empty cursor means the first page
	to := min(from+4, len(names))
	var prompts []string
	for _, name := range names[from:to] {
		definition := fmt.Sprintf(`{"name":%q}`, name)
		if name == "greet" {
			definition = `{"name":"greet","arguments":[{"name":"who","required":true}]}`
		}
		prompts = append(prompts, definition)
	}
	next := ""
	if to < len(names) {
		next = fmt.Sprintf(`,"nextCursor":"from %d"`, to)
	}
	return fmt.Sprintf(`{"prompts":[%s],"ttlMs":0,"cacheScope":"public"%s}`, strings.Join(prompts, ","), next)
}

func (a *actor) get(ctx context.Context, id, name string, arguments map[string]any) string {
	text := func(s string) string {
		quoted, _ := json.Marshal(s)
		return `{"type":"text","text":` + string(quoted) + `}`
	}
	content := contents[name]
	switch name {
	case "greet":
		content = text(fmt.Sprint("hello ", arguments["who"]))
	case "report":
		a.mu.Lock()
		seen, _ := json.Marshal(a.report)
		a.mu.Unlock()
		content = text(string(seen))
	case "grow":
		a.mu.Lock()
		a.grown = !a.grown
		a.mu.Unlock()
		a.say("notifications/prompts/list_changed")
		content = text("done")
	case "hold":
		a.hold(ctx, id)
		return ""
	case "fail":
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":%s}`, id, failure)
	}
	return a.response(id, `{"messages":[{"role":"user","content":`+content+`}],"x-kept":2.50}`)
}

// hold waits until a request is cancelled.
func (a *actor) hold(ctx context.Context, id string) {
	released := make(chan struct{})
	a.mu.Lock()
	a.Holding++
	a.waiting[id] = released
	a.mu.Unlock()
	if a.byResponse {
		<-ctx.Done()
		a.release(id)
	}
	<-released
}

func (a *actor) release(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if released := a.waiting[id]; released != nil {
		close(released)
		delete(a.waiting, id)
		a.Holding--
		a.Cancelled++
	}
}

// startActor starts an upstream and appends its upstream block to the text.
func startActor(t *testing.T, e end, text *strings.Builder) {
	t.Helper()
	settings := fmt.Sprintf("protocol = %q\n timeout = \"60s\"\n resources = \"linked\"\n", e.revision)
	if e.revision == gatewaytest.Latest || e.revision == "2025-11-25" {
		settings = "timeout = \"60s\"\n resources = \"linked\"\n" // the gateway finds out how to speak to it
	}
	if e.transport == "stdio" {
		u := upstreamtest.Child(t, e.name(), "actor", e.revision)
		command, _ := json.Marshal(u.Command)
		fmt.Fprintf(text, "upstream %q {\n command = %s\n env = {\n", e.name(), command)
		for name, value := range u.Env {
			fmt.Fprintf(text, "%s = %q\n", name, value.Reveal())
		}
		fmt.Fprintf(text, "}\n%s}\n", settings)
		return
	}
	a := &actor{revision: e.revision, waiting: map[string]chan struct{}{}, byResponse: e.revision == gatewaytest.Latest}
	peer := overHTTP(a, e.transport == "sse")
	var handler http.Handler = peer
	path := "/mcp"
	if e.transport == "sse" {
		handler, path, settings = upstreamtest.SSE(peer), "/sse", settings+"transport = \"sse\"\n"
	}
	h := httptest.NewServer(handler)
	t.Cleanup(func() {
		h.CloseClientConnections()
		h.Close()
	})
	url := h.URL + path
	fmt.Fprintf(text, "upstream %q {\n url = %q\n %s}\n", e.name(), url, settings)
}

// playActor is the child process of an actor over stdio.
func playActor(args []string) {
	var mu sync.Mutex
	var subscription atomic.Pointer[string]
	subscription.Store(new(string))
	write := func(message string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Println(message) //nolint:forbidigo // the protocol's stream
	}
	a := &actor{revision: args[0], waiting: map[string]chan struct{}{}}
	a.say = func(method string) { write(notification(method, *subscription.Load())) }
	for scanner := bufio.NewScanner(os.Stdin); scanner.Scan(); {
		line := bytes.Clone(scanner.Bytes())
		if id, ok := listens(line); ok {
			text := string(id)
			subscription.Store(&text)
			write(acknowledgment(text))
			continue
		}
		go func() {
			if response := a.take(context.Background(), line); response != "" {
				write(response)
			}
		}()
	}
}

// listens returns the id of a message that is a subscription.
func listens(body []byte) (id json.RawMessage, ok bool) {
	var call gatewaytest.Call
	err := json.Unmarshal(body, &call)
	return call.ID, err == nil && call.Method == "subscriptions/listen"
}

func acknowledgment(id string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":%s},"notifications":{"promptsListChanged":true}}}`, id)
}

// notification returns a notification without params, or one of a subscription.
func notification(method, subscription string) string {
	if subscription == "" {
		return fmt.Sprintf(`{"jsonrpc":"2.0","method":%q}`, method)
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":{"_meta":{"io.modelcontextprotocol/subscriptionId":%s}}}`, method, subscription)
}

// overHTTP returns a peer that serves an actor over Streamable HTTP, with event streams as responses in the revisions where
// those are more common. The peer itself has sessions and streams.
func overHTTP(a *actor, isSSE bool) *upstreamtest.Peer {
	p := upstreamtest.NewLoadPeer(!a.byResponse, 0)
	p.Intercept(func(w http.ResponseWriter, r *upstreamtest.Request) bool {
		switch {
		case r.Method != http.MethodPost || r.Message.Method == "subscriptions/listen":
			return false
		case !a.byResponse && r.Message.Method != "initialize" && r.Header.Get("Mcp-Session-Id") == "":
			http.Error(w, "no session", http.StatusBadRequest)
			return true
		}
		ctx := r.Context()
		if isSSE {
			ctx = context.WithoutCancel(ctx)
		}
		response := a.take(ctx, r.Body)
		switch {
		case response == "":
			w.WriteHeader(http.StatusAccepted)
		case !isSSE && (a.revision == "2025-06-18" || a.revision == gatewaytest.Latest):
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, ": hi\n\nid: 1\ndata:\n\ndata: %s\n\n", response)
		default:
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, response) // an error means that the gateway has gone
		}
		return true
	})
	a.say = func(string) { p.Changed() }
	return p
}
