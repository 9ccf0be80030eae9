package requests_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/upstreamtest/bubble"
)

func TestList_MergesUpstreamsInPages(t *testing.T) {
	reviews := gatewaytest.NewPeer(t, "reviews", "code", "design", "prose")
	wiki := gatewaytest.NewModernPeer(t, "wiki", "search", "page")
	s := gatewaytest.Serve(t, `gateway { page_size = 2 }`+"\n"+gatewaytest.Team("eng", "", "", reviews)+gatewaytest.Team("docs", "", "", wiki))
	want := []string{"reviews.code", "reviews.design", "reviews.prose", "wiki.page", "wiki.search"}
	for _, c := range []*gatewaytest.Client{s.Modern(""), s.Legacy("2025-11-25", ""), s.Legacy("2024-11-05", "")} {
		c.WantList(want...)
		first, again := c.Call("prompts/list", ""), c.Call("prompts/list", "")
		upstreamtest.Equal(t, first.Dump(), again.Dump(), "%s: equal pages differ", c.Revision)
		if cursor := string(first.Result(t, "nextCursor")); strings.Contains(cursor, "design") || len(cursor) > 514 {
			t.Errorf("cursor %s shows its position or is longer than 514 bytes", cursor)
		}
		upstreamtest.Equal(t, 2, len(first.Names(t)), "prompts on the first page")
	}
}

// Many clients read one page only. The operator hears of it once for each audience, however often it lists, and not where all
// prompts fit on a page.
func TestList_SaysWhenAnAudienceHasMoreThanAPage(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", "a", "b", "c", "d", "e")
	s, log := gatewaytest.ServeLogged(t, "gateway { page_size = 2 }\nauth {\n"+gatewaytest.Token("ann")+gatewaytest.Token("bob")+"}\n"+
		gatewaytest.Team("eng", `"user:ann"`, gatewaytest.Expose("two", `"p.[ab]"`, `"user:bob"`), p))
	s.Modern("bob").WantList("p.a", "p.b")
	for range 3 {
		s.Modern("ann").WantList("p.a", "p.b", "p.c", "p.d", "p.e")
	}
	p.AwaitStream().Offer("a", "b", "c", "d", "e", "f")
	upstreamtest.Eventually(t, "the change is in the list", func() bool { return slices.Contains(s.Modern("ann").List(), "p.f") })
	const message = `"list has more than one page: clients that read the first only lose the rest"`
	want := message + ` principal=user:ann prompts=5 first_page=2 pages=3 page_size=2 clients="Claude Desktop, claude.ai, `
	if log.Count(message) != 1 || log.Count(want) != 1 {
		t.Errorf("the log has not exactly one line with\n%s\nbut\n%s", want, log.String())
	}
}

// By default, what most clients read of 1 000 prompts is all of them.
func TestList_HasAThousandOnAPage(t *testing.T) {
	var prompts []string
	for i := range 1001 {
		prompts = append(prompts, fmt.Sprintf("p%04d", i))
	}
	s := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", gatewaytest.NewPeer(t, "p", prompts...)))
	upstreamtest.Equal(t, 1000, len(s.Modern("").Call("prompts/list", "").Names(t)), "prompts on the first page")
	upstreamtest.Equal(t, 1001, len(s.Modern("").List()), "prompts on all pages")
}

// The first page of the plain endpoint is rendered once for all. The endpoint with tools, which renders each of its pages, shows what it
// must be: after a change, with another page size, and beside skills.
func TestList_FirstPageHasTheBytesOfThePrompts(t *testing.T) {
	offer := func(title string) (prompts []string) {
		for i := range 200 {
			prompts = append(prompts, fmt.Sprintf(`{"name":"p%03d","title":%q,"description":%q}`, i, title, strings.Repeat("x", 300)))
		}
		return prompts
	}
	p := gatewaytest.NewSkillPeer(t, "p", map[string]string{"skill://acme/refunds/SKILL.md": "Refunds"})
	p.Peer.Offer(offer("old")...)
	team := gatewaytest.Team("eng", "", "", p.Peer)
	g := gatewaytest.ServeReloadable(t, bothVariants+team, gateway.Options{})
	check := func(title string, size int) {
		t.Helper()
		for i, plain := range clientsOf(g.Server, "") {
			rendered := clientsOf(g.At("tools"), "")[i].Call("prompts/list", "").Result(t, "prompts")
			for range 2 {
				page := plain.Call("prompts/list", "")
				upstreamtest.Equal(t, string(rendered), string(page.Result(t, "prompts")), "%s: prompts", plain.Revision)
				if n := len(page.Names(t)); n != size || !strings.Contains(page.Body, fmt.Sprintf("%q", title)) {
					t.Errorf("%s: %d prompts, want %d with the title %s", plain.Revision, n, size, title)
				}
			}
			upstreamtest.Equal(t, 200, len(plain.List()), "%s: prompts on all pages", plain.Revision)
		}
		g.At("flat").Modern("").Call("prompts/list", "").Want(t, http.StatusOK, `"title":"`+title+`"`)
		g.Modern("").Call("skills/list", "").Want(t, http.StatusOK, `"skills":[{"uri":"skill://p/acme/refunds/SKILL.md"`)
	}
	check("old", 200)
	p.AwaitStream().Offer(offer("new")...)
	upstreamtest.Eventually(t, "the change is in the list", func() bool {
		return strings.Contains(g.Modern("").Call("prompts/list", "").Body, `"new"`)
	})
	check("new", 200)
	for _, size := range []int{150, 7} { // a page that is large enough to be a part of its own, and one that is copied
		g.MustReload(fmt.Sprintf("gateway {\n page_size = %d\n variants = [\"flat\", \"tools\"]\n}\n", size) + team)
		check("new", size)
	}
}

func TestList_WalksAllPagesWhileTheCatalogChanges(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", "b", "d", "f", "h")
	s := gatewaytest.Serve(t, `gateway { page_size = 1 }`+"\n"+gatewaytest.Team("eng", "", "", p))
	c := s.Modern("")
	seen := []string{}
	params := ""
	for page := 0; ; page++ {
		a := c.Call("prompts/list", params)
		seen = append(seen, a.Names(t)...)
		cursor := a.Result(t, "nextCursor")
		if cursor == nil {
			break
		}
		params = fmt.Sprintf(`{"cursor":%s}`, cursor)
		if page == 1 { // the entry at the cursor is removed, one before it and one behind it are added
			p.AwaitStream().Offer("a", "b", "f", "g", "h")
			upstreamtest.Eventually(t, "the change is in the list", func() bool { return slices.Contains(c.List(), "p.g") })
		}
	}
	upstreamtest.Equal(t, []string{"p.b", "p.d", "p.f", "p.g", "p.h"}, seen, "prompts on all pages")
}

func TestList_RefusesInvalidCursors(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", "a", "b", "c")
	auth := "auth {\n" + gatewaytest.Token("ann") + gatewaytest.Token("bob") + "}\n" + gatewaytest.Team("eng", `"user:ann", "user:bob"`, "", p)
	s := gatewaytest.Serve(t, `gateway { page_size = 1 }`+"\n"+auth)
	other := gatewaytest.Serve(t, `gateway { page_size = 1 }`+"\n"+auth) // which has its own key
	cursor := string(s.Modern("ann").Call("prompts/list", "").Result(t, "nextCursor"))
	foreign := string(other.Modern("ann").Call("prompts/list", "").Result(t, "nextCursor"))
	refuse := func(token, cursor, reason string) {
		t.Helper()
		for _, c := range []*gatewaytest.Client{s.Modern(token), s.Legacy("2025-06-18", token)} {
			c.Call("prompts/list", `{"cursor":`+cursor+`}`).Want(t, http.StatusOK, `"code":-32602`, `"data":{"reason":"`+reason+`"}`)
		}
	}
	refuse("ann", `"made up"`, "malformed")
	refuse("ann", `""`, "malformed")
	refuse("ann", cursor[:len(cursor)-2]+`"`, "malformed")
	refuse("ann", cursor[:len(cursor)-1]+`="`, "malformed")
	refuse("ann", foreign, "expired_key")
	refuse("bob", cursor, "wrong_principal")
	session := s.Legacy("2025-06-18", "ann").Headers[3]
	refuse("ann", `"`+session+`"`, "malformed")
	for _, odd := range []string{`7`, `{}`, `["` + strings.Trim(cursor, `"`) + `"]`} {
		s.Modern("ann").CallUnchecked("prompts/list", `{"cursor":`+odd+`}`).Want(t, http.StatusOK, `"code":-32602`, `"malformed"`)
	}
}

func TestList_LeavesOutInvalidDefinitions(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", `{"name":7}`, "good", `{"name":"bad","arguments":{}}`, `{"name":"good","title":"the second of that name"}`)
	s := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", p))
	s.Modern("").WantList("p.good")
	s.Modern("").Call("prompts/get", gatewaytest.GetParams("p.bad")).Want(t, http.StatusOK, "Unknown prompt: p.bad")
}

func TestList_EmptyIsNotAnError(t *testing.T) {
	s := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", gatewaytest.NewPeer(t, "p")))
	for _, c := range []*gatewaytest.Client{s.Modern(""), s.Legacy("2025-11-25", "")} {
		c.Call("prompts/list", "").Want(t, http.StatusOK, `"prompts":[]`)
	}
	none := gatewaytest.Serve(t, ``)
	none.Modern("").Call("prompts/list", "").Want(t, http.StatusOK, `"prompts":[]`)
}

func TestList_FailsWhileNoUpstreamHasListed(t *testing.T) {
	s := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", gatewaytest.NewDownPeer(t)))
	for _, c := range []*gatewaytest.Client{s.Modern(""), s.Legacy("2025-06-18", "")} {
		c.Call("prompts/list", "").Want(t, http.StatusOK, `"code":-32603`, `"data":{"upstream":"gone","reason":"unreachable","retryAfterMs":`)
	}
}

// newGateway returns a gateway that does not run yet. In a bubble of package synctest, the clock stands still while messages
// travel between its upstreams and peers outside of the bubble.
func newGateway(t *testing.T, peers ...*gatewaytest.Peer) *gateway.Gateway {
	t.Helper()
	return newLoggedGateway(t, new(gatewaytest.Log), peers...)
}

// newLoggedGateway is newGateway with a log.
func newLoggedGateway(t *testing.T, log *gatewaytest.Log, peers ...*gatewaytest.Peer) *gateway.Gateway {
	t.Helper()
	opts := gateway.Options{Logger: slog.New(slog.NewTextHandler(log, nil))}
	g, err := gateway.New(gatewaytest.Load(t, gatewaytest.Team("eng", "", "", peers...)), opts)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// timeList returns the response to prompts/list and the time that it took.
func timeList(t *testing.T, g *gateway.Gateway) (gatewaytest.Response, time.Duration) {
	t.Helper()
	body, headers := (&gatewaytest.Client{Revision: gatewaytest.Latest}).Encode("1", "prompts/list", "")
	begun, w := time.Now(), httptest.NewRecorder()
	g.Handler().ServeHTTP(w, gatewaytest.NewRequest(t.Context(), t, http.MethodPost, "http://localhost/mcp", body, headers))
	return gatewaytest.Response{Status: w.Code, Header: w.Header(), Body: w.Body.String()}, time.Since(begun)
}

func TestList_WaitsForStartingUpstreamsForTwoSeconds(t *testing.T) {
	p := gatewaytest.NewPeer(t, "slow", "a")
	bubble.Test(t, func(t *testing.T) {
		var log gatewaytest.Log
		g := newLoggedGateway(t, &log, p)
		for _, want := range []time.Duration{2 * time.Second, 0} { // since the start, not since the request
			a, took := timeList(t, g)
			a.Want(t, http.StatusOK, `"code":-32603`, `"upstream":"slow","reason":"starting"`)
			if took != want {
				t.Errorf("the list took %v, want %v", took, want)
			}
		}
		if strings.Contains(log.String(), "upstream unavailable") { // it has no cause
			t.Errorf("the log has a warning without a cause:\n%s", &log)
		}
	})
}

func TestList_WaitsForStartingUpstreams(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", "a")
	bubble.Test(t, func(t *testing.T) {
		g := newGateway(t, p)
		time.AfterFunc(time.Second, func() { gatewaytest.Run(t, g) })
		a, took := timeList(t, g)
		upstreamtest.Equal(t, []string{"p.a"}, a.Names(t), "names")
		if took != time.Second {
			t.Errorf("the list took %v, want it to be there with the upstream", took)
		}
	})
}

func TestList_NamesDegradedUpstreams(t *testing.T) {
	up, down := gatewaytest.NewPeer(t, "up", "a"), gatewaytest.NewPeer(t, "down", "b")
	s := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", up, down))
	modern, legacy := s.Modern(""), s.Legacy("2025-11-25", "")
	healthy := modern.Call("prompts/list", "")
	healthy.Want(t, http.StatusOK, `"ttlMs":60000`, `"cacheScope":"public"`, `"resultType":"complete"`, `"io.modelcontextprotocol/serverInfo":{"name":"promptweir","version":"1.2.3"}`)
	if strings.Contains(healthy.Body, "io.github.promptweir/partial") {
		t.Errorf("the list is partial although all upstreams are healthy: %s", healthy.Body)
	}
	down.Stop()
	upstreamtest.Eventually(t, "the upstream is degraded", func() bool {
		return strings.Contains(modern.Call("prompts/list", "").Body, "io.github.promptweir/partial")
	})
	a := modern.Call("prompts/list", "")
	a.Want(t, http.StatusOK, `"ttlMs":5000`, `"io.github.promptweir/partial":[{"upstream":"down","reason":"unreachable","since":"`, `"stale":true}]`)
	upstreamtest.Equal(t, []string{"down.b", "up.a"}, a.Names(t), "names")
	a = legacy.Call("prompts/list", "")
	a.Want(t, http.StatusOK, `"io.github.promptweir/partial":[{"upstream":"down"`)
	if strings.Contains(a.Body, "ttlMs") || strings.Contains(a.Body, "resultType") || strings.Contains(a.Body, "serverInfo") {
		t.Errorf("a legacy list has members of the modern era: %s", a.Body)
	}
	for _, c := range []*gatewaytest.Client{modern, legacy} {
		c.Call("prompts/get", gatewaytest.GetParams("down.b")).Want(t, http.StatusOK, `"code":-32603`, `"data":{"upstream":"down","reason":"`, `"retryAfterMs":`)
		c.Call("prompts/get", gatewaytest.GetParams("up.a")).Want(t, http.StatusOK, "from up")
	}
	down.Restart()
	upstreamtest.Eventually(t, "the upstream answers again", func() bool {
		return strings.Contains(modern.Call("prompts/get", gatewaytest.GetParams("down.b")).Body, "from down")
	})
	upstreamtest.Eventually(t, "the list is no longer partial", func() bool {
		return !strings.Contains(modern.Call("prompts/list", "").Body, "io.github.promptweir/partial")
	})
}

func TestList_NamesDegradedUpstreamsOnlyToThoseWhoSeeThem(t *testing.T) {
	open, closed := gatewaytest.NewPeer(t, "open", "a"), gatewaytest.NewPeer(t, "closed", "b")
	s := gatewaytest.Serve(t, "auth {\n"+gatewaytest.Token("ann")+gatewaytest.Token("bob")+"}\n"+gatewaytest.Team("eng", `"user:ann"`, `expose "a" {
  prompts = ["open.*"]
  to = ["*"]
}
expose "later" {
  prompts = ["closed.nothing_yet_*"]
  to = ["*"]
}`, open, closed))
	ann, bob := s.Modern("ann"), s.Modern("bob")
	open.Stop()
	closed.Stop()
	upstreamtest.Eventually(t, "both upstreams are degraded", func() bool {
		return strings.Count(ann.Call("prompts/list", "").Body, `"unreachable"`) == 2
	})
	a := bob.Call("prompts/list", "")
	a.Want(t, http.StatusOK, `"io.github.promptweir/partial":[{"upstream":"open"`)
	if strings.Contains(a.Body, "closed") {
		t.Errorf("bob is told of an upstream of which bob sees nothing: %s", a.Body)
	}
	// Before any upstream has listed, the error names an upstream to its team only.
	never := gatewaytest.Serve(t, "auth {\n"+gatewaytest.Token("ann")+gatewaytest.Token("bob")+gatewaytest.Token("eve")+"}\n"+gatewaytest.Team("eng", `"user:ann"`, `expose "a" {
  prompts = ["gone.*"]
  to = ["user:bob"]
}`, gatewaytest.NewDownPeer(t)))
	never.Modern("ann").Call("prompts/list", "").Want(t, http.StatusOK, `"code":-32603`, `"upstream":"gone"`)
	a = never.Modern("bob").Call("prompts/list", "")
	a.Want(t, http.StatusOK, `"code":-32603`, `"data":{"reason":"starting","retryAfterMs":`)
	if strings.Contains(a.Body, "gone") {
		t.Errorf("bob is told of an upstream of which bob sees nothing: %s", a.Body)
	}
	never.Modern("eve").Call("prompts/list", "").Want(t, http.StatusOK, `"prompts":[]`)
}

func TestList_PagesHaveTheSameCacheScope(t *testing.T) {
	up, down := gatewaytest.NewPeer(t, "up", "a", "b", "c"), gatewaytest.NewPeer(t, "down", "d")
	teams := "gateway { page_size = 1 }\n" + gatewaytest.Team("eng", `"user:ann"`, "", up, down)
	for auth, want := range map[string]string{
		"": `"public"`, // everybody sees the same
		"auth {\n" + gatewaytest.Token("ann") + "}\n":                   `"private"`,
		"auth {\nanonymous = true\n" + gatewaytest.Token("ann") + "}\n": `"private"`,
	} {
		s := gatewaytest.Serve(t, auth+teams)
		callers := []*gatewaytest.Client{s.Modern("ann")}
		if strings.Contains(auth, "anonymous") {
			callers = append(callers, s.Modern(""))
		}
		for _, healthy := range []bool{true, false} {
			if !healthy {
				down.Stop()
				upstreamtest.Eventually(t, "the upstream is degraded", func() bool {
					return strings.Contains(callers[0].Call("prompts/list", "").Body, "io.github.promptweir/partial")
				})
			}
			for _, c := range callers {
				for params := ""; ; {
					page := c.Call("prompts/list", params)
					if got := string(page.Result(t, "cacheScope")); got != want {
						t.Errorf("with %q, healthy %v: cacheScope %s, want %s: %s", auth, healthy, got, want, page.Body)
					}
					cursor := page.Result(t, "nextCursor")
					if cursor == nil {
						break
					}
					params = `{"cursor":` + string(cursor) + `}`
				}
			}
		}
		down.Restart()
	}
}

// What a server gives as ttlMs counts if it would not report a change, and for those who see something of it.
func TestList_IsGoodForAsLongAsServersSay(t *testing.T) {
	const quiet, notifying = `{"prompts":{}}`, `{"prompts":{"listChanged":true}}`
	polled := func(name, capabilities, ttl string) *gatewaytest.Peer {
		p := gatewaytest.NewModernPeer(t, name, "x")
		p.Declare(capabilities)
		p.Answer("prompts/list", `{"resultType":"complete","prompts":[{"name":"x"}],"cacheScope":"public","ttlMs":`+ttl+`}`)
		return p
	}
	for ttl, want := range map[string]string{"20000": "20000", "1": "5000", "4999": "5000", "59999": "59999", "300000": "60000", "0": "60000"} {
		c := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", polled("p", quiet, ttl))).Modern("")
		for range 2 {
			c.Call("prompts/list", "").Want(t, http.StatusOK, `"ttlMs":`+want+`,`)
		}
	}
	c := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", polled("p", notifying, "20000"))).Modern("")
	upstreamtest.Eventually(t, "the server is watched", func() bool {
		return strings.Contains(c.Call("prompts/list", "").Body, `"ttlMs":60000`)
	})

	s := gatewaytest.Serve(t, "auth {\n"+gatewaytest.Token("ann")+gatewaytest.Token("bob")+"}\n"+gatewaytest.Team("eng", `"user:ann"`,
		gatewaytest.Expose("some", `"a.*", "c.*"`, `"*"`), polled("a", quiet, "30000"), polled("b", quiet, "10000"), polled("c", quiet, "40000")))
	s.Modern("ann").Call("prompts/list", "").Want(t, http.StatusOK, `"ttlMs":10000`)
	s.Modern("bob").Call("prompts/list", "").Want(t, http.StatusOK, `"ttlMs":30000`)
}

// Each evaluation is within its own bound, so that it decides. Many of them are more than one request may spend.
func TestList_FailsWhenConditionsTakeTooLong(t *testing.T) {
	const prompts = 400
	var definitions []string
	for i := range prompts {
		definitions = append(definitions, fmt.Sprintf(`{"name":"n%03d","description":%q}`, i, strings.Repeat("x", 400)))
	}
	costly := gatewaytest.NewPeer(t, "costly", definitions...)
	cheap := gatewaytest.NewPeer(t, "cheap", "x")
	s, log := gatewaytest.ServeLogged(t, "auth {\n"+gatewaytest.Token("alice")+gatewaytest.Token("bob")+"}\n"+
		gatewaytest.Team("eng", `"user:bob"`, `
  expose "some" {
    prompts = ["*"]
    to      = ["user:alice"]
    when    = !can(regex("y.{0,999}", "${principal.subject}${prompt.description}")) # counted, but found at once
  }
`, costly)+gatewaytest.Team("docs", `"user:alice", "user:bob"`, "", cheap))
	alice, bob := s.Modern("alice"), s.Modern("bob")
	bob.WantList(append([]string{"cheap.x"}, names("costly.n", prompts)...)...)
	for method, params := range map[string]string{"prompts/list": "", "prompts/get": `{"name":"cheap.x"}`} {
		alice.Call(method, params).Want(t, http.StatusOK, `"code":-32603`, `"reason":"overloaded"`, `"retryAfterMs"`)
	}
	upstreamtest.Equal(t, 1, log.Count("conditions take too long"), "reports")
	// What was evaluated stays, so that the client gets through, and sees what the condition says.
	for range prompts {
		if got := alice.Call("prompts/get", `{"name":"cheap.x"}`); !strings.Contains(got.Body, "overloaded") {
			alice.WantList(append([]string{"cheap.x"}, names("costly.n", prompts)...)...)
			return
		}
	}
	t.Error("the client never gets through")
}

func names(prefix string, n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("%s%03d", prefix, i))
	}
	return all
}
