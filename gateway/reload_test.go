package gateway_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/identity"
	"github.com/promptweir/promptweir/gateway/identity/identitytest"
	"github.com/promptweir/promptweir/gateway/policy"
)

// reloadable is a gateway whose configuration a test changes.
type reloadable struct {
	*server

	path string
}

func serveReloadable(t testing.TB, text string, opts gateway.Options) *reloadable {
	t.Helper()
	r := &reloadable{path: filepath.Join(t.TempDir(), "changing.hcl")}
	opts.Load = func() (*config.Config, config.Diagnostics) { return config.Load(r.path, config.Options{}) }
	r.server = beginWith(t, text, opts)
	r.settle()
	return r
}

// try reloads with another text.
func (r *reloadable) try(text string) error {
	r.t.Helper()
	if err := os.WriteFile(r.path, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
	return r.Reload(r.t.Context())
}

func (r *reloadable) reload(text string) {
	r.t.Helper()
	if err := r.try(text); err != nil {
		r.t.Fatalf("%v\n%s", err, text)
	}
}

// expose is an expose block.
func expose(label, patterns, to string) string {
	return fmt.Sprintf("expose %q {\n prompts = [%s]\n to = [%s]\n}\n", label, patterns, to)
}

// sees fails the test if a client lists anything else.
func (c *client) sees(names ...string) {
	c.t.Helper()
	if diff := cmp.Diff(names, c.list(), cmp.Transformer("", func(names []string) []string { return slices.Clip(names) })); diff != "" {
		c.t.Errorf("%s lists (-want +got):\n%s", c.revision, diff)
	}
}

func TestAReloadOfThePolicyTouchesNoUpstreamAndTellsThoseItConcerns(t *testing.T) {
	p := newPeer(t, "p", "a", "b", "c")
	auth := "auth {\n" + token("ann") + token("bob") + token("eve") + "}\n"
	r := serveReloadable(t, auth+team("eng", `"user:ann"`, expose("some", `"p.a"`, `"user:bob", "user:eve"`), p), gateway.Options{})
	p.watched()
	ann, bob, eve := listeners(r.server, "ann"), listeners(r.server, "bob"), listeners(r.server, "eve")
	sse := r.initialized("2024-11-05", "bob")
	r.reload(auth + "\n\n" + team("eng", `"user:ann"`,
		expose("first", `"p.a"`, `"user:eve"`)+expose("some", `"p.a", "p.b"`, `"user:bob"`), p))
	for c, stream := range bob {
		stream.changed()
		c.sees("p.a", "p.b")
	}
	sse.expect("notifications/prompts/list_changed")
	if n := len(p.heard("initialize")); n != 1 {
		t.Errorf("the upstream was connected to %d times", n)
	}
	p.offer("a", "c") // which streams taken over hear of; for ann, the first that she hears
	for _, streams := range []map[*client]*stream{ann, bob} {
		for _, stream := range streams {
			stream.changed()
		}
	}
	sse.expect("notifications/prompts/list_changed")
	p.offer("c")
	for _, streams := range []map[*client]*stream{ann, bob, eve} {
		for _, stream := range streams { // for eve, the first that she hears
			stream.changed()
			stream.silent()
		}
	}
}

func TestAReloadOfTheSameTellsNobodyAndKeepsWhatWasSealed(t *testing.T) {
	p := newPeer(t, "p", "a", "b", "c")
	text := func(comment string) string { // the lines move
		return comment + "gateway {\n page_size = 2\n}\n" + team("eng", "", "", p)
	}
	r := serveReloadable(t, text(""), gateway.Options{})
	p.watched()
	streams := listeners(r.server, "")
	session := r.legacy("2025-11-25", "")
	cursor := string(session.call("prompts/list", "").result(t, "nextCursor"))
	for range 3 {
		r.reload(text("# same\n\n"))
	}
	if diff := cmp.Diff([]string{"p.c"}, session.call("prompts/list", `{"cursor":`+cursor+`}`).names(t)); diff != "" {
		t.Errorf("the cursor from before the reload (-want +got):\n%s", diff)
	}
	p.offer("d")
	for _, stream := range streams {
		stream.changed() // the first that it hears
		stream.silent()
	}
	if n := len(p.heard("initialize")); n != 1 {
		t.Errorf("the upstream was connected to %d times", n)
	}
}

func TestABrokenConfigurationChangesNothing(t *testing.T) {
	_, reader := record(t)
	p := newPeer(t, "p", "a")
	var log lines
	good := team("eng", "", "", p)
	r := serveReloadable(t, good, gateway.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	c, stream := r.modern(""), r.modern("").open("1")
	gauge := func(name string) (value int64) {
		t.Helper()
		var all metricdata.ResourceMetrics
		if err := reader.Collect(t.Context(), &all); err != nil {
			t.Fatal(err)
		}
		for _, scope := range all.ScopeMetrics {
			for _, m := range scope.Metrics {
				if points, ok := m.Data.(metricdata.Gauge[int64]); ok && m.Name == name {
					return points.DataPoints[0].Value
				}
			}
		}
		t.Fatalf("no metric %s", name)
		return 0
	}
	before := r.Ready().Configuration
	if before.Refused != nil || gauge("promptweir.config.loaded") != 1 || gauge("promptweir.config.loaded.time") != before.Loaded.Unix() {
		t.Errorf("at the start: %+v", before)
	}
	broken := strings.Replace(good, "url", "headers = { Authorization = \"Bearer hunter2\" }\n urll", 1) + "oops {}\n"
	err := r.try(broken)
	if err == nil || !strings.Contains(err.Error(), "urll") || !strings.Contains(err.Error(), "oops") {
		t.Fatalf("Reload: %v", err)
	}
	c.sees("p.a")
	state := r.Ready().Configuration
	if state.Refused == nil || state.Loaded != before.Loaded || len(state.Problems) < 2 || gauge("promptweir.config.loaded") != 0 {
		t.Errorf("after a broken one: %+v", state)
	}
	a := send(t, http.MethodPost, r.admin+"/-/reload", "", nil)
	a.is(t, http.StatusUnprocessableEntity, `"refused"`, filepath.Base(r.path)+":", "oops")
	ready := send(t, http.MethodGet, r.admin+"/readyz", "", nil)
	ready.is(t, http.StatusOK, "oops")
	if shown := err.Error() + a.body + ready.body; strings.Contains(shown, "hunter2") || log.count("hunter2") > 0 {
		t.Errorf("a secret is shown: %s", shown)
	}
	if log.count("configuration refused") != 2 || log.count("oops") != 2 {
		t.Error("the log does not say twice what is wrong")
	}
	if err := os.WriteFile(r.path, []byte(good), 0o600); err != nil {
		t.Fatal(err)
	}
	a = send(t, http.MethodPost, r.admin+"/-/reload", "", nil)
	a.is(t, http.StatusOK, `"loaded"`)
	if state := r.Ready().Configuration; strings.Contains(a.body, "refused") || state.Refused != nil || !state.Loaded.After(before.Loaded) {
		t.Errorf("after a good one: %+v, %s", state, a.body)
	}
	p.watched().offer("b")
	stream.changed() // the first that it hears
	stream.silent()
}

func TestReloadsAreAskedForFromThisMachineOnly(t *testing.T) {
	p := newPeer(t, "p", "a")
	r := serveReloadable(t, team("eng", "", "", p), gateway.Options{})
	url := r.admin + "/-/reload"
	send(t, http.MethodGet, url, "", nil).is(t, http.StatusMethodNotAllowed)
	send(t, http.MethodPost, url, "", headers{"Origin", "http://evil.example.com"}).is(t, http.StatusForbidden)
	send(t, http.MethodPost, url, "", headers{"Host", "evil.example.com"}).is(t, http.StatusForbidden)
	send(t, http.MethodPost, url, "", headers{"X-Forwarded-For", "192.0.2.1"}).is(t, http.StatusForbidden)
	if r.Ready().Configuration.Refused != nil {
		t.Error("a reload was made")
	}
	sum := sha256.Sum256([]byte("operator"))
	r.reload(fmt.Sprintf("admin {\n token_sha256 = %q\n}\n", hex.EncodeToString(sum[:])) + team("eng", "", "", p))
	elsewhere := headers{"X-Forwarded-For", "192.0.2.1", "Authorization", "Bearer nobody"}
	send(t, http.MethodPost, url, "", elsewhere).is(t, http.StatusForbidden)
	elsewhere[3] = "Bearer operator"
	send(t, http.MethodPost, url, "", elsewhere).is(t, http.StatusOK, `"loaded"`)
}

func TestWhatOnlyARestartCanChangeIsSaid(t *testing.T) {
	p := newPeer(t, "p", "a")
	r := serveReloadable(t, team("eng", "", "", p), gateway.Options{})
	err := r.try("gateway {\n listen = \"127.0.0.1:8090\"\n path = \"/prompts\"\n}\n" + team("eng", "", "hide \"all\" { prompts = [\"*\"] }", p))
	if err == nil || !strings.Contains(err.Error(), "gateway.listen and gateway.path changed, which needs a restart") {
		t.Errorf("Reload: %v", err)
	}
	r.modern("").sees("p.a")
}

// gate makes a peer's gets wait until release is closed; entered says when one waits.
func gate(p *peer) (entered, release chan struct{}) {
	entered, release = make(chan struct{}, 10), make(chan struct{})
	p.intercept(func(_ http.ResponseWriter, r *http.Request, call heard) bool {
		if call.Method == "prompts/get" {
			entered <- struct{}{}
			select {
			case <-release:
			case <-r.Context().Done():
			}
		}
		return false
	})
	return entered, release
}

// gone reports whether the gateway has no stream to the peer any more.
func (p *peer) gone() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.streams) == 0
}

func TestGetsInFlightEndWhereTheyBegan(t *testing.T) {
	stays, changes, goes := newPeer(t, "stays", "a"), newPeer(t, "changes", "a"), newPeer(t, "goes", "a")
	r := serveReloadable(t, team("eng", "", "", stays, changes, goes), gateway.Options{})
	for _, p := range []*peer{stays, changes, goes} {
		p.watched()
	}
	c, stream := r.modern(""), r.modern("").open("1")
	answers := make(chan answer, 3)
	var releases []chan struct{}
	for _, p := range []*peer{stays, changes, goes} {
		entered, release := gate(p)
		releases = append(releases, release)
		go func() { answers <- c.call("prompts/get", get(p.name+".a")) }()
		<-entered
	}
	changed := &peer{name: "changes", url: changes.url, settings: "headers = { X-New = \"yes\" }"}
	more := newPeer(t, "more", "a")
	r.reload(team("eng", "", "", stays, changed, more))
	stream.changed() // goes is gone, if more is not there yet
	c.call("prompts/get", get("goes.a")).is(t, http.StatusOK, "Unknown prompt: goes.a")
	for _, name := range c.list() {
		if name == "goes.a" {
			t.Error("a removed upstream's prompt is listed")
		}
	}
	eventually(t, "the new upstream is there", func() bool { return slices.Contains(c.list(), "more.a") })
	if goes.gone() {
		t.Error("a session was closed that a get still needs")
	}
	for _, release := range releases {
		close(release)
	}
	for range 3 {
		(<-answers).is(t, http.StatusOK, `"from `)
	}
	c.call("prompts/get", get("changes.a")).is(t, http.StatusOK, "from changes")
	calls := changes.heard("prompts/get")
	if got := calls[len(calls)-1].header.Get("X-New"); len(calls) != 2 || got != "yes" {
		t.Errorf("%d gets, the last with the header %q", len(calls), got)
	}
	for p, connected := range map[*peer]int{stays: 1, changes: 2, goes: 1, more: 1} {
		if n := len(p.heard("initialize")); n != connected {
			t.Errorf("%s was connected to %d times, want %d", p.name, n, connected)
		}
	}
	eventually(t, "the session of the one that goes is closed", goes.gone)
}

func TestGetsThatWaitedAreAskedOfWhatIsThereThen(t *testing.T) {
	p := newPeer(t, "p", "a")
	p.settings = "concurrency = 1\n timeout = \"10s\"\n"
	r := serveReloadable(t, team("eng", "", "", p), gateway.Options{})
	entered, release := gate(p)
	const gets = 10
	answers := make(chan answer, gets)
	for range gets {
		go func() { answers <- r.modern("").call("prompts/get", get("p.a")) }()
	}
	<-entered
	next := newPeer(t, "p", "a")
	r.reload(team("eng", "", "", next)) // all but one wait for their turn, or have not come yet
	close(release)
	for range gets {
		(<-answers).is(t, http.StatusOK, `"from p"`)
	}
	if n, m := len(p.heard("prompts/get")), len(next.heard("prompts/get")); n+m != gets {
		t.Errorf("%d gets of the old one and %d of the new one, want %d in all", n, m, gets)
	}
}

func TestAnUpstreamThatIsChangedIsNeverMissing(t *testing.T) {
	old, next := newPeer(t, "up", "a", "b"), newPeer(t, "up", "a", "b")
	r := serveReloadable(t, team("eng", "", "", old), gateway.Options{})
	old.watched()
	c, stream := r.modern(""), r.modern("").open("1")
	ctx, stop := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	for range 4 {
		asking.Go(func() {
			for ctx.Err() == nil {
				c.call("prompts/get", get("up.a")).is(t, http.StatusOK, `"from up"`)
				if names := c.call("prompts/list", "").names(t); len(names) != 2 {
					t.Errorf("listed %v", names)
				}
			}
		})
	}
	for i := range 10 {
		r.reload(team("eng", "", "", []*peer{next, old}[i%2]))
	}
	stop()
	asking.Wait()
	eventually(t, "the session of the one that was replaced is closed", next.gone)
	old.watched().offer("a", "c")
	stream.changed() // the first that it hears
	stream.silent()
}

func TestAnUpstreamThatIsDownKeepsItsListOverAReload(t *testing.T) {
	p := newPeer(t, "up", "a")
	r := serveReloadable(t, team("eng", "", "", p), gateway.Options{})
	c, stream := r.modern(""), r.modern("").open("1")
	p.stop()
	p.settings = "headers = { X-New = \"yes\" }"
	r.reload(team("eng", "", "", p))
	c.sees("up.a")
	stream.silent()
	other := newPeer(t, "up", "b")
	other.stop()
	r.reload(team("eng", "", "", other)) // another server: what the first had is no guess
	stream.changed()
	c.call("prompts/list", "").is(t, http.StatusOK, `"error"`, "up")
	stream.silent()
	if !r.Ready().Ready {
		t.Error("the gateway is not ready any more")
	}
}

func TestStreamsEndOfWhomAReloadDoesNotAccept(t *testing.T) {
	p := newPeer(t, "p", "a", "b")
	teams := team("eng", `"user:ann", "group:eng"`, expose("some", `"p.a"`, `"*"`), p)
	r := serveReloadable(t, "auth {\n"+token("ann")+token("bob")+token("cat")+"}\n"+teams, gateway.Options{})
	p.watched()
	ann, bob, cat := listeners(r.server, "ann"), listeners(r.server, "bob"), listeners(r.server, "cat")
	catSSE, bobSSE := r.initialized("2024-11-05", "cat"), r.initialized("2024-11-05", "bob")
	bobSession := r.legacy("2025-11-25", "bob")

	// Bob's token is withdrawn, cat's has another group.
	r.reload("auth {\n" + token("ann") + token("cat", "eng") + "}\n" + teams)
	for c, stream := range bob {
		if c.revision == latest { // which ends a subscription with its result
			if event := stream.next(); !strings.Contains(event.Data, `"resultType":"complete"`) {
				t.Errorf("the subscription ends with %s", event.Data)
			}
		}
		stream.ended()
	}
	bobSSE.ended()
	send(t, http.MethodPost, bobSession.url, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, bobSession.headers).is(t, http.StatusUnauthorized)
	for c, stream := range cat {
		stream.changed()
		c.sees("p.a", "p.b")
	}
	catSSE.expect("notifications/prompts/list_changed")
	catSSE.request("1", "prompts/list", "")
	catSSE.expect("p.a", "p.b") // the conversation goes on as who she is now
	for _, stream := range ann {
		stream.silent()
	}
}

func TestStdioEndsWhenAReloadDoesNotAcceptItsToken(t *testing.T) {
	p := newPeer(t, "p", "a")
	r := serveReloadable(t, "auth {\n"+token("ann")+token("bob")+"}\n"+team("eng", "", "", p), gateway.Options{})
	ended := map[string]chan error{"ann": make(chan error, 1), "bob": make(chan error, 1)}
	for token, ended := range ended {
		in, client := io.Pipe()
		t.Cleanup(func() { _ = client.Close() })
		credential := func(ctx context.Context, a *identity.Authenticator) (policy.Principal, error) {
			return a.FromToken(ctx, token)
		}
		go func() { ended <- r.ServeStdio(t.Context(), credential, in, io.Discard) }()
	}
	r.reload("auth {\n" + token("ann") + "}\n" + team("eng", "", "", p))
	if err := <-ended["bob"]; !errors.Is(err, identity.ErrBadCredential) {
		t.Errorf("ServeStdio: %v, want %v", err, identity.ErrBadCredential)
	}
	select {
	case err := <-ended["ann"]:
		t.Errorf("it ended for whoever is still accepted: %v", err)
	default:
	}
}

func TestStdioIsWhoAReloadMakesIt(t *testing.T) {
	p := newPeer(t, "p", "a")
	r := serveReloadable(t, team("eng", `"user:ann"`, "", p), gateway.Options{})
	c := r.stdio("")
	c.request("1", "prompts/list", meta)
	c.expect("p.a")
	r.reload("auth {\n" + token("ann") + "}\n" + team("eng", `"user:ann"`, "", p))
	c.request("2", "prompts/list", meta)
	if line := c.expect(`"id":2`); strings.Contains(line, "p.a") { // who was in every team before there was an auth block
		t.Errorf("anybody sees %s", line)
	}
}

// A client that is slow to read keeps its conversation from noticing a reload, and what it asks after that is there already.
func TestWhatIsAskedAfterAReloadIsAskedByWhoeverItMakes(t *testing.T) {
	p := newPeer(t, "p", "a")
	text := func(groups ...string) string {
		return "auth {\n" + token("ann", groups...) + "}\n" + team("eng", `"group:eng"`, "", p)
	}
	r := serveReloadable(t, text("eng"), gateway.Options{})
	for range 20 {
		in, client := io.Pipe()
		answers, out := io.Pipe()
		t.Cleanup(func() { _ = client.Close() })
		ann := func(ctx context.Context, a *identity.Authenticator) (policy.Principal, error) {
			return a.FromToken(ctx, "ann")
		}
		go func() { _ = r.ServeStdio(t.Context(), ann, in, out) }()
		ping := `{"jsonrpc":"2.0","id":0,"method":"ping"}` + "\n"
		for _, line := range []string{ping, ping, `{"jsonrpc":"2.0","id":1,"method":"prompts/list","params":{` + meta + `}}` + "\n"} {
			if _, err := io.WriteString(client, line); err != nil { // the second answer waits for the first to be read
				t.Fatal(err)
			}
		}
		r.reload(text())
		lines := bufio.NewScanner(answers)
		for lines.Scan() && strings.Contains(lines.Text(), `"id":0`) {
			continue
		}
		if strings.Contains(lines.Text(), "p.a") {
			t.Fatalf("ann, who is in no group any more, is shown %s", lines.Text())
		}
		r.reload(text("eng"))
	}
}

// What a person answers is for the server that asked.
func TestAReloadKeepsAnswersFromAnotherServer(t *testing.T) {
	one, two := asker(t, `"state"`), asker(t, `"state"`)
	r := serveReloadable(t, team("eng", "", "", one), gateway.Options{})
	call := r.capable("", `{"elicitation":{}}`)
	state := call("prompts/get", `{"name":"up.ask"}`).state(t)
	r.reload(team("eng", "", "", two))
	call("prompts/get", retry("up.ask", state, "")).is(t, http.StatusOK, `"code":-32602`, `"reason":"state"`)
	if n := len(two.heard("prompts/get")); n != 0 {
		t.Errorf("the other server is asked %d times", n)
	}
	r.reload(team("eng", "", "", one))
	call("prompts/get", retry("up.ask", state, "")).is(t, http.StatusOK, `"resultType":"complete"`)
}

// Reloads, valid and broken in turn, while clients list, get and listen. Each valid one changes what some see, and one
// in ten also how an upstream is reached. Nothing fails, and no session is lost.
func TestReloadUnderLoad(t *testing.T) {
	reloads := 1000
	if testing.Short() {
		reloads = 100
	}
	stays, changes := newPeer(t, "stays", "a", "b"), newPeer(t, "changes", "a")
	auth := "auth {\n" + token("ann") + token("bob") + "}\n"
	text := func(i int) string {
		changed := &peer{name: "changes", url: changes.url, settings: fmt.Sprintf("headers = { X-Turn = \"%d\" }", i/20)}
		exposed := expose("some", []string{`"*.a"`, `"*"`}[i/2%2], `"user:bob"`)
		broken := strings.Repeat("nonsense {}\n", i%2)
		return auth + team("eng", `"user:ann"`, exposed, stays, changed) + broken
	}
	r := serveReloadable(t, text(0), gateway.Options{})
	stays.watched()
	ann, bob := r.modern("ann"), r.legacy("2025-11-25", "bob")
	annStream, bobStream := ann.open("1"), bob.open("")
	bobStream.next() // the id to begin with

	ctx, stop := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	for range 2 {
		asking.Go(func() {
			for ctx.Err() == nil {
				ann.sees("changes.a", "stays.a", "stays.b")
				ann.call("prompts/get", get("changes.a")).is(t, http.StatusOK, "from changes")
				bob.call("prompts/get", get("stays.a")).is(t, http.StatusOK, "from stays")
				if names := bob.list(); len(names) < 2 || names[0] != "changes.a" || names[1] != "stays.a" {
					t.Errorf("bob lists %v", names)
				}
			}
		})
	}
	heard := make(chan int)
	go func() {
		n := 0
		for range bobStream.events {
			n++
		}
		heard <- n
	}()
	for i := range reloads {
		if err := r.try(text(i)); (err != nil) != (i%2 == 1) {
			t.Fatalf("reload %d: %v", i, err)
		}
	}
	stop()
	asking.Wait()
	bobStream.close()
	if n := <-heard; n == 0 || n > reloads/2 {
		t.Errorf("bob's stream heard of %d changes", n)
	}
	annStream.silent() // who saw everything all the time
	if n := len(stays.heard("initialize")); n != 1 {
		t.Errorf("the upstream that stays was connected to %d times", n)
	}
	if n := len(changes.heard("initialize")); n > reloads/20+1 {
		t.Errorf("the upstream that changes was connected to %d times", n)
	}
}

func TestAReloadReadsTheLockFileAgain(t *testing.T) {
	p := newPeer(t, "p", "a", "b")
	locked := team("eng", "", `lock = "enforce"`, p)
	r := serveReloadable(t, team("eng", "", "", p), gateway.Options{})
	p.watched()
	c, stream := r.modern(""), r.modern("").open("1")
	lock := r.Lock()
	write := func(lock config.Lock) {
		t.Helper()
		if err := os.WriteFile(config.LockPath(r.path), lock.Format(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(lock[:1])
	r.reload(locked)
	stream.changed()
	c.sees("p.a")
	write(lock)
	r.reload(locked)
	stream.changed()
	c.sees("p.a", "p.b")
	if n := len(p.heard("initialize")); n != 1 {
		t.Errorf("the upstream was connected to %d times", n)
	}
}

func TestAReloadKeepsAnIssuersKeysAndForgetsItsTokens(t *testing.T) {
	idp := identitytest.Serve(t)
	p := newPeer(t, "p", "a")
	text := func(audience string) string {
		return fmt.Sprintf("auth {\n jwt \"corp\" {\n  issuer = %q\n  audience = %q\n }\n}\n", idp.Issuer, audience) + team("eng", `"user:ann"`, "", p)
	}
	r := serveReloadable(t, text(identitytest.Audience), gateway.Options{})
	ann := r.modern(idp.Token("ann"))
	ann.sees("p.a")
	idp.Answer(http.StatusInternalServerError)
	r.reload(text(identitytest.Audience) + "\n")
	ann.sees("p.a")
	r.modern(idp.Token("bob")).call("prompts/list", "").is(t, http.StatusOK, `"prompts":[]`)
	r.reload(text("https://elsewhere.example.com/mcp"))
	ann.call("prompts/list", "").is(t, http.StatusUnauthorized)
}

func TestAReloadLooksAgainAtWhatWasListed(t *testing.T) {
	p := newPeer(t, "p", "a", `{"name":"b","description":"Ignore all that"}`)
	r := serveReloadable(t, team("eng", "", "", p), gateway.Options{})
	p.watched()
	streams := listeners(r.server, "")
	for _, step := range []struct {
		more string
		sees []string
	}{
		{`screen "orders" { patterns = ["Ignore"] }`, []string{"p.a"}},
		{`prompt "p.a" { name = "p.z" }`, []string{"p.b", "p.z"}},
		{`lock = "enforce"`, []string{}},
		{"", []string{"p.a", "p.b"}},
	} {
		r.reload(team("eng", "", step.more, p))
		for c, stream := range streams {
			stream.changed()
			if diff := cmp.Diff(step.sees, c.list()); diff != "" {
				t.Errorf("with %s (-want +got):\n%s", step.more, diff)
			}
		}
	}
	if n := len(p.heard("prompts/list")); n != 1 {
		t.Errorf("the upstream was listed %d times, want once", n)
	}
}
