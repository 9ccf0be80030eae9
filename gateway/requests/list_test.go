package requests_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/gateway/seal"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/upstreamtest/bubble"
)

func TestList_MergesUpstreamsInPages(t *testing.T) {
	reviews := newPeer("reviews", "code", "design", "prose")
	wiki := newModernPeer("wiki", "search", "page")
	s := serve(t, `gateway { page_size = 2 }`+"\n"+teamOf("eng", "", "", reviews)+teamOf("docs", "", "", wiki), reviews, wiki)
	want := []string{"reviews.code", "reviews.design", "reviews.prose", "wiki.page", "wiki.search"}
	for _, c := range []*caller{s.modern(""), s.legacy("2025-11-25", ""), s.legacy("2024-11-05", "")} {
		c.wantList(want...)
		first, again := c.call("prompts/list", ""), c.call("prompts/list", "")
		upstreamtest.Equal(t, first.Body, again.Body, "%s: equal pages differ", c.revision)
		if cursor := string(first.Result(t, "nextCursor")); strings.Contains(cursor, "design") || len(cursor) > 514 {
			t.Errorf("cursor %s shows its position or is longer than 514 bytes", cursor)
		}
		upstreamtest.Equal(t, 2, len(first.Names(t)), "prompts on the first page")
	}
}

// Many clients read one page only. The operator hears of it once for each audience, however often it lists, and not where all
// prompts fit on a page.
func TestList_SaysWhenAnAudienceHasMoreThanAPage(t *testing.T) {
	p := newPeer("p", "a", "b", "c", "d", "e")
	s, log := serveLogged(t, "gateway { page_size = 2 }\nauth {\n"+gatewaytest.Token("ann")+gatewaytest.Token("bob")+"}\n"+
		teamOf("eng", `"user:ann"`, gatewaytest.Expose("two", `"p.[ab]"`, `"user:bob"`), p), p)
	s.modern("bob").wantList("p.a", "p.b")
	for range 3 {
		s.modern("ann").wantList("p.a", "p.b", "p.c", "p.d", "p.e")
	}
	s.Start()
	p.List(gatewaytest.Definitions("a", "b", "c", "d", "e", "f")...)
	upstreamtest.Eventually(t, "the change is in the list", func() bool { return slices.Contains(s.modern("ann").list(), "p.f") })
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
	p := newPeer("p", prompts...)
	s := serve(t, teamOf("eng", "", "", p), p)
	upstreamtest.Equal(t, 1000, len(s.modern("").call("prompts/list", "").Names(t)), "prompts on the first page")
	upstreamtest.Equal(t, 1001, len(s.modern("").list()), "prompts on all pages")
}

func TestList_RefusesInvalidCursors(t *testing.T) {
	p := newPeer("p", "a", "b", "c")
	auth := "auth {\n" + gatewaytest.Token("ann") + gatewaytest.Token("bob") + "}\n" + teamOf("eng", `"user:ann", "user:bob"`, "", p)
	s := serve(t, `gateway { page_size = 1 }`+"\n"+auth, p)
	other := serve(t, `gateway { page_size = 1 }`+"\n"+auth, p) // which has its own key
	cursor := string(s.modern("ann").call("prompts/list", "").Result(t, "nextCursor"))
	foreign := string(other.modern("ann").call("prompts/list", "").Result(t, "nextCursor"))
	refuse := func(token, cursor, reason string) {
		t.Helper()
		for _, c := range []*caller{s.modern(token), s.legacy("2025-06-18", token)} {
			c.call("prompts/list", `{"cursor":`+cursor+`}`).want(t, `"code":-32602`, `"data":{"reason":"`+reason+`"}`)
		}
	}
	refuse("ann", `"made up"`, "malformed")
	refuse("ann", `""`, "malformed")
	refuse("ann", cursor[:len(cursor)-2]+`"`, "malformed")
	refuse("ann", cursor[:len(cursor)-1]+`="`, "malformed")
	refuse("ann", foreign, "expired_key")
	refuse("bob", cursor, "wrong_principal")
	session, err := s.Current().Sealer.SealSession(seal.Session{Principal: "user:ann", Expires: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	refuse("ann", `"`+session+`"`, "malformed")
	for _, odd := range []string{`7`, `{}`, `["` + strings.Trim(cursor, `"`) + `"]`} {
		s.modern("ann").callUnchecked("prompts/list", `{"cursor":`+odd+`}`).want(t, `"code":-32602`, `"malformed"`)
	}
}

func TestList_LeavesOutInvalidDefinitions(t *testing.T) {
	p := newPeer("p", `{"name":7}`, "good", `{"name":"bad","arguments":{}}`, `{"name":"good","title":"the second of that name"}`)
	s := serve(t, teamOf("eng", "", "", p), p)
	s.modern("").wantList("p.good")
	s.modern("").call("prompts/get", gatewaytest.GetParams("p.bad")).want(t, "Unknown prompt: p.bad")
}

func TestList_EmptyIsNotAnError(t *testing.T) {
	p := newPeer("p")
	s := serve(t, teamOf("eng", "", "", p), p)
	for _, c := range []*caller{s.modern(""), s.legacy("2025-11-25", "")} {
		c.call("prompts/list", "").want(t, `"prompts":[]`)
	}
	none := serve(t, ``)
	none.modern("").call("prompts/list", "").want(t, `"prompts":[]`)
}

func TestList_FailsWhileNoUpstreamHasListed(t *testing.T) {
	gone := newDownPeer()
	s := serve(t, teamOf("eng", "", "", gone), gone)
	for _, c := range []*caller{s.modern(""), s.legacy("2025-06-18", "")} {
		c.call("prompts/list", "").want(t, `"code":-32603`, `"data":{"upstream":"gone","reason":"unreachable","retryAfterMs":`)
	}
}

func TestList_WaitsForStartingUpstreamsForTwoSeconds(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := newPeer("slow", "a")
		p.Starting = true
		m, log := serveLogged(t, teamOf("eng", "", "", p), p)
		for _, want := range []time.Duration{2 * time.Second, 0} { // since the start, not since the request
			begun := time.Now()
			m.modern("").call("prompts/list", "").want(t, `"code":-32603`, `"upstream":"slow","reason":"starting"`)
			upstreamtest.Equal(t, want, time.Since(begun), "duration of the list")
		}
		if strings.Contains(log.String(), "upstream unavailable") { // it has no cause
			t.Errorf("the log has a warning without a cause:\n%s", log)
		}
	})
}

func TestList_WaitsForStartingUpstreams(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := newPeer("p", "a")
		p.Starting = true
		m := serve(t, teamOf("eng", "", "", p), p)
		m.Start()
		time.AfterFunc(time.Second, func() { p.List(gatewaytest.Definitions("a")...) })
		begun := time.Now()
		m.modern("").wantList("p.a")
		upstreamtest.Equal(t, time.Second, time.Since(begun), "duration of the list")
	})
}

func TestList_NamesDegradedUpstreams(t *testing.T) {
	up, down := newPeer("up", "a"), newPeer("down", "b")
	s := serve(t, teamOf("eng", "", "", up, down), up, down)
	modern, legacy := s.modern(""), s.legacy("2025-11-25", "")
	healthy := modern.call("prompts/list", "")
	healthy.want(t, `"ttlMs":60000`, `"cacheScope":"public"`, `"resultType":"complete"`, `"io.modelcontextprotocol/serverInfo":{"name":"promptweir","version":"1.2.3"}`)
	if strings.Contains(healthy.Body, "io.github.promptweir/partial") {
		t.Errorf("the list is partial although all upstreams are healthy: %s", healthy.Body)
	}
	s.Start()
	down.down()
	upstreamtest.Eventually(t, "the upstream is degraded", func() bool {
		return strings.Contains(modern.call("prompts/list", "").Body, "io.github.promptweir/partial")
	})
	a := modern.call("prompts/list", "")
	a.want(t, `"ttlMs":5000`, `"io.github.promptweir/partial":[{"upstream":"down","reason":"unreachable","since":"`, `"stale":true}]`)
	upstreamtest.Equal(t, []string{"down.b", "up.a"}, a.Names(t), "names")
	a = legacy.call("prompts/list", "")
	a.want(t, `"io.github.promptweir/partial":[{"upstream":"down"`)
	if strings.Contains(a.Body, "ttlMs") || strings.Contains(a.Body, "resultType") || strings.Contains(a.Body, "serverInfo") {
		t.Errorf("a legacy list has members of the modern era: %s", a.Body)
	}
	for _, c := range []*caller{modern, legacy} {
		c.call("prompts/get", gatewaytest.GetParams("down.b")).want(t, `"code":-32603`, `"data":{"upstream":"down","reason":"`, `"retryAfterMs":`)
		c.call("prompts/get", gatewaytest.GetParams("up.a")).want(t, "from up")
	}
	down.up("b")
	upstreamtest.Eventually(t, "the upstream answers again", func() bool {
		return strings.Contains(modern.call("prompts/get", gatewaytest.GetParams("down.b")).Body, "from down")
	})
	upstreamtest.Eventually(t, "the list is no longer partial", func() bool {
		return !strings.Contains(modern.call("prompts/list", "").Body, "io.github.promptweir/partial")
	})
}

func TestList_NamesDegradedUpstreamsOnlyToThoseWhoSeeThem(t *testing.T) {
	open, closed := newPeer("open", "a"), newPeer("closed", "b")
	s := serve(t, "auth {\n"+gatewaytest.Token("ann")+gatewaytest.Token("bob")+"}\n"+teamOf("eng", `"user:ann"`, `expose "a" {
  prompts = ["open.*"]
  to = ["*"]
}
expose "later" {
  prompts = ["closed.nothing_yet_*"]
  to = ["*"]
}`, open, closed), open, closed)
	ann, bob := s.modern("ann"), s.modern("bob")
	s.Start()
	open.down()
	closed.down()
	upstreamtest.Eventually(t, "both upstreams are degraded", func() bool {
		return strings.Count(ann.call("prompts/list", "").Body, `"unreachable"`) == 2
	})
	a := bob.call("prompts/list", "")
	a.want(t, `"io.github.promptweir/partial":[{"upstream":"open"`)
	if strings.Contains(a.Body, "closed") {
		t.Errorf("bob is told of an upstream of which bob sees nothing: %s", a.Body)
	}
	// Before any upstream has listed, the error names an upstream to its team only.
	gone := newDownPeer()
	never := serve(t, "auth {\n"+gatewaytest.Token("ann")+gatewaytest.Token("bob")+gatewaytest.Token("eve")+"}\n"+teamOf("eng", `"user:ann"`, `expose "a" {
  prompts = ["gone.*"]
  to = ["user:bob"]
}`, gone), gone)
	never.modern("ann").call("prompts/list", "").want(t, `"code":-32603`, `"upstream":"gone"`)
	a = never.modern("bob").call("prompts/list", "")
	a.want(t, `"code":-32603`, `"data":{"reason":"starting","retryAfterMs":`)
	if strings.Contains(a.Body, "gone") {
		t.Errorf("bob is told of an upstream of which bob sees nothing: %s", a.Body)
	}
	never.modern("eve").call("prompts/list", "").want(t, `"prompts":[]`)
}

func TestList_PagesHaveTheSameCacheScope(t *testing.T) {
	up, down := newPeer("up", "a", "b", "c"), newPeer("down", "d")
	teams := "gateway { page_size = 1 }\n" + teamOf("eng", `"user:ann"`, "", up, down)
	for auth, want := range map[string]string{
		"": `"public"`, // everybody sees the same
		"auth {\n" + gatewaytest.Token("ann") + "}\n":                   `"private"`,
		"auth {\nanonymous = true\n" + gatewaytest.Token("ann") + "}\n": `"private"`,
	} {
		s := serve(t, auth+teams, up, down)
		callers := []*caller{s.modern("ann")}
		if strings.Contains(auth, "anonymous") {
			callers = append(callers, s.modern(""))
		}
		for _, healthy := range []bool{true, false} {
			if !healthy {
				s.Start()
				down.down()
				upstreamtest.Eventually(t, "the upstream is degraded", func() bool {
					return strings.Contains(callers[0].call("prompts/list", "").Body, "io.github.promptweir/partial")
				})
			}
			for _, c := range callers {
				for params := ""; ; {
					page := c.call("prompts/list", params)
					upstreamtest.Equal(t, want, string(page.Result(t, "cacheScope")), "with %q, healthy %v: cacheScope of %s", auth, healthy, page.Body)
					cursor := page.Result(t, "nextCursor")
					if cursor == nil {
						break
					}
					params = `{"cursor":` + string(cursor) + `}`
				}
			}
		}
		down.up("d")
	}
}

func TestList_FailsWhenConditionsTakeTooLong(t *testing.T) {
	costly, cheap := newPeer("costly", "x"), newPeer("cheap", "x")
	s, log := serveLogged(t, "auth {\n"+gatewaytest.Token("alice")+gatewaytest.Token("bob")+"}\n"+
		teamOf("eng", `"user:bob"`, `
  expose "some" {
    prompts = ["*"]
    to      = ["user:alice"]
    when    = principal.subject != prompt.title
  }
`, costly)+teamOf("docs", `"user:alice", "user:bob"`, "", cheap), costly, cheap)
	alice, bob := s.modern("alice"), s.modern("bob")
	var cancel func()
	s.ctx, cancel = context.WithTimeout(t.Context(), 0)
	defer cancel()
	bob.wantList("cheap.x", "costly.x") // sees them without a condition
	for method, params := range map[string]string{"prompts/list": "", "prompts/get": `{"name":"cheap.x"}`} {
		alice.call(method, params).want(t, `"code":-32603`, `"reason":"overloaded"`, `"retryAfterMs"`)
	}
	upstreamtest.Equal(t, 1, log.Count("conditions take too long"), "reports")
	s.ctx = t.Context()
	alice.wantList("cheap.x", "costly.x")
}
