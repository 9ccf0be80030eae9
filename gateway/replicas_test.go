package gateway_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/cluster/clustertest"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// serveReplicas runs gateways of one configuration that share a store.
func serveReplicas(t *testing.T, store interface{ URL() string }, n int, text string) []*gatewaytest.Server {
	t.Helper()
	text = strings.ReplaceAll(text, "%CLUSTER%", "cursor_keys = [\"%KEY%\"]") + "\ncluster { store = \"" + store.URL() + "\" }\n"
	var all []*gatewaytest.Server
	for range n {
		s := gatewaytest.Serve(t, text)
		s.AwaitUpstreams()
		all = append(all, s)
	}
	awaitStore(t, true, all...)
	return all
}

// awaitStore waits until the store is here for each replica, or away.
func awaitStore(t *testing.T, here bool, replicas ...*gatewaytest.Server) {
	t.Helper()
	for _, s := range replicas {
		upstreamtest.Eventually(t, "the replica knows the store's condition", func() bool { return s.Ready().Store.Here == here })
	}
}

func TestLimit_HoldsOverAllReplicas(t *testing.T) {
	store, p := clustertest.Start(t), gatewaytest.NewPeer(t, "p", "a")
	replicas := serveReplicas(t, store, 3, "gateway {\n %CLUSTER%\n limit {\n rate = 0.001\n burst = 6\n }\n}\nauth {\n anonymous = true\n"+
		gatewaytest.Token("ann", "eng")+gatewaytest.Token("bob", "eng")+"}\n"+
		gatewaytest.Team("eng", `"group:eng"`, "limit {\n rate = 0.001\n burst = 4\n}\n", p))
	who := "ann"
	get := func(s *gatewaytest.Server) bool {
		t.Helper()
		return !strings.Contains(s.Modern(who).Call("prompts/get", gatewaytest.GetParams("p.a")).Body, `"rate_limited"`)
	}
	allowed := 0
	for i := range 9 {
		if get(replicas[i%3]) {
			allowed++
		}
	}
	if allowed != 4 {
		t.Errorf("%d gets over three replicas, want the team's 4", allowed)
	}
	for i := range 2 { // lists count against the gateway's limit, which gets have used as well
		replicas[i].Modern("ann").Call("prompts/list", "").Want(t, http.StatusOK, `"p.a"`)
	}
	replicas[2].Modern("ann").Call("prompts/list", "").Want(t, http.StatusOK, `"reason":"rate_limited"`, `"retryAfterMs":`)

	// While the store is away, each replica has its own limit, and is as ready as before.
	store.Kill()
	awaitStore(t, false, replicas...)
	for i, s := range replicas {
		allowed := 0
		for range 6 {
			if get(s) {
				allowed++
			}
		}
		if allowed != 4 {
			t.Errorf("%d gets of replica %d while the store is away, want 4", allowed, i)
		}
		gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/readyz", "", nil).Want(t, http.StatusOK, `"store": {`, `"here": false`)
	}
	store.Restart()
	awaitStore(t, true, replicas...)
	if !get(replicas[0]) { // counts go on from now
		t.Error("a get after an empty store is back is refused, want it counted there")
	}
}

func TestLimit_BoundsConcurrencyAtEachReplica(t *testing.T) {
	store, p := clustertest.Start(t), gatewaytest.NewPeer(t, "p", "a")
	begun, proceed := p.PauseGets()
	replicas := serveReplicas(t, store, 2, "gateway { %CLUSTER% }\n"+gatewaytest.Team("eng", "", "limit { concurrency = 1 }", p))
	var all []<-chan gatewaytest.Response
	for _, s := range replicas {
		all = append(all, s.Modern("").Begin("p.a"))
		<-begun
		s.Modern("").Call("prompts/get", gatewaytest.GetParams("p.a")).Want(t, http.StatusOK, `"reason":"rate_limited"`)
	}
	proceed()
	for _, done := range all {
		(<-done).Want(t, http.StatusOK, `"from p"`)
	}
}

// A replica that a load balancer sent clients before it has asked the store would count them apart.
func TestReady_WaitsUntilTheStoreIsKnown(t *testing.T) {
	store, p := clustertest.Start(t), gatewaytest.NewPeer(t, "p", "a")
	store.Pause()
	began := time.Now()
	s := gatewaytest.Serve(t, "gateway { cursor_keys = [\"%KEY%\"] }\n"+gatewaytest.Team("eng", "", "", p)+"\ncluster { store = \""+store.URL()+"\" }\n")
	if ready := s.Ready(); ready.Ready && time.Since(began) < time.Second {
		t.Error("ready before the store is known to be away")
	}
	upstreamtest.Eventually(t, "the replica is ready without the store", func() bool { return s.Ready().Ready })
	if s.Ready().Store.Here {
		t.Error("the store is here, want it away")
	}
	store.Resume()
	awaitStore(t, true, s)
}

func TestReload_RefusesAnotherStore(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", "a")
	text := func(store string) string {
		return "gateway { cursor_keys = [base64encode(\"0123456789abcdef0123456789abcdef\")] }\n" + store + gatewaytest.Team("eng", "", "", p)
	}
	r := gatewaytest.ServeReloadable(t, text("cluster { store = \"redis://:hushhush@127.0.0.1:1\" }\n"), gateway.Options{})
	for _, other := range []string{"", "cluster { store = \"redis://:hushhush@127.0.0.1:2\" }\n"} {
		if err := r.TryReload(text(other)); err == nil || !strings.Contains(err.Error(), "cluster changed, which needs a restart") {
			t.Errorf("reload with %q: %v, want a refusal", other, err)
		}
	}
	r.MustReload("# the same\n" + text("cluster { store = \"redis://:hushhush@127.0.0.1:1\" }\n"))
}

// at returns a client whose next requests reach another replica.
func at(s *gatewaytest.Server, c *gatewaytest.Client) *gatewaytest.Client {
	moved := *c
	moved.Server = s
	return &moved
}

func TestDelete_EndsASessionAtAllReplicas(t *testing.T) {
	store, p := clustertest.Start(t), gatewaytest.NewPeer(t, "p", "a")
	text := "gateway { %CLUSTER% }\n" + gatewaytest.Team("eng", "", "", p)
	replicas := serveReplicas(t, store, 3, text)
	c := replicas[0].Legacy("2025-06-18", "")
	stream := at(replicas[1], c).Listen("")
	at(replicas[2], c).Call("ping", "").Want(t, http.StatusOK, `"result":{}`)
	gatewaytest.Send(t, http.MethodDelete, replicas[2].URL, "", c.Headers).Want(t, http.StatusNoContent)
	ended := func(s *gatewaytest.Server) {
		t.Helper()
		upstreamtest.Eventually(t, "the session has ended", func() bool {
			return at(s, c).CallUnchecked("ping", "").Status == http.StatusNotFound
		})
	}
	for _, s := range replicas {
		ended(s)
	}
	stream.WantEnd()
	ended(serveReplicas(t, store, 1, text)[0]) // which was started later

	// What is ended while the store is away has ended when it is back.
	c = replicas[0].Legacy("2025-06-18", "")
	store.Pause()
	gatewaytest.Send(t, http.MethodDelete, replicas[2].URL, "", c.Headers).Want(t, http.StatusNoContent)
	at(replicas[0], c).Call("ping", "").Want(t, http.StatusOK, `"result":{}`)
	store.Resume()
	for _, s := range replicas {
		ended(s)
	}
}

func TestLogLevel_HoldsAtAllReplicas(t *testing.T) {
	store, p := clustertest.Start(t), gatewaytest.NewPeer(t, "p", "a")
	p.OnGet(func(w http.ResponseWriter, _ *http.Request, call gatewaytest.Call) bool {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write([]byte("data: " + `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"notice","data":"heard"}}` + "\n\n" +
			"data: " + `{"jsonrpc":"2.0","id":` + string(call.ID) + `,"result":{"messages":[]}}` + "\n\n")) // an error means that the gateway has gone
		return true
	})
	replicas := serveReplicas(t, store, 2, "gateway { %CLUSTER% }\n"+gatewaytest.Team("eng", "", "", p))
	c := replicas[0].Legacy("2025-06-18", "")
	relayed := func(s *gatewaytest.Server) bool {
		body, h := c.Encode("7", "prompts/get", gatewaytest.GetParams("p.a"))
		return strings.Contains(gatewaytest.Send(t, http.MethodPost, s.URL, body, h).Body, "heard")
	}
	for i, level := range []string{"info", "error", "debug"} {
		at(replicas[i%2], c).Call("logging/setLevel", `{"level":"`+level+`"}`).Want(t, http.StatusOK, `"result":{}`)
		for _, s := range replicas {
			upstreamtest.Eventually(t, "the level holds", func() bool { return relayed(s) == (level != "error") })
		}
	}
}

// awaitHearing waits until each replica hears what the others send: a subscription is made after
// the store is here.
func awaitHearing(t *testing.T, store *clustertest.Store, replicas int) {
	t.Helper()
	upstreamtest.Eventually(t, "the replicas listen", func() bool {
		return strings.Count(store.Command("PUBSUB", "CHANNELS", "promptweir:{replicas}:0:*"), "}:0:") == replicas+1
	})
}

func TestReply_FindsItsRequestAtAnotherReplica(t *testing.T) {
	store, p := clustertest.Start(t), gatewaytest.NewRequestingPeer(t, gatewaytest.FormElicitation, gatewaytest.FormElicitation)
	replicas := serveReplicas(t, store, 3, "gateway { %CLUSTER% }\n"+gatewaytest.Team("a", "", "", p.Peer))
	awaitHearing(t, store, 3)
	for _, revision := range []string{"2025-06-18", "2025-11-25"} {
		c := replicas[0].LegacyWith(revision, "", `{"elicitation":{}}`)
		stream := c.GetStream("7", gatewaytest.GetParams("up.ask"))
		at(replicas[1], c).Reply(stream.WantElicitation(revision), `{"action":"accept","content":{"name":"ann"}}`)
		id := stream.WantElicitation(revision)
		// Neither another session's reply nor a second one counts.
		replicas[1].LegacyWith(revision, "", `{"elicitation":{}}`).Reply(id, `{"action":"accept","content":{"name":"eve"}}`)
		refusal := `{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-1,"message":"not now"}}`
		gatewaytest.Send(t, http.MethodPost, replicas[2].URL, refusal, c.Headers).Want(t, http.StatusAccepted)
		if data := stream.Next().Data; !strings.Contains(data, "ann") || !strings.Contains(data, "not now") || strings.Contains(data, "eve") {
			t.Errorf("result %s, want both replies", data)
		}
		stream.WantEnd()
	}
}

// A client whose user has answered is told where the answer is lost, and can send it again.
func TestReply_IsRefusedWhereTheReplicaThatAskedCannotBeReached(t *testing.T) {
	store, p := clustertest.Start(t), gatewaytest.NewRequestingPeer(t, gatewaytest.RootsRequest)
	replicas := serveReplicas(t, store, 2, "gateway { %CLUSTER% }\n"+gatewaytest.Team("a", "", "", p.Peer))
	awaitHearing(t, store, 2)
	type asked struct {
		c      *gatewaytest.Client
		stream *gatewaytest.Stream
		reply  string
	}
	var all []asked
	for revision, format := range map[string]string{"2025-06-18": "%s", "2025-03-26": "[%s]"} { // which has batches
		c := replicas[0].LegacyWith(revision, "", `{"roots":{}}`)
		stream := c.GetStream("7", gatewaytest.GetParams("up.ask"))
		var request struct{ ID json.RawMessage }
		if err := json.Unmarshal([]byte(stream.Next().Data), &request); err != nil {
			t.Fatal(err)
		}
		reply := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"roots":[{"uri":"file:///ann"}]}}`, request.ID)
		all = append(all, asked{c, stream, fmt.Sprintf(format, reply)})
	}
	store.Kill()
	awaitStore(t, false, replicas...)
	for _, a := range all {
		gatewaytest.Send(t, http.MethodPost, replicas[1].URL, a.reply, a.c.Headers).Want(t, http.StatusServiceUnavailable, "send the reply again")
		gatewaytest.Send(t, http.MethodPost, replicas[0].URL, a.reply, a.c.Headers).Want(t, http.StatusAccepted)
		if data := a.stream.Next().Data; !strings.Contains(data, "ann") {
			t.Errorf("result %s, want the reply to the replica that asked", data)
		}
	}
}

func TestCancel_FindsItsRequestAtAnotherReplica(t *testing.T) {
	store, p := clustertest.Start(t), gatewaytest.NewRequestingPeer(t, gatewaytest.FormElicitation)
	replicas := serveReplicas(t, store, 2, "gateway { %CLUSTER% }\n"+gatewaytest.Team("a", "", "", p.Peer))
	awaitHearing(t, store, 2)
	c := replicas[0].LegacyWith("2025-06-18", "", `{"elicitation":{}}`)
	stream := c.GetStream("7", gatewaytest.GetParams("up.ask"))
	stream.WantElicitation("2025-06-18")
	gatewaytest.Send(t, http.MethodPost, replicas[1].URL,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7,"reason":"enough"}}`, c.Headers).Want(t, http.StatusAccepted)
	upstreamtest.Eventually(t, "the server's get has ended", func() bool { return p.AbandonedGets() == 1 })
}

func TestHTTPSSE_PostsReachTheStreamFromAnyReplica(t *testing.T) {
	store, p := clustertest.Start(t), gatewaytest.NewRequestingPeer(t, gatewaytest.FormElicitation)
	replicas := serveReplicas(t, store, 3, "gateway { %CLUSTER% }\nauth {\n"+gatewaytest.Token("ann")+gatewaytest.Token("bob")+"}\n"+
		gatewaytest.Team("a", `"user:ann", "user:bob"`, "", p.Peer))
	awaitHearing(t, store, 3)
	c := replicas[0].SSE("ann")
	opened, n := c.Endpoint, 0
	elsewhere := func() { // the next replica's endpoint
		n++
		c.Endpoint = strings.Replace(opened, strings.TrimSuffix(replicas[0].SSEURL(), "/sse"), strings.TrimSuffix(replicas[n%3].SSEURL(), "/sse"), 1)
	}
	post := func(body string) {
		t.Helper()
		elsewhere()
		upstreamtest.Eventually(t, "the post is accepted", func() bool { // while a busy machine's store is late, it is refused
			return gatewaytest.Send(t, http.MethodPost, c.Endpoint, body, gatewaytest.Bearer("ann")).Status == http.StatusAccepted
		})
	}
	request := func(id, method, params string) {
		t.Helper()
		post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{%s}}`, id, method, params))
	}
	request("1", "initialize", `"protocolVersion":"2024-11-05","capabilities":{"elicitation":{}},"clientInfo":{"name":"test","version":"1"}`)
	c.WantMessage(`"id":1`)
	post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	request("2", "prompts/get", `"name":"up.ask"`)
	asked := c.WantMessage(`"elicitation/create"`)
	_, id, _ := strings.Cut(asked, `"id":"`)
	id, _, _ = strings.Cut(id, `"`)
	post(`{"jsonrpc":"2.0","id":"` + id + `","result":{"action":"accept","content":{"name":"x"}}}`)
	c.WantMessage(`"id":2`, `"messages"`)
	for i := range 10 { // in order
		request(strconv.Itoa(i), "ping", "")
	}
	for i := range 10 {
		c.WantMessage(`"id":` + strconv.Itoa(i))
	}
	// For another principal, and after its end, the session does not exist, whichever replica is
	// asked.
	ping := `{"jsonrpc":"2.0","id":9,"method":"ping"}`
	for range 3 {
		elsewhere()
		gatewaytest.Send(t, http.MethodPost, c.Endpoint, ping, gatewaytest.Bearer("bob")).Want(t, http.StatusNotFound, "Session not found")
	}
	c.Close()
	for range 3 {
		elsewhere()
		upstreamtest.Eventually(t, "the session is over", func() bool {
			return gatewaytest.Send(t, http.MethodPost, c.Endpoint, ping, gatewaytest.Bearer("ann")).Status == http.StatusNotFound
		})
	}
}

// resuming returns the params of a get of up.ask that is repeated with a state and replies.
func resuming(state, replies string) string {
	return `{"name":"up.ask","requestState":"` + state + `","inputResponses":` + replies + `}`
}

func TestParked_ResumesFromAnyReplica(t *testing.T) {
	store := clustertest.Start(t)
	p := gatewaytest.NewRequestingPeer(t, gatewaytest.FormElicitation, gatewaytest.RootsRequest)
	text := "gateway { %CLUSTER% }\nauth {\n" + gatewaytest.Token("ann") + gatewaytest.Token("bob") + "}\n" +
		gatewaytest.Team("a", `"user:ann", "user:bob"`, "", p.Peer)
	replicas := serveReplicas(t, store, 3, text)
	awaitHearing(t, store, 3)
	call := func(i int, who, params string) gatewaytest.Response {
		return replicas[i].ModernWith(who, `{"elicitation":{},"roots":{}}`)("prompts/get", params)
	}
	const accepted = `{"action":"accept","content":{"name":"\u0041"}}`
	refused := []string{`"code":-32602`, `"reason":"state"`, "repeat the get"}
	first := call(0, "ann", gatewaytest.GetParams("up.ask"))
	state, replies := first.RequestState(t), first.InputResponses(t, accepted)
	call(1, "bob", resuming(state, replies)).Want(t, 200, refused...)
	call(1, "ann", resuming(state, `{"1":"text"}`)).Want(t, 200, "must be an object")
	again := call(1, "ann", resuming(state, `{}`)) // without the reply, it is asked for again
	again.Want(t, 200, `"resultType":"input_required"`, `"method":"elicitation/create"`, `"x":2.50`)
	call(2, "ann", resuming(state, replies)).Want(t, 200, refused...) // once
	second := call(2, "ann", resuming(again.RequestState(t), again.InputResponses(t, accepted)))
	second.Want(t, 200, `"resultType":"input_required"`, `"method":"roots/list"`)
	last := call(1, "ann", resuming(second.RequestState(t), second.InputResponses(t, `{"roots":[]}`)))
	last.Want(t, 200, `"resultType":"complete"`, `\\u0041`, `roots`)
	gatewaytest.CheckSchema(t, gatewaytest.Latest, "prompts/get", last.Body)
	upstreamtest.Equal(t, 1, len(p.Calls("prompts/get")), "gets at the server")

	// A replica that has ended has taken its gets with it.
	first = call(0, "ann", gatewaytest.GetParams("up.ask"))
	second = call(1, "ann", resuming(first.RequestState(t), first.InputResponses(t, accepted)))
	replicas[0].Stop()
	call(1, "ann", resuming(second.RequestState(t), second.InputResponses(t, `{"roots":[]}`))).Want(t, 200, refused...)
}

// What replicas pass on is bounded by the largest max_message, which a reload may change.
func TestParked_PassesOnAsMuchAsAServerMaySend(t *testing.T) {
	store := clustertest.Start(t)
	p := gatewaytest.NewRequestingPeer(t, gatewaytest.FormElicitation, gatewaytest.FormElicitation)
	p.Settings = "max_message = 8388608"
	replicas := serveReplicas(t, store, 2, "gateway { %CLUSTER% }\n"+gatewaytest.Team("a", "", "", p.Peer))
	awaitHearing(t, store, 2)
	call := func(i int, params string) gatewaytest.Response {
		return replicas[i].ModernWith("", `{"elicitation":{}}`)("prompts/get", params)
	}
	reply := `{"action":"accept","content":{"name":"` + strings.Repeat("x", 7<<19) + `"}}` // 3.5 MiB of the 4 that a client may send
	var r gatewaytest.Response
	upstreamtest.Eventually(t, "a get with two large replies is answered", func() bool { // on a busy machine, a replica may seem to be gone
		r = call(0, gatewaytest.GetParams("up.ask"))
		for range 2 {
			if !strings.Contains(r.Body, `"input_required"`) {
				return false
			}
			r = call(1, resuming(r.RequestState(t), r.InputResponses(t, reply)))
		}
		return strings.Contains(r.Body, `"resultType":"complete"`)
	})
	if len(r.Body) < 7<<20 {
		t.Errorf("result of %d bytes, want both replies", len(r.Body))
	}
}

// Without the store, a client that comes back to the replica that asked is served, and at another
// one gets the error of today.
func TestParked_WithoutTheStore(t *testing.T) {
	store, p := clustertest.Start(t), gatewaytest.NewRequestingPeer(t, gatewaytest.FormElicitation)
	replicas := serveReplicas(t, store, 2, "gateway { %CLUSTER% }\n"+gatewaytest.Team("a", "", "", p.Peer))
	call := func(i int, params string) gatewaytest.Response {
		return replicas[i].ModernWith("", `{"elicitation":{}}`)("prompts/get", params)
	}
	first := call(0, gatewaytest.GetParams("up.ask"))
	store.Kill()
	awaitStore(t, false, replicas...)
	retry := resuming(first.RequestState(t), first.InputResponses(t, `{"action":"decline"}`))
	call(1, retry).Want(t, 200, `"code":-32602`, `"reason":"state"`)
	call(0, retry).Want(t, 200, `"resultType":"complete"`, "decline")
}

func TestDrain_HoldsAtAllReplicas(t *testing.T) {
	store, p, q := clustertest.Start(t), gatewaytest.NewPeer(t, "p", "a"), gatewaytest.NewPeer(t, "q", "b")
	text := "gateway { %CLUSTER% }\n" + gatewaytest.Team("eng", "", "", p, q)
	replicas := serveReplicas(t, store, 2, text)
	drain(t, replicas[0], "p", true)
	wantDrained(t, true, replicas...)
	wantDrained(t, true, serveReplicas(t, store, 1, text)...) // which was started later
	drain(t, replicas[1], "p", false)
	wantDrained(t, false, replicas...)
	replicas[0].Modern("").Call("prompts/get", gatewaytest.GetParams("q.b")).Want(t, http.StatusOK, `"from q"`)

	// What the store could not be told is heard when it is back.
	store.Pause()
	drain(t, replicas[0], "p", true)
	store.Resume()
	awaitStore(t, true, replicas...)
	wantDrained(t, true, replicas...)
}

// wantDrained waits until the upstream p is drained at replicas, or is not.
func wantDrained(t *testing.T, drained bool, replicas ...*gatewaytest.Server) {
	t.Helper()
	for _, s := range replicas {
		upstreamtest.Eventually(t, "the replica has heard", func() bool {
			return strings.Contains(s.Modern("").Call("prompts/get", gatewaytest.GetParams("p.a")).Body, `"draining"`) == drained
		})
	}
}

// A drain holds as long as any replica lives that knows it, whatever becomes of the store; the last
// one's end is its end.
func TestDrain_LastsAsLongAsAReplicaThatKnowsIt(t *testing.T) {
	t.Parallel()
	store, p, q := clustertest.Start(t), gatewaytest.NewPeer(t, "p", "a"), gatewaytest.NewPeer(t, "q", "b")
	text := "gateway { %CLUSTER% }\n" + gatewaytest.Team("eng", "", "", p, q)
	start := func() *gatewaytest.Server { return serveReplicas(t, store, 1, text)[0] }
	first, second := start(), start()
	drain(t, first, "p", true)
	drain(t, first, "q", true)
	drain(t, second, "q", false)
	wantDrained(t, true, second)
	first.Stop()
	store.Command("FLUSHALL") // what the store had is of no use
	third := start()
	wantDrained(t, true, third)
	third.Modern("").Call("prompts/get", gatewaytest.GetParams("q.b")).Want(t, http.StatusOK, `"from q"`)
	second.Stop()
	fourth := start()
	wantDrained(t, true, fourth)

	// It knows, beside what it was told, when that was done: what somebody has missed meanwhile
	// counts as well.
	drain(t, third, "p", false)
	wantDrained(t, false, fourth)
	drain(t, fourth, "p", true)
	wantDrained(t, true, third)
	third.Stop()
	fourth.Stop()
	fresh := start()
	fresh.Modern("").Call("prompts/get", gatewaytest.GetParams("p.a")).Want(t, http.StatusOK, `"from p"`)
	drain(t, fresh, "p", true) // and nothing is in the way of another one
	wantDrained(t, true, fresh, start())
}

// Replicas get a new configuration one after another.
func TestDrain_HoldsForAnUpstreamThatAReloadBrings(t *testing.T) {
	t.Parallel()
	store, p, q := clustertest.Start(t), gatewaytest.NewPeer(t, "p", "a"), gatewaytest.NewPeer(t, "q", "b")
	text := func(peers ...*gatewaytest.Peer) string {
		return "gateway { cursor_keys = [base64encode(\"0123456789abcdef0123456789abcdef\")] }\ncluster { store = \"" +
			store.URL() + "\" }\n" + gatewaytest.Team("eng", "", "", peers...)
	}
	first := gatewaytest.ServeReloadable(t, text(p, q), gateway.Options{})
	second := gatewaytest.ServeReloadable(t, text(q), gateway.Options{})
	awaitStore(t, true, first.Server, second.Server)
	drain(t, first.Server, "p", true)
	drain(t, first.Server, "q", true)
	upstreamtest.Eventually(t, "the replica has heard", func() bool {
		return strings.Contains(second.Modern("").Call("prompts/get", gatewaytest.GetParams("q.b")).Body, `"draining"`)
	})
	second.MustReload(text(p, q))
	wantDrained(t, true, second.Server)
}

// Clients that one replica tells of a change may list at another one, which may have it later.
func TestSubscription_IsWokenAgainOnceAllReplicasHaveTheChange(t *testing.T) {
	store, p := clustertest.Start(t), gatewaytest.NewPeer(t, "p", "a")
	replicas := serveReplicas(t, store, 2, "gateway { %CLUSTER% }\n"+gatewaytest.Team("eng", "", "", p))
	awaitHearing(t, store, 2)
	for _, s := range replicas {
		upstreamtest.Eventually(t, "the replica is ready", func() bool { return s.Ready().Ready })
	}
	upstreamtest.Eventually(t, "both replicas have a stream", func() bool { return p.Streams() == 2 })
	clients := []*gatewaytest.Client{replicas[0].Modern(""), replicas[1].Modern("")}
	streams := []*gatewaytest.Stream{clients[0].Listen("1"), clients[1].Listen("1")}
	lists, late := make(chan struct{}, 2), make(chan struct{})
	lists <- struct{}{}
	p.Intercept(func(w http.ResponseWriter, _ *http.Request, call gatewaytest.Call) bool {
		if call.Method != "prompts/list" {
			return false
		}
		select {
		case <-lists: // the first replica's
		default:
			<-late
		}
		p.Respond(w, call, p.Result(call.Method))
		return true
	})
	p.Offer("b")
	first := 0
	select {
	case <-streams[0].Events:
	case <-streams[1].Events:
		first = 1
	case <-time.After(gatewaytest.Timeout):
		t.Fatal("nobody is told of the change")
	}
	second := 1 - first
	if got := at(replicas[second], clients[first]).List(); !slices.Equal(got, []string{"p.a"}) {
		t.Fatalf("the slower replica lists %q, want the old list", got)
	}
	close(late)
	streams[first].WantChange() // again
	streams[second].WantChange()
	for _, s := range replicas {
		if got := at(s, clients[first]).List(); !slices.Equal(got, []string{"p.b"}) {
			t.Errorf("a replica lists %q after its clients were told", got)
		}
	}
	// Where both have it in time, each client is told once.
	p.Intercept(nil)
	p.Offer("c")
	for i, stream := range streams {
		upstreamtest.Eventually(t, "the client is told of the new list", func() bool {
			stream.WantChange()
			return slices.Equal(clients[i].List(), []string{"p.c"})
		})
	}
}
