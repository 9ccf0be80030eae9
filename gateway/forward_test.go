package gateway_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/promptweir/promptweir/gateway/cluster"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// forwarded is a request that one replica has sent to another.
type forwarded struct {
	target, body string
	header       http.Header
}

// replica is one of several without affinity and without their store: all that they share is sealed.
type replica struct {
	*gatewaytest.Server

	// endpoint is where the others reach it.
	endpoint *http.Server

	mu       sync.Mutex // guards received
	received []forwarded
}

// serveForwarding runs replicas of one configuration that forward requests to each other.
func serveForwarding(t *testing.T, n int, text string) (all []*replica) {
	t.Helper()
	for range n {
		address := upstreamtest.Address(t)
		s, _ := serveAudited(t, fmt.Sprintf(`
			gateway {
			  cursor_keys     = ["%%KEY%%"]
			  trusted_proxies = ["127.0.0.1"]
			}
			audit { path = %q }
			cluster {
			  store     = "redis://127.0.0.1:1"
			  advertise = "http://%s"
			}
			%s`, filepath.Join(t.TempDir(), "audit.jsonl"), address, text))
		r := &replica{Server: s}
		listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		r.endpoint = &http.Server{Handler: r.record(r.Handler())} //nolint:gosec // only replicas reach it
		go func() { _ = r.endpoint.Serve(listener) }()            // until it is closed
		t.Cleanup(func() { _ = r.endpoint.Close() })
		all = append(all, r)
	}
	return all
}

// record notes what reaches a handler.
func (r *replica) record(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, _ := io.ReadAll(request.Body) // which is shorter if the sender has gone
		request.Body = io.NopCloser(strings.NewReader(string(body)))
		r.mu.Lock()
		r.received = append(r.received, forwarded{request.RequestURI, string(body), request.Header.Clone()})
		r.mu.Unlock()
		next.ServeHTTP(w, request)
	})
}

// requests returns what the replica has received from others.
func (r *replica) requests() []forwarded {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.received)
}

// at returns a client whose next requests reach another replica.
func at(r *replica, c *gatewaytest.Client) *gatewaytest.Client {
	moved := *c
	moved.Server = r.Server
	return &moved
}

// get gets up.ask for a modern client. Another replica's result comes as an event.
func (r *replica) get(who, params string) gatewaytest.Response {
	got := r.ModernWith(who, `{"elicitation":{},"roots":{}}`)("prompts/get", params)
	_, event, isStream := strings.Cut(got.Body, "data: ")
	if isStream {
		got.Body = strings.TrimSpace(event)
	}
	return got
}

// askedRoots begins a get at a replica whose server asks for the roots, and returns the reply to that.
func askedRoots(t *testing.T, r *replica, revision, who string) (c *gatewaytest.Client, stream *gatewaytest.Stream, reply string) {
	t.Helper()
	c = r.LegacyWith(revision, who, `{"roots":{}}`)
	stream = c.GetStream("7", gatewaytest.GetParams("up.ask"))
	var request struct{ ID json.RawMessage }
	if err := json.Unmarshal([]byte(stream.Next().Data), &request); err != nil {
		t.Fatal(err)
	}
	return c, stream, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"roots":[{"uri":"file:///ann"}]}}`, request.ID)
}

// legacyRevisions are those of Streamable HTTP, with the form in which each is sent replies: the first
// has batches.
var legacyRevisions = map[string]string{"2025-03-26": "[%s]", "2025-06-18": "%s", "2025-11-25": "%s"} //nolint:gochecknoglobals // a constant

func TestForward_EachReplyReachesTheReplicaThatAsked(t *testing.T) {
	p := gatewaytest.NewRequestingPeer(t, gatewaytest.RootsRequest)
	replicas := serveForwarding(t, 3, gatewaytest.Team("a", "", "", p.Peer))
	arrived := 0
	for revision, form := range legacyRevisions {
		for i, asks := range replicas {
			for _, step := range []int{1, 2} {
				c, stream, reply := askedRoots(t, asks, revision, "")
				reached := replicas[(i+step)%3]
				// Another session's reply does not count.
				eve := reached.LegacyWith(revision, "", `{"roots":{}}`)
				evil := fmt.Sprintf(form, strings.Replace(reply, "ann", "eve", 1))
				gatewaytest.Send(t, http.MethodPost, reached.URL, evil, eve.Headers).Want(t, http.StatusAccepted)
				gatewaytest.Send(t, http.MethodPost, reached.URL, fmt.Sprintf(form, reply), c.Headers).Want(t, http.StatusAccepted)
				if data := stream.Next().Data; strings.Contains(data, "ann") && !strings.Contains(data, "eve") {
					arrived++
				} else {
					t.Errorf("%s, from replica %d by %d: %s", revision, i, (i+step)%3, data)
				}
				// A second one matches nothing, as at the replica itself, and the session goes on.
				gatewaytest.Send(t, http.MethodPost, reached.URL, fmt.Sprintf(form, reply), c.Headers).Want(t, http.StatusAccepted)
			}
		}
	}
	upstreamtest.Equal(t, 18, arrived, "replies that have arrived")
}

func TestForward_EachPostReachesItsSession(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", "a")
	replicas := serveForwarding(t, 3, "auth {\n"+gatewaytest.Token("ann")+gatewaytest.Token("bob")+"}\n"+
		gatewaytest.Team("a", `"user:ann", "user:bob"`, "", p))
	arrived := 0
	for i, holds := range replicas {
		c := holds.SSE("ann")
		_, query, _ := strings.Cut(c.Endpoint, "?")
		elsewhere := func(step int) string { return replicas[(i+1+step%2)%3].SSEURL() + "?" + query }
		post := func(step int, who, body string, want int) {
			t.Helper()
			gatewaytest.Send(t, http.MethodPost, elsewhere(step), body, gatewaytest.Bearer(who)).Want(t, want)
		}
		post(0, "ann", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2024-11-05",`+
			`"capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`, http.StatusAccepted)
		c.WantMessage(`"id":0`)
		arrived++
		for id := 1; id < 18; id++ { // in order
			post(id, "ann", fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"prompts/get","params":{"name":"p.a"}}`, id), http.StatusAccepted)
			c.WantMessage(fmt.Sprintf(`"id":%d`, id), `"from p"`)
			arrived++
		}
		// For another principal, and after its end, the session does not exist, whichever replica is
		// asked.
		for step := range 2 {
			post(step, "bob", `{"jsonrpc":"2.0","id":9,"method":"ping"}`, http.StatusNotFound)
		}
		c.Close()
		for step := range 2 {
			upstreamtest.Eventually(t, "the session is over", func() bool {
				r := gatewaytest.Send(t, http.MethodPost, elsewhere(step), `{"jsonrpc":"2.0","id":9,"method":"ping"}`, gatewaytest.Bearer("ann"))
				return r.Status == http.StatusNotFound && strings.Contains(r.Body, "Session not found: open a new stream")
			})
		}
	}
	upstreamtest.Equal(t, 54, arrived, "posts that have arrived")
}

// resuming returns the params of a get of up.ask that is repeated with a state and replies.
func resuming(state, replies string) string {
	return `{"name":"up.ask","requestState":"` + state + `","inputResponses":` + replies + `}`
}

const accepted = `{"action":"accept","content":{"name":"\u0041"}}`

func TestForward_EachParkedGetResumes(t *testing.T) {
	p := gatewaytest.NewRequestingPeer(t, gatewaytest.FormElicitation, gatewaytest.RootsRequest)
	replicas := serveForwarding(t, 3, "auth {\n"+gatewaytest.Token("ann")+gatewaytest.Token("bob")+"}\n"+
		gatewaytest.Team("a", `"user:ann", "user:bob"`, "", p.Peer))
	call := func(i int, who, params string) gatewaytest.Response { return replicas[i%3].get(who, params) }
	refused := []string{`"code":-32602`, `"reason":"state"`, "repeat the get"}
	if err := replicas[0].Reload(t.Context()); err != nil { // it goes on with its cluster
		t.Fatal(err)
	}
	for i := range replicas {
		first := call(i, "ann", gatewaytest.GetParams("up.ask"))
		state, replies := first.RequestState(t), first.InputResponses(t, accepted)
		call(i+1, "bob", resuming(state, replies)).Want(t, 200, refused...)
		again := call(i+1, "ann", resuming(state, `{}`)) // without the reply, it is asked for again
		again.Want(t, 200, `"resultType":"input_required"`, `"method":"elicitation/create"`, `"x":2.50`)
		call(i+2, "ann", resuming(state, replies)).Want(t, 200, refused...) // once
		second := call(i+2, "ann", resuming(again.RequestState(t), again.InputResponses(t, accepted)))
		second.Want(t, 200, `"resultType":"input_required"`, `"method":"roots/list"`)
		last := call(i+1, "ann", resuming(second.RequestState(t), second.InputResponses(t, `{"roots":[]}`)))
		last.Want(t, 200, `"resultType":"complete"`, `\\u0041`, `roots`)
		gatewaytest.CheckSchema(t, gatewaytest.Latest, "prompts/get", last.Body)
	}
	upstreamtest.Equal(t, 3, len(p.Calls("prompts/get")), "gets at the server")
}

func TestForward_TheReplicaThatParksAGetRecordsItsClient(t *testing.T) {
	p := gatewaytest.NewRequestingPeer(t, gatewaytest.RootsRequest)
	replicas := serveForwarding(t, 2, gatewaytest.Team("a", "", "", p.Peer))
	first := replicas[0].get("", gatewaytest.GetParams("up.ask"))
	body, h := replicas[1].Modern("").Encode("7", "prompts/get", resuming(first.RequestState(t), first.InputResponses(t, `{"roots":[]}`)))
	gatewaytest.Send(t, http.MethodPost, replicas[1].URL, body, append(h, "X-Forwarded-For", "192.0.2.7")).Want(t, http.StatusOK,
		"data: ", `"complete"`) // a stream, whose header shows at once that the replica is there
	for i, want := range [][]string{{"127.0.0.1", "192.0.2.7"}, nil} {
		var clients []string
		upstreamtest.Eventually(t, "the lines are written", func() bool {
			clients = nil
			for _, line := range auditLines(t, replicas[i].Snapshot().Config.Audit.Path) {
				_, client, isThere := strings.Cut(line, `"client":"`)
				client, _, _ = strings.Cut(client, `"`)
				if !isThere { // auditLines leaves that of this machine out
					client = "127.0.0.1"
				}
				clients = append(clients, client)
			}
			return len(clients) == len(want)
		})
		if !slices.Equal(clients, want) {
			t.Errorf("replica %d has recorded gets of %q, want %q", i, clients, want)
		}
	}
}

func TestForward_AReplicaThatDiesLosesOnlyItsOwn(t *testing.T) {
	p := gatewaytest.NewRequestingPeer(t, gatewaytest.RootsRequest)
	replicas := serveForwarding(t, 3, gatewaytest.Team("a", "", "", p.Peer))
	var parked [2]gatewaytest.Response
	var sessions [2]*gatewaytest.SSEClient
	var streams [2]*gatewaytest.Stream
	var clients [2]*gatewaytest.Client
	var replies [2]string
	for i := range 2 {
		parked[i] = replicas[i].get("", gatewaytest.GetParams("up.ask"))
		sessions[i] = replicas[i].SSE("")
		clients[i], streams[i], replies[i] = askedRoots(t, replicas[i], "2025-06-18", "")
	}
	_ = replicas[0].endpoint.Close() // without a word to its clients
	replicas[0].Stop()
	resume := func(i int) gatewaytest.Response {
		return replicas[2].get("", resuming(parked[i].RequestState(t), parked[i].InputResponses(t, `{"roots":[]}`)))
	}
	post := func(i int) gatewaytest.Response {
		_, query, _ := strings.Cut(sessions[i].Endpoint, "?")
		return gatewaytest.Send(t, http.MethodPost, replicas[2].SSEURL()+"?"+query, `{"jsonrpc":"2.0","id":3,"method":"ping"}`, nil)
	}
	reply := func(i int) gatewaytest.Response {
		return gatewaytest.Send(t, http.MethodPost, replicas[2].URL, replies[i], clients[i].Headers)
	}
	// The answers are those of one gateway that was restarted.
	resume(0).Want(t, http.StatusOK, `"code":-32602`, `"reason":"state"`, "repeat the get")
	post(0).Want(t, http.StatusNotFound, "Session not found: open a new stream")
	reply(0).Want(t, http.StatusAccepted)
	at(replicas[2], clients[0]).Call("ping", "").Want(t, http.StatusOK, `"result":{}`) // the session goes on

	resume(1).Want(t, http.StatusOK, `"resultType":"complete"`)
	post(1).Want(t, http.StatusAccepted)
	sessions[1].WantMessage(`"id":3`)
	reply(1).Want(t, http.StatusAccepted)
	if data := streams[1].Next().Data; !strings.Contains(data, "ann") {
		t.Errorf("result %s, want the reply", data)
	}
}

// A header of another replica counts alone: whatever it lacks, the client's credential does not make up
// for.
func TestForward_RefusesAHeaderThatDoesNotFit(t *testing.T) {
	p := gatewaytest.NewRequestingPeer(t, gatewaytest.RootsRequest)
	replicas := serveForwarding(t, 2, "auth {\n anonymous = true\n"+gatewaytest.Token("ann")+"}\n"+gatewaytest.Team("a", `"user:ann"`, "", p.Peer))
	holds, reached := replicas[0], replicas[1]
	origin := strings.TrimSuffix(holds.URL, "/mcp")
	// send sends a forwarded request to the replica that holds what it is about, with a credential.
	send := func(what string, f forwarded, change func(*http.Request)) {
		t.Helper()
		r := gatewaytest.NewRequest(t.Context(), t, http.MethodPost, origin+f.target, f.body, gatewaytest.Bearer("ann"))
		r.Header[cluster.Header] = f.header[cluster.Header]
		r.Header["Mcp-Session-Id"] = f.header["Mcp-Session-Id"]
		change(r)
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if body, _ := io.ReadAll(response.Body); response.StatusCode != http.StatusNotFound || !strings.Contains(string(body), "Session not found") {
			t.Errorf("%s: %d %s, want 404", what, response.StatusCode, body)
		}
	}
	as := func(*http.Request) {}
	session, other := holds.SSE("ann"), holds.SSE("ann")
	_, query, _ := strings.Cut(session.Endpoint, "?")
	gatewaytest.Send(t, http.MethodPost, reached.SSEURL()+"?"+query, `{"jsonrpc":"2.0","id":3,"method":"ping"}`, gatewaytest.Bearer("ann")).Want(t, http.StatusAccepted)
	session.WantMessage(`"id":3`)
	parked := holds.get("ann", gatewaytest.GetParams("up.ask"))
	reached.get("ann", resuming(parked.RequestState(t), parked.InputResponses(t, `{"roots":[]}`))).Want(t, http.StatusOK, `"complete"`)
	c, stream, reply := askedRoots(t, holds, "2025-06-18", "ann")
	gatewaytest.Send(t, http.MethodPost, reached.URL, reply, c.Headers).Want(t, http.StatusAccepted)
	stream.Next()

	all := holds.requests()
	upstreamtest.Equal(t, 3, len(all), "forwarded requests")
	for i, f := range all {
		what := []string{"post", "get", "reply"}[i]
		for _, name := range []string{"Authorization", "Cookie", "X-Forwarded-For"} {
			upstreamtest.Equal(t, "", f.header.Get(name), "%s in the %s", name, what)
		}
		send(what+", replayed", f, as)
		send(what+", forged", f, func(r *http.Request) { r.Header.Set(cluster.Header, strings.Repeat("QUJD", 40)) })
	}
	// A header is good for nothing else that its principal may do.
	_, query, _ = strings.Cut(other.Endpoint, "?")
	send("to another session", all[0], func(r *http.Request) { r.URL.RawQuery = query })
	send("for a list", forwarded{"/mcp", `{"jsonrpc":"2.0","id":1,"method":"prompts/list","params":{}}`, all[0].header}, as)
	// A gateway that no other replica reaches does not fall back to the credential either.
	alone := gatewaytest.Serve(t, "auth {\n"+gatewaytest.Token("ann")+"}\n"+gatewaytest.Team("a", `"user:ann"`, "", p.Peer))
	origin = strings.TrimSuffix(alone.URL, "/mcp")
	send("where nothing is forwarded", forwarded{"/mcp", `{"jsonrpc":"2.0","id":1,"method":"prompts/list","params":{}}`, all[0].header}, as)
	upstreamtest.Equal(t, 2, len(p.Calls("prompts/get")), "gets at the server")
}
