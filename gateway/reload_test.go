package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/gateway/identity"
	"github.com/promptweir/promptweir/gateway/identity/identitytest"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

func TestReload_OfThePolicyNotifiesAffectedAudiencesOnly(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", "a", "b", "c")
	auth := "auth {\n" + gatewaytest.Token("ann") + gatewaytest.Token("bob") + gatewaytest.Token("eve") + "}\n"
	r := gatewaytest.ServeReloadable(t, auth+gatewaytest.Team("eng", `"user:ann"`, gatewaytest.Expose("some", `"p.a"`, `"user:bob", "user:eve"`), p), gateway.Options{})
	p.AwaitStream()
	ann, bob, eve := r.ListenAll("ann"), r.ListenAll("bob"), r.ListenAll("eve")
	sse := r.SSESession("2024-11-05", "bob")
	r.MustReload(auth + "\n\n" + gatewaytest.Team("eng", `"user:ann"`,
		gatewaytest.Expose("first", `"p.a"`, `"user:eve"`)+gatewaytest.Expose("some", `"p.a", "p.b"`, `"user:bob"`), p))
	for c, stream := range bob {
		stream.WantChange()
		c.WantList("p.a", "p.b")
	}
	sse.WantMessage("notifications/prompts/list_changed")
	upstreamtest.Equal(t, 1, len(p.Calls("initialize")), "connections to the upstream")
	p.Offer("a", "c") // the streams go on over the reload; for ann, the first notification
	for _, streams := range []map[*gatewaytest.Client]*gatewaytest.Stream{ann, bob} {
		for _, stream := range streams {
			stream.WantChange()
		}
	}
	sse.WantMessage("notifications/prompts/list_changed")
	p.Offer("c")
	for _, streams := range []map[*gatewaytest.Client]*gatewaytest.Stream{ann, bob, eve} {
		for _, stream := range streams { // for eve, the first notification
			stream.WantChange()
			stream.WantSilence()
		}
	}
}

// folderRole is a child process whose one prompt is named after the folder that it was started in.
func folderRole([]string) {
	folder, err := os.Getwd()
	if err == nil {
		err = upstreamtest.SDK(mcp.ServerOptions{}, filepath.Base(folder)).Run(context.Background(), &mcp.StdioTransport{})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

func TestReload_OfTheFolderOfAChildStartsItThere(t *testing.T) {
	r := gatewaytest.ServeReloadable(t, "", gateway.Options{})
	for _, folder := range []string{"one", "two"} {
		if err := os.Mkdir(filepath.Join(filepath.Dir(r.Path), folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	child := upstreamtest.Child(t, "child", "folder")
	var env strings.Builder
	for name, value := range child.Env {
		fmt.Fprintf(&env, "%s = %q\n", name, value.Reveal())
	}
	text := fmt.Sprintf("team \"eng\" {\nupstream \"child\" {\ncommand = [%q]\nenv = {\n%s}\ndir = \"one\"\n}\n}\n",
		child.Command[0], env.String())
	for _, folder := range []string{"one", "two"} {
		r.MustReload(strings.Replace(text, `"one"`, strconv.Quote(folder), 1))
		r.AwaitUpstreams()
		r.Modern("").WantList("child." + folder)
	}
	if err := r.TryReload(strings.Replace(text, `"one"`, `"three"`, 1)); err == nil || !strings.Contains(err.Error(), `"three": no such file or directory; make the folder`) {
		t.Errorf("Reload with a folder that does not exist = %v", err)
	}
}

func TestReload_OfTheSameConfigurationChangesNothing(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", "a", "b", "c")
	text := func(comment string) string { // which moves the lines
		return comment + "gateway {\n page_size = 2\n}\n" + gatewaytest.Team("eng", "", "", p)
	}
	r := gatewaytest.ServeReloadable(t, text(""), gateway.Options{})
	p.AwaitStream()
	streams := r.ListenAll("")
	session := r.Legacy("2025-11-25", "")
	cursor := string(session.Call("prompts/list", "").Result(t, "nextCursor"))
	for range 3 {
		r.MustReload(text("# same\n\n"))
	}
	upstreamtest.Equal(t, []string{"p.c"}, session.Call("prompts/list", `{"cursor":`+cursor+`}`).Names(t),
		"the cursor from before the reload")
	p.Offer("d")
	for _, stream := range streams {
		stream.WantChange() // the first notification
		stream.WantSilence()
	}
	upstreamtest.Equal(t, 1, len(p.Calls("initialize")), "connections to the upstream")
}

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

func TestReload_OverHTTPIsForOperators(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", "a")
	r := gatewaytest.ServeReloadable(t, gatewaytest.Team("eng", "", "", p), gateway.Options{})
	url := r.AdminURL + "/-/reload"
	gatewaytest.Send(t, http.MethodGet, url, "", nil).Want(t, http.StatusMethodNotAllowed)
	gatewaytest.Send(t, http.MethodPost, url, "", gatewaytest.Headers{"Origin", "http://evil.example.com"}).Want(t, http.StatusForbidden)
	gatewaytest.Send(t, http.MethodPost, url, "", gatewaytest.Headers{"Host", "evil.example.com"}).Want(t, http.StatusForbidden)
	gatewaytest.Send(t, http.MethodPost, url, "", gatewaytest.Headers{"X-Forwarded-For", "192.0.2.1"}).Want(t, http.StatusForbidden)
	if r.Ready().Configuration.Refused != nil {
		t.Error("the configuration was reloaded")
	}
	sum := sha256.Sum256([]byte("operator"))
	r.MustReload(fmt.Sprintf("admin {\n token_sha256 = %q\n}\n", hex.EncodeToString(sum[:])) + gatewaytest.Team("eng", "", "", p))
	elsewhere := gatewaytest.Headers{"X-Forwarded-For", "192.0.2.1", "Authorization", "Bearer nobody"}
	gatewaytest.Send(t, http.MethodPost, url, "", elsewhere).Want(t, http.StatusForbidden)
	elsewhere[3] = "Bearer operator"
	gatewaytest.Send(t, http.MethodPost, url, "", elsewhere).Want(t, http.StatusOK, `"loaded"`)
}

func TestReload_NamesWhatNeedsARestart(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", "a")
	r := gatewaytest.ServeReloadable(t, gatewaytest.Team("eng", "", "", p), gateway.Options{})
	err := r.TryReload("gateway {\n listen = \"127.0.0.1:8090\"\n path = \"/prompts\"\n}\n" + gatewaytest.Team("eng", "", "hide \"all\" { prompts = [\"*\"] }", p))
	if err == nil || !strings.Contains(err.Error(), "gateway.listen and gateway.path changed, which needs a restart") {
		t.Errorf("Reload: %v", err)
	}
	r.Modern("").WantList("p.a")
}

func TestReload_GetsInFlightEndWhereTheyBegan(t *testing.T) {
	stays, changes, goes := gatewaytest.NewPeer(t, "stays", "a"), gatewaytest.NewPeer(t, "changes", "a"), gatewaytest.NewPeer(t, "goes", "a")
	r := gatewaytest.ServeReloadable(t, gatewaytest.Team("eng", "", "", stays, changes, goes), gateway.Options{})
	for _, p := range []*gatewaytest.Peer{stays, changes, goes} {
		p.AwaitStream()
	}
	c, stream := r.Modern(""), r.Modern("").Listen("1")
	var answers []<-chan gatewaytest.Response
	var releases []func()
	for _, p := range []*gatewaytest.Peer{stays, changes, goes} {
		entered, release := p.PauseGets()
		releases = append(releases, release)
		answers = append(answers, c.Begin(p.Name+".a"))
		<-entered
	}
	changed := &gatewaytest.Peer{Name: "changes", URL: changes.URL, Settings: "headers = { X-New = \"yes\" }"}
	more := gatewaytest.NewPeer(t, "more", "a")
	r.MustReload(gatewaytest.Team("eng", "", "", stays, changed, more))
	stream.WantChange() // goes is removed, even if more is not listed yet
	c.Call("prompts/get", gatewaytest.GetParams("goes.a")).Want(t, http.StatusOK, "Unknown prompt: goes.a")
	for _, name := range c.List() {
		if name == "goes.a" {
			t.Error("a removed upstream's prompt is listed")
		}
	}
	upstreamtest.Eventually(t, "the new upstream is listed", func() bool { return slices.Contains(c.List(), "more.a") })
	if goes.Unwatched() {
		t.Error("the session of a get in flight was closed")
	}
	for _, release := range releases {
		release()
	}
	for _, answer := range answers {
		(<-answer).Want(t, http.StatusOK, `"from `)
	}
	c.Call("prompts/get", gatewaytest.GetParams("changes.a")).Want(t, http.StatusOK, "from changes")
	calls := changes.Calls("prompts/get")
	if got := calls[len(calls)-1].Header.Get("X-New"); len(calls) != 2 || got != "yes" {
		t.Errorf("%d gets, the last with the header %q", len(calls), got)
	}
	for p, connected := range map[*gatewaytest.Peer]int{stays: 1, changes: 2, goes: 1, more: 1} {
		upstreamtest.Equal(t, connected, len(p.Calls("initialize")), "connections to %s", p.Name)
	}
	upstreamtest.Eventually(t, "the session of the removed upstream is closed", goes.Unwatched)
}

func TestReload_WaitingGetsMoveToTheNewUpstream(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", "a")
	p.Settings = "concurrency = 1\n timeout = \"10s\"\n"
	r := gatewaytest.ServeReloadable(t, gatewaytest.Team("eng", "", "", p), gateway.Options{})
	entered, release := p.PauseGets()
	const gets = 10
	var answers []<-chan gatewaytest.Response
	for range gets {
		answers = append(answers, r.Modern("").Begin("p.a"))
	}
	<-entered
	next := gatewaytest.NewPeer(t, "p", "a")
	r.MustReload(gatewaytest.Team("eng", "", "", next)) // all but one wait for their turn, or have not arrived yet
	release()
	for _, answer := range answers {
		(<-answer).Want(t, http.StatusOK, `"from p"`)
	}
	if n, m := len(p.Calls("prompts/get")), len(next.Calls("prompts/get")); n+m != gets {
		t.Errorf("%d gets at the old server and %d at the new one, want %d in all", n, m, gets)
	}
}

// A get that waits for its turn at an upstream has sent nothing yet. When a reload retires the upstream, the get begins
// again at the new one, but as a caller whom the new configuration accepts, or not at all.
func TestReload_AuthenticatesWaitingGetsAnew(t *testing.T) {
	old, next := gatewaytest.NewPeer(t, "p", "a"), gatewaytest.NewPeer(t, "p", "a")
	old.Settings = "concurrency = 1\n timeout = \"60s\"\n"
	r := gatewaytest.ServeReloadable(t, gatewaytest.Team("eng", "", "", old), gateway.Options{})
	entered, release := old.PauseGets()
	get := func(c *gatewaytest.Client) chan gatewaytest.Response {
		response := make(chan gatewaytest.Response, 1)
		go func() { response <- c.CallUnchecked("prompts/get", gatewaytest.GetParams("p.a")) }()
		return response
	}
	clients := []*gatewaytest.Client{r.Modern(""), r.Legacy("2025-11-25", "")}
	first := get(clients[0])
	<-entered // and keeps the only turn
	var waiting []chan gatewaytest.Response
	for _, c := range clients {
		waiting = append(waiting, get(c))
	}
	upstreamtest.Eventually(t, "both gets wait for their turn", func() bool {
		return goroutinesIn("queue.(*Slot).Acquire(") == len(waiting)
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
	if calls := next.Calls("prompts/get"); len(calls) != 0 {
		t.Errorf("the new upstream received %s from callers whom the new configuration does not accept", calls[0].Params)
	}
	r.Modern("ann").Call("prompts/get", gatewaytest.GetParams("p.a")).Want(t, http.StatusOK, `"from p"`)
	upstreamtest.Equal(t, 1, len(next.Calls("prompts/get")), "gets at the new upstream")
}

func TestReload_ChangedUpstreamIsNeverMissing(t *testing.T) {
	old, next := gatewaytest.NewPeer(t, "up", "a", "b"), gatewaytest.NewPeer(t, "up", "a", "b")
	r := gatewaytest.ServeReloadable(t, gatewaytest.Team("eng", "", "", old), gateway.Options{})
	old.AwaitStream()
	c, stream := r.Modern(""), r.Modern("").Listen("1")
	ctx, stop := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	for range 4 {
		asking.Go(func() {
			for ctx.Err() == nil {
				c.Call("prompts/get", gatewaytest.GetParams("up.a")).Want(t, http.StatusOK, `"from up"`)
				if names := c.Call("prompts/list", "").Names(t); len(names) != 2 {
					t.Errorf("listed %v", names)
				}
			}
		})
	}
	for i := range 10 {
		r.MustReload(gatewaytest.Team("eng", "", "", []*gatewaytest.Peer{next, old}[i%2]))
	}
	stop()
	asking.Wait()
	upstreamtest.Eventually(t, "the session of the replaced upstream is closed", next.Unwatched)
	old.AwaitStream().Offer("a", "c")
	stream.WantChange() // the first notification
	stream.WantSilence()
}

func TestReload_KeepsTheListOfAnUpstreamThatIsDown(t *testing.T) {
	p := gatewaytest.NewPeer(t, "up", "a")
	r := gatewaytest.ServeReloadable(t, gatewaytest.Team("eng", "", "", p), gateway.Options{})
	c, stream := r.Modern(""), r.Modern("").Listen("1")
	p.Stop()
	p.Settings = "headers = { X-New = \"yes\" }"
	r.MustReload(gatewaytest.Team("eng", "", "", p))
	c.WantList("up.a")
	stream.WantSilence()
	other := gatewaytest.NewPeer(t, "up", "b")
	other.Stop()
	r.MustReload(gatewaytest.Team("eng", "", "", other)) // the list of one server says nothing about another one
	stream.WantChange()
	c.Call("prompts/list", "").Want(t, http.StatusOK, `"error"`, "up")
	stream.WantSilence()
	if !r.Ready().Ready {
		t.Error("the gateway is no longer ready")
	}
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

func TestReload_EndsStdioOfACallerItDoesNotAccept(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", "a")
	r := gatewaytest.ServeReloadable(t, "auth {\n"+gatewaytest.Token("ann")+gatewaytest.Token("bob")+"}\n"+gatewaytest.Team("eng", "", "", p), gateway.Options{})
	ended := map[string]chan error{"ann": make(chan error, 1), "bob": make(chan error, 1)}
	for token, ended := range ended {
		in, client := io.Pipe()
		t.Cleanup(func() { _ = client.Close() })
		credential := func(ctx context.Context, a *identity.Authenticator) (policy.Principal, error) {
			return a.FromToken(ctx, token)
		}
		go func() { ended <- r.ServeStdio(t.Context(), credential, in, io.Discard) }()
	}
	r.MustReload("auth {\n" + gatewaytest.Token("ann") + "}\n" + gatewaytest.Team("eng", "", "", p))
	if err := <-ended["bob"]; !errors.Is(err, identity.ErrBadCredential) {
		t.Errorf("ServeStdio: %v, want %v", err, identity.ErrBadCredential)
	}
	select {
	case err := <-ended["ann"]:
		t.Errorf("ServeStdio ended for a caller that is still accepted: %v", err)
	default:
	}
}

func TestReload_ChangesTheCallerOverStdio(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", "a")
	r := gatewaytest.ServeReloadable(t, gatewaytest.Team("eng", `"user:ann"`, "", p), gateway.Options{})
	c := r.Stdio("")
	c.Request("1", "prompts/list", gatewaytest.Meta)
	c.WantMessage("p.a")
	r.MustReload("auth {\n" + gatewaytest.Token("ann") + "}\n" + gatewaytest.Team("eng", `"user:ann"`, "", p))
	c.Request("2", "prompts/list", gatewaytest.Meta)
	if line := c.WantMessage(`"id":2`); strings.Contains(line, "p.a") { // without an auth block, everybody was a member of every team
		t.Errorf("anybody sees %s", line)
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
	for range 20 {
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

// A reply is for the server that required the input.
func TestReload_RefusesACallerWhoseRequestIsStillArriving(t *testing.T) {
	team := gatewaytest.Team("eng", `"user:ann", "user:bob"`, "", gatewaytest.NewPeer(t, "up", "a"))
	ann, bob := gatewaytest.Token("ann"), gatewaytest.Token("bob")
	r := gatewaytest.ServeReloadable(t, "auth {\n"+ann+bob+"}\n"+team, gateway.Options{})
	body, headers := r.Modern("ann").Encode("1", "prompts/list", "")
	request := gatewaytest.NewRequest(t.Context(), t, http.MethodPost, r.URL, body, append(headers, "Expect", "100-continue"))
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", request.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(gatewaytest.Timeout))
	var whole bytes.Buffer
	if err := request.Write(&whole); err != nil {
		t.Fatal(err)
	}
	header := whole.Len() - len(body)
	if _, err := conn.Write(whole.Next(header)); err != nil {
		t.Fatal(err)
	}
	// The server writes this when the gateway begins to read the body.
	proceed := make([]byte, len("HTTP/1.1 100 Continue\r\n\r\n"))
	if _, err := io.ReadFull(conn, proceed); err != nil || !strings.Contains(string(proceed), " 100 ") {
		t.Fatalf("got %q, %v, want status 100", proceed, err)
	}
	r.MustReload("auth {\n" + bob + "}\n" + team)
	if _, err := conn.Write(whole.Bytes()); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusUnauthorized {
		t.Errorf("status %d, want %d", response.StatusCode, http.StatusUnauthorized)
	}
}

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
	const reloads = 300
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

func TestReload_ReadsTheLockFileAgain(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", "a", "b")
	locked := gatewaytest.Team("eng", "", `lock = "enforce"`, p)
	r := gatewaytest.ServeReloadable(t, gatewaytest.Team("eng", "", "", p), gateway.Options{})
	p.AwaitStream()
	c, stream := r.Modern(""), r.Modern("").Listen("1")
	lock := r.Lock()
	write := func(lock config.Lock) {
		t.Helper()
		if err := os.WriteFile(config.LockPath(r.Path), lock.Format(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(lock[:1])
	r.MustReload(locked)
	stream.WantChange()
	c.WantList("p.a")
	write(lock)
	r.MustReload(locked)
	stream.WantChange()
	c.WantList("p.a", "p.b")
	upstreamtest.Equal(t, 1, len(p.Calls("initialize")), "connections to the upstream")
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
