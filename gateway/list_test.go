package gateway_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestListMergesAllUpstreamsInPages(t *testing.T) {
	reviews := newPeer(t, "reviews", "code", "design", "prose")
	wiki := newModernPeer(t, "wiki", "search", "page")
	s := serve(t, `gateway { page_size = 2 }`+"\n"+team("eng", "", "", reviews)+team("docs", "", "", wiki))
	want := []string{"reviews.code", "reviews.design", "reviews.prose", "wiki.page", "wiki.search"}
	for _, c := range []*client{s.modern(""), s.legacy("2025-11-25", ""), s.legacy("2024-11-05", "")} {
		if diff := cmp.Diff(want, c.list()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.revision, diff)
		}
		first, again := c.call("prompts/list", ""), c.call("prompts/list", "")
		if diff := cmp.Diff(first.whole(), again.whole()); diff != "" {
			t.Errorf("%s: equal pages differ (-first +second):\n%s", c.revision, diff)
		}
		if cursor := string(first.result(t, "nextCursor")); strings.Contains(cursor, "design") || len(cursor) > 514 {
			t.Errorf("cursor %s shows its position or is too long", cursor)
		}
		if got := len(first.names(t)); got != 2 {
			t.Errorf("the first page has %d prompts, want 2", got)
		}
	}
}

func TestDrainingPagesWhileTheCatalogChanges(t *testing.T) {
	p := newPeer(t, "p", "b", "d", "f", "h")
	s := serve(t, `gateway { page_size = 1 }`+"\n"+team("eng", "", "", p))
	c := s.modern("")
	seen := []string{}
	params := ""
	for page := 0; ; page++ {
		a := c.call("prompts/list", params)
		seen = append(seen, a.names(t)...)
		cursor := a.result(t, "nextCursor")
		if cursor == nil {
			break
		}
		params = fmt.Sprintf(`{"cursor":%s}`, cursor)
		if page == 1 { // the entry that the cursor stands on goes, one comes before it and one behind it
			p.watched().offer("a", "b", "f", "g", "h")
			eventually(t, "the change arrives", func() bool { return slices.Contains(c.list(), "p.g") })
		}
	}
	if diff := cmp.Diff([]string{"p.b", "p.d", "p.f", "p.g", "p.h"}, seen); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCursorsOfNoUse(t *testing.T) {
	p := newPeer(t, "p", "a", "b", "c")
	auth := "auth {\n" + token("ann") + token("bob") + "}\n" + team("eng", `"user:ann", "user:bob"`, "", p)
	s := serve(t, `gateway { page_size = 1 }`+"\n"+auth)
	other := serve(t, `gateway { page_size = 1 }`+"\n"+auth) // with a key of its own
	cursor := string(s.modern("ann").call("prompts/list", "").result(t, "nextCursor"))
	foreign := string(other.modern("ann").call("prompts/list", "").result(t, "nextCursor"))
	refuse := func(token, cursor, reason string) {
		t.Helper()
		for _, c := range []*client{s.modern(token), s.legacy("2025-06-18", token)} {
			c.call("prompts/list", `{"cursor":`+cursor+`}`).is(t, http.StatusOK, `"code":-32602`, `"data":{"reason":"`+reason+`"}`)
		}
	}
	refuse("ann", `"made up"`, "malformed")
	refuse("ann", `""`, "malformed")
	refuse("ann", cursor[:len(cursor)-2]+`"`, "malformed")
	refuse("ann", cursor[:len(cursor)-1]+`="`, "malformed")
	refuse("ann", foreign, "expired_key")
	refuse("bob", cursor, "wrong_principal")
	session := s.legacy("2025-06-18", "ann").headers[3]
	refuse("ann", `"`+session+`"`, "malformed")
	for _, odd := range []string{`7`, `null`, `{}`, `["` + strings.Trim(cursor, `"`) + `"]`} {
		s.modern("ann").callRaw("prompts/list", `{"cursor":`+odd+`}`).is(t, http.StatusOK, `"code":-32602`, `"malformed"`)
	}
}

func TestWhatIsNoPromptIsLeftOut(t *testing.T) {
	p := newPeer(t, "p", `{"name":7}`, "good", `{"name":"bad","arguments":{}}`, `{"name":"good","title":"the second of that name"}`)
	s := serve(t, team("eng", "", "", p))
	if diff := cmp.Diff([]string{"p.good"}, s.modern("").list()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	s.modern("").call("prompts/get", get("p.bad")).is(t, http.StatusOK, "Unknown prompt: p.bad")
}

func TestAnEmptyListIsNoError(t *testing.T) {
	s := serve(t, team("eng", "", "", newPeer(t, "p")))
	for _, c := range []*client{s.modern(""), s.legacy("2025-11-25", "")} {
		c.call("prompts/list", "").is(t, http.StatusOK, `"prompts":[]`)
	}
	none := serve(t, ``)
	none.modern("").call("prompts/list", "").is(t, http.StatusOK, `"prompts":[]`)
}

// dead is the upstream "gone", which nobody answers for.
func dead(t *testing.T) *peer {
	p := newPeer(t, "gone")
	p.stop()
	return p
}

// mute is an upstream that takes requests and never answers.
func mute(t *testing.T, name string) *peer {
	p := newPeer(t, name)
	p.settings = `timeout = "60s"`
	p.intercept(func(_ http.ResponseWriter, r *http.Request, _ heard) bool {
		<-r.Context().Done()
		return true
	})
	return p
}

func TestNothingListedIsAnErrorAndNoEmptyList(t *testing.T) {
	s := serve(t, team("eng", "", "", dead(t)))
	for _, c := range []*client{s.modern(""), s.legacy("2025-06-18", "")} {
		c.call("prompts/list", "").is(t, http.StatusOK, `"code":-32603`, `"data":{"upstream":"gone","reason":"unreachable","retryAfterMs":`)
	}
	begun := time.Now()
	slow := begin(t, team("eng", "", "", mute(t, "slow"))).modern("")
	slow.call("prompts/list", "").is(t, http.StatusOK, `"code":-32603`, `"upstream":"slow","reason":"starting"`)
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("the first list took %v", took)
	}
	begun = time.Now()
	slow.call("prompts/list", "")
	if took := time.Since(begun); took >= 2*time.Second {
		t.Errorf("a list long after the start took %v", took)
	}
}

func TestTheFirstListWaitsForUpstreamsThatAreStillStarting(t *testing.T) {
	p := newPeer(t, "p", "a")
	release := make(chan struct{})
	p.intercept(func(http.ResponseWriter, *http.Request, heard) bool {
		<-release
		return false
	})
	s := begin(t, team("eng", "", "", p))
	time.AfterFunc(100*time.Millisecond, func() { close(release) })
	if diff := cmp.Diff([]string{"p.a"}, s.modern("").list()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAnUpstreamThatIsDownStaysListedAndTheListSaysSo(t *testing.T) {
	up, down := newPeer(t, "up", "a"), newPeer(t, "down", "b")
	s := serve(t, team("eng", "", "", up, down))
	modern, legacy := s.modern(""), s.legacy("2025-11-25", "")
	healthy := modern.call("prompts/list", "")
	healthy.is(t, http.StatusOK, `"ttlMs":60000`, `"cacheScope":"public"`, `"resultType":"complete"`, `"io.modelcontextprotocol/serverInfo":{"name":"promptweir","version":"1.2.3"}`)
	if strings.Contains(healthy.body, "promptweir/partial") {
		t.Errorf("a healthy list says that it is partial: %s", healthy.body)
	}
	down.stop()
	eventually(t, "the gateway notices", func() bool { return strings.Contains(modern.call("prompts/list", "").body, "promptweir/partial") })
	a := modern.call("prompts/list", "")
	a.is(t, http.StatusOK, `"ttlMs":5000`, `"promptweir/partial":[{"upstream":"down","reason":"unreachable","since":"`, `"stale":true}]`)
	if diff := cmp.Diff([]string{"down.b", "up.a"}, a.names(t)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	a = legacy.call("prompts/list", "")
	a.is(t, http.StatusOK, `"promptweir/partial":[{"upstream":"down"`)
	if strings.Contains(a.body, "ttlMs") || strings.Contains(a.body, "resultType") || strings.Contains(a.body, "serverInfo") {
		t.Errorf("a legacy list has members of the modern era: %s", a.body)
	}
	for _, c := range []*client{modern, legacy} {
		c.call("prompts/get", get("down.b")).is(t, http.StatusOK, `"code":-32603`, `"data":{"upstream":"down","reason":"`, `"retryAfterMs":`)
		c.call("prompts/get", get("up.a")).is(t, http.StatusOK, "from up")
	}
	down.restart()
	eventually(t, "it answers again", func() bool {
		return strings.Contains(modern.call("prompts/get", get("down.b")).body, "from down")
	})
	eventually(t, "the list is whole again", func() bool { return !strings.Contains(modern.call("prompts/list", "").body, "promptweir/partial") })
}

func TestWhatIsPartialIsSaidOnlyToThoseWhoMayHearOfIt(t *testing.T) {
	open, closed := newPeer(t, "open", "a"), newPeer(t, "closed", "b")
	s := serve(t, "auth {\n"+token("ann")+token("bob")+"}\n"+team("eng", `"user:ann"`, `expose "a" {
  prompts = ["open.*"]
  to = ["*"]
}
expose "later" {
  prompts = ["closed.nothing_yet_*"]
  to = ["*"]
}`, open, closed))
	ann, bob := s.modern("ann"), s.modern("bob")
	open.stop()
	closed.stop()
	eventually(t, "both are down", func() bool {
		return strings.Count(ann.call("prompts/list", "").body, `"unreachable"`) == 2
	})
	a := bob.call("prompts/list", "")
	a.is(t, http.StatusOK, `"promptweir/partial":[{"upstream":"open"`)
	if strings.Contains(a.body, "closed") {
		t.Errorf("bob hears of what bob sees nothing of: %s", a.body)
	}
	// Where nothing was ever listed, who sees nothing of a team learns no name either.
	never := serve(t, "auth {\n"+token("ann")+token("bob")+token("eve")+"}\n"+team("eng", `"user:ann"`, `expose "a" {
  prompts = ["gone.*"]
  to = ["user:bob"]
}`, dead(t)))
	never.modern("ann").call("prompts/list", "").is(t, http.StatusOK, `"code":-32603`, `"upstream":"gone"`)
	a = never.modern("bob").call("prompts/list", "")
	a.is(t, http.StatusOK, `"code":-32603`, `"data":{"reason":"starting","retryAfterMs":`)
	if strings.Contains(a.body, "gone") {
		t.Errorf("bob hears of what bob sees nothing of: %s", a.body)
	}
	never.modern("eve").call("prompts/list", "").is(t, http.StatusOK, `"prompts":[]`)
}
