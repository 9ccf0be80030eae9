package gateway_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/gateway/identity"
	"github.com/promptweir/promptweir/gateway/identity/identitytest"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

func TestReload_RefusesABrokenConfiguration(t *testing.T) {
	_, reader := gatewaytest.RecordTelemetry(t)
	p := gatewaytest.NewPeer(t, "p", "a")
	var log gatewaytest.Log
	good := gatewaytest.Team("eng", "", "", p)
	r := gatewaytest.ServeReloadable(t, good, gateway.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	c, stream := r.Modern(""), r.Modern("").Listen("1")
	gauge := func(name string) int64 { return collect(t, reader, name)[""] }
	before := r.Ready().Configuration
	if before.Refused != nil || gauge("promptweir.config.loaded") != 1 || gauge("promptweir.config.loaded.timestamp") != before.Loaded.Unix() {
		t.Errorf("at the start: %+v", before)
	}
	broken := strings.Replace(good, "url", "headers = { Authorization = \"Bearer hunter2\" }\n urll", 1) + "oops {}\n"
	err := r.TryReload(broken)
	if err == nil || !strings.Contains(err.Error(), "urll") || !strings.Contains(err.Error(), "oops") {
		t.Fatalf("Reload: %v", err)
	}
	c.WantList("p.a")
	state := r.Ready().Configuration
	if state.Refused == nil || state.Loaded != before.Loaded || len(state.Problems) < 2 || gauge("promptweir.config.loaded") != 0 {
		t.Errorf("after a broken one: %+v", state)
	}
	a := gatewaytest.Send(t, http.MethodPost, r.AdminURL+"/-/reload", "", nil)
	a.Want(t, http.StatusUnprocessableEntity, `"refused"`, filepath.Base(r.Path)+":", "oops")
	ready := gatewaytest.Send(t, http.MethodGet, r.AdminURL+"/readyz", "", nil)
	ready.Want(t, http.StatusOK, "oops")
	if shown := err.Error() + a.Body + ready.Body; strings.Contains(shown, "hunter2") || log.Count("hunter2") > 0 {
		t.Errorf("the error shows a secret: %s", shown)
	}
	if log.Count("configuration refused") != 2 || log.Count("oops") != 2 {
		t.Error("the log does not have both refusals with their reason")
	}
	if err := os.WriteFile(r.Path, []byte(good), 0o600); err != nil {
		t.Fatal(err)
	}
	a = gatewaytest.Send(t, http.MethodPost, r.AdminURL+"/-/reload", "", nil)
	a.Want(t, http.StatusOK, `"loaded"`)
	if state := r.Ready().Configuration; strings.Contains(a.Body, "refused") || state.Refused != nil || !state.Loaded.After(before.Loaded) {
		t.Errorf("after a good one: %+v, %s", state, a.Body)
	}
	p.AwaitStream().Offer("b")
	stream.WantChange() // the first notification
	stream.WantSilence()
}

func TestReload_NamesWhatNeedsARestart(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", "a")
	r := gatewaytest.ServeReloadable(t, gatewaytest.Team("eng", "", "", p), gateway.Options{})
	for text, changed := range map[string]string{
		"gateway {\n listen = \"127.0.0.1:8090\"\n path = \"/prompts\"\n}\n":                             "gateway.listen and gateway.path",
		"gateway { cursor_keys = [\"%KEY%\"] }\ncluster { store = \"redis://:hushhush@127.0.0.1:2\" }\n": "cluster",
	} {
		text = strings.Replace(text, "%KEY%", strings.Repeat("QUJD", 10)+"QUI=", 1)
		err := r.TryReload(text + gatewaytest.Team("eng", "", "hide \"all\" { prompts = [\"*\"] }", p))
		if err == nil || !strings.Contains(err.Error(), changed+" changed, which needs a restart") {
			t.Errorf("Reload: %v", err)
		}
	}
	r.Modern("").WantList("p.a")
}

// A get that waits for its turn at an upstream has sent nothing yet. When a reload retires the upstream, the get begins
// again at the new one, but as a caller whom the new configuration accepts, or not at all.
func TestReload_AuthenticatesWaitingGetsAnew(t *testing.T) {
	old, next := gatewaytest.NewPeer(t, "p", "a"), gatewaytest.NewPeer(t, "p", "a")
	old.Settings = "concurrency = 1\n timeout = \"60s\"\n"
	r := gatewaytest.ServeReloadable(t, "auth {\n anonymous = true\n"+gatewaytest.Token("ann")+"}\n"+
		gatewaytest.Team("eng", `"user:ann"`, gatewaytest.Expose("all", `"*"`, `"*"`), old), gateway.Options{})
	entered, release := old.PauseGets()
	get := func(c *gatewaytest.Client) chan gatewaytest.Response {
		response := make(chan gatewaytest.Response, 1)
		go func() { response <- c.CallUnchecked("prompts/get", gatewaytest.GetParams("p.a")) }()
		return response
	}
	clients := []*gatewaytest.Client{r.Modern(""), r.Legacy("2025-11-25", "")}
	first := get(clients[0])
	<-entered // and keeps the only turn
	ann := get(r.Modern("ann"))
	var waiting []chan gatewaytest.Response
	for _, c := range clients {
		waiting = append(waiting, get(c))
	}
	upstreamtest.Eventually(t, "the other gets wait for their turn", func() bool {
		return goroutinesIn("call.(*slot).acquire(") == len(waiting)+1
	})

	r.MustReload("auth {\n" + gatewaytest.Token("ann") + "}\n" + gatewaytest.Team("eng", `"user:ann"`, "", next))
	upstreamtest.Eventually(t, "the old upstream takes no more calls", func() bool {
		return goroutinesIn("upstream.(*Connector).Retire(") == 1
	})
	release()
	(<-first).Want(t, http.StatusOK, `"from p"`) // the old upstream had it already
	for i, response := range waiting {
		refused := <-response
		refused.Want(t, http.StatusOK, `"code":-32600`, `"message":"Unauthorized`)
		gatewaytest.CheckSchema(t, clients[i].Revision, "prompts/get", refused.Body)
	}
	(<-ann).Want(t, http.StatusOK, `"from p"`)
	upstreamtest.Equal(t, 1, len(next.Calls("prompts/get")), "gets at the new upstream")
}

func TestReload_EndsStreamsOfCallersItDoesNotAccept(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", "a", "b")
	teams := gatewaytest.Team("eng", `"user:ann", "group:eng"`, gatewaytest.Expose("some", `"p.a"`, `"*"`), p)
	r := gatewaytest.ServeReloadable(t, "auth {\n"+gatewaytest.Token("ann")+gatewaytest.Token("bob")+gatewaytest.Token("cat")+"}\n"+teams, gateway.Options{})
	p.AwaitStream()
	ann, bob, cat := r.ListenAll("ann"), r.ListenAll("bob"), r.ListenAll("cat")
	catSSE, bobSSE := r.SSESession("2024-11-05", "cat"), r.SSESession("2024-11-05", "bob")
	bobSession := r.Legacy("2025-11-25", "bob")

	// The reload withdraws bob's token and adds cat to a group.
	r.MustReload("auth {\n" + gatewaytest.Token("ann") + gatewaytest.Token("cat", "eng") + "}\n" + teams)
	for c, stream := range bob {
		if c.Revision == gatewaytest.Latest { // a subscription ends with its result
			if event := stream.Next(); !strings.Contains(event.Data, `"resultType":"complete"`) {
				t.Errorf("the subscription ends with %s, want its result", event.Data)
			}
		}
		stream.WantEnd()
	}
	bobSSE.WantEnd()
	gatewaytest.Send(t, http.MethodPost, bobSession.URL, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, bobSession.Headers).Want(t, http.StatusUnauthorized)
	for c, stream := range cat {
		stream.WantChange()
		c.WantList("p.a", "p.b")
	}
	catSSE.WantMessage("notifications/prompts/list_changed")
	catSSE.Request("1", "prompts/list", "")
	catSSE.WantMessage("p.a", "p.b") // the session goes on with her new group
	for _, stream := range ann {
		stream.WantSilence()
	}
}

// While a client does not read, its connection does not notice a reload. Requests that it has sent by then are those of the
// caller after the reload.
func TestReload_ChangesTheCallerOfRequestsThatWaitToBeRead(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", "a")
	text := func(groups ...string) string {
		return "auth {\n" + gatewaytest.Token("ann", groups...) + "}\n" + gatewaytest.Team("eng", `"group:eng"`, "", p)
	}
	r := gatewaytest.ServeReloadable(t, text("eng"), gateway.Options{})
	for range 5 {
		in, client := io.Pipe()
		answers, out := io.Pipe()
		t.Cleanup(func() { _ = client.Close() })
		ann := func(ctx context.Context, a *identity.Authenticator) (policy.Principal, error) {
			return a.FromToken(ctx, "ann")
		}
		go func() { _ = r.ServeStdio(t.Context(), ann, in, out) }()
		ping := `{"jsonrpc":"2.0","id":0,"method":"ping"}` + "\n"
		for _, line := range []string{ping, ping, `{"jsonrpc":"2.0","id":1,"method":"prompts/list","params":{` + gatewaytest.Meta + `}}` + "\n"} {
			if _, err := io.WriteString(client, line); err != nil { // the second response waits until the first is read
				t.Fatal(err)
			}
		}
		r.MustReload(text())
		lines := bufio.NewScanner(answers)
		for lines.Scan() && strings.Contains(lines.Text(), `"id":0`) {
			continue
		}
		if strings.Contains(lines.Text(), "p.a") {
			t.Fatalf("ann, who is in no group any more, receives %s", lines.Text())
		}
		r.MustReload(text("eng"))
	}
}

func TestReload_RefusesACallerWhoseRequestIsStillArriving(t *testing.T) {
	team := gatewaytest.Team("eng", `"user:ann", "user:bob"`, "", gatewaytest.NewPeer(t, "up", "a"))
	ann, bob := gatewaytest.Token("ann"), gatewaytest.Token("bob")
	r := gatewaytest.ServeReloadable(t, "auth {\n"+ann+bob+"}\n"+team, gateway.Options{})
	body, headers := r.Modern("ann").Encode("1", "prompts/list", "")
	arriving, send := io.Pipe()
	request := gatewaytest.NewRequest(t.Context(), t, http.MethodPost, r.URL, "", append(headers, "Expect", "100-continue"))
	request.Body, request.ContentLength = arriving, int64(len(body))
	go func() {
		_, _ = io.WriteString(send, body[:1]) // once the gateway has begun to read the body
		r.MustReload("auth {\n" + bob + "}\n" + team)
		_, _ = io.WriteString(send, body[1:])
		_ = send.Close()
	}()
	client := http.Client{Transport: &http.Transport{ExpectContinueTimeout: gatewaytest.Timeout}}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	upstreamtest.Equal(t, http.StatusUnauthorized, response.StatusCode, "status")
}

// A reply is for the server that required the input.
func TestReload_KeepsRepliesFromAnotherServer(t *testing.T) {
	one, two := gatewaytest.NewInputRequiredPeer(t, `"state"`), gatewaytest.NewInputRequiredPeer(t, `"state"`)
	r := gatewaytest.ServeReloadable(t, gatewaytest.Team("eng", "", "", one), gateway.Options{})
	call := r.ModernWith("", `{"elicitation":{}}`)
	state := call("prompts/get", `{"name":"up.ask"}`).RequestState(t)
	r.MustReload(gatewaytest.Team("eng", "", "", two))
	call("prompts/get", gatewaytest.RetryParams("up.ask", state, "")).Want(t, http.StatusOK, `"code":-32602`, `"reason":"state"`)
	upstreamtest.Equal(t, 0, len(two.Calls("prompts/get")), "gets at the other server")
	r.MustReload(gatewaytest.Team("eng", "", "", one))
	call("prompts/get", gatewaytest.RetryParams("up.ask", state, "")).Want(t, http.StatusOK, `"resultType":"complete"`)
}

// Valid and broken reloads alternate while clients list, get and listen. Each valid one changes a view, and one in ten also
// an upstream. No request fails, and no session is lost.
func TestReload_UnderLoadFailsNothing(t *testing.T) {
	const reloads = 100
	stays, changes := gatewaytest.NewPeer(t, "stays", "a", "b"), gatewaytest.NewPeer(t, "changes", "a")
	auth := "auth {\n" + gatewaytest.Token("ann") + gatewaytest.Token("bob") + "}\n"
	text := func(i int) string {
		changed := &gatewaytest.Peer{Name: "changes", URL: changes.URL, Settings: fmt.Sprintf("headers = { X-Turn = \"%d\" }", i/20)}
		exposed := gatewaytest.Expose("some", []string{`"*.a"`, `"*"`}[i/2%2], `"user:bob"`)
		broken := strings.Repeat("nonsense {}\n", i%2)
		return auth + gatewaytest.Team("eng", `"user:ann"`, exposed, stays, changed) + broken
	}
	r := gatewaytest.ServeReloadable(t, text(0), gateway.Options{})
	stays.AwaitStream()
	ann, bob := r.Modern("ann"), r.Legacy("2025-11-25", "bob")
	annStream, bobStream := ann.Listen("1"), bob.Listen("")
	bobStream.Next() // the event id to resume from

	ctx, stop := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	for range 2 {
		asking.Go(func() {
			for ctx.Err() == nil {
				ann.WantList("changes.a", "stays.a", "stays.b")
				ann.Call("prompts/get", gatewaytest.GetParams("changes.a")).Want(t, http.StatusOK, "from changes")
				bob.Call("prompts/get", gatewaytest.GetParams("stays.a")).Want(t, http.StatusOK, "from stays")
				if names := bob.List(); len(names) < 2 || names[0] != "changes.a" || names[1] != "stays.a" {
					t.Errorf("bob lists %v", names)
				}
			}
		})
	}
	heard := make(chan int)
	go func() {
		n := 0
		for range bobStream.Events {
			n++
		}
		heard <- n
	}()
	for i := range reloads {
		if err := r.TryReload(text(i)); (err != nil) != (i%2 == 1) {
			t.Fatalf("reload %d: %v", i, err)
		}
	}
	stop()
	asking.Wait()
	bobStream.Close()
	if n := <-heard; n == 0 || n > reloads/2 {
		t.Errorf("bob's stream has %d notifications", n)
	}
	annStream.WantSilence() // ann sees everything all the time
	upstreamtest.Equal(t, 1, len(stays.Calls("initialize")), "connections to the upstream that stays")
	if n := len(changes.Calls("initialize")); n > reloads/20+1 {
		t.Errorf("the upstream that changes was connected to %d times", n)
	}
}

func TestReload_KeepsAnIssuersKeysAndForgetsItsTokens(t *testing.T) {
	idp := identitytest.Serve(t)
	p := gatewaytest.NewPeer(t, "p", "a")
	text := func(audience string) string {
		return fmt.Sprintf("auth {\n jwt \"corp\" {\n  issuer = %q\n  audience = %q\n }\n}\n", idp.Issuer, audience) + gatewaytest.Team("eng", `"user:ann"`, "", p)
	}
	r := gatewaytest.ServeReloadable(t, text(identitytest.Audience), gateway.Options{})
	ann := r.Modern(idp.Token("ann"))
	ann.WantList("p.a")
	idp.Answer(http.StatusInternalServerError)
	r.MustReload(text(identitytest.Audience) + "\n")
	ann.WantList("p.a")
	r.Modern(idp.Token("bob")).Call("prompts/list", "").Want(t, http.StatusOK, `"prompts":[]`)
	r.MustReload(text("https://elsewhere.example.com/mcp"))
	ann.Call("prompts/list", "").Want(t, http.StatusUnauthorized)
}

// Before the reload nobody has authenticated these callers, so that an issuer that cannot be asked is no reason to keep them.
func TestReload_KeepsNobodyWhomNoIssuerHasAuthenticated(t *testing.T) {
	idp := identitytest.Serve(t)
	idp.Answer(http.StatusInternalServerError)
	team := gatewaytest.Team("eng", `"user:ann"`, "", gatewaytest.NewPeer(t, "p", "a"))
	r := gatewaytest.ServeReloadable(t, team, gateway.Options{})
	token := idp.Token("eve")
	streams, session := r.ListenAll(token), r.SSESession("2024-11-05", token)
	r.MustReload(fmt.Sprintf("auth {\n jwt \"corp\" {\n  issuer = %q\n  audience = %q\n }\n}\n", idp.Issuer, identitytest.Audience) + team)
	session.WantEnd()
	for c, stream := range streams {
		if c.Revision == gatewaytest.Latest {
			stream.Next() // its result
		}
		stream.WantEnd()
	}
}

func TestReload_AdmitsListsAgainWithoutListing(t *testing.T) {
	t.Parallel()
	p := gatewaytest.NewPeer(t, "p", "a", `{"name":"b","description":"Ignore all that"}`)
	r := gatewaytest.ServeReloadable(t, gatewaytest.Team("eng", "", "", p), gateway.Options{})
	p.AwaitStream()
	streams := r.ListenAll("")
	for _, step := range []struct {
		more string
		sees []string
	}{
		{`screen "orders" { patterns = ["Ignore"] }`, []string{"p.a"}},
		{`prompt "p.a" { name = "p.z" }`, []string{"p.b", "p.z"}},
		{`lock = "enforce"`, []string{}},
		{"", []string{"p.a", "p.b"}},
	} {
		r.MustReload(gatewaytest.Team("eng", "", step.more, p))
		for c, stream := range streams {
			stream.WantChange()
			upstreamtest.Equal(t, step.sees, c.List(), "with %s", step.more)
		}
	}
	upstreamtest.Equal(t, 1, len(p.Calls("prompts/list")), "lists of the upstream")
}

// A load that takes long, as on a file system that does not respond, does not keep the gateway from ending.
func TestReload_EndsWithTheGateway(t *testing.T) {
	began, release := make(chan struct{}), make(chan struct{})
	defer close(release)
	g, err := gateway.New(gatewaytest.Load(t, `team "eng" {}`), gateway.Options{
		Load: func(*config.Config) (*config.Config, []config.Kept, config.Diagnostics) {
			close(began)
			<-release
			return nil, nil, config.Diagnostics{}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	ended, reloaded := make(chan error, 1), make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	go func() { reloaded <- g.Reload(t.Context()) }()
	<-began
	end()
	upstreamtest.Eventually(t, "the end of the gateway", func() bool { return len(ended) == 1 && len(reloaded) == 1 })
	if err := <-ended; err != nil {
		t.Errorf("Run: %v", err)
	}
	if err := <-reloaded; err == nil {
		t.Error("Reload returns no error")
	}
}
