package console_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	upstreamtest.Eventually(t, what, ok)
}

func TestOverview_BeginsWithWhatIsWrong(t *testing.T) {
	p := gatewaytest.NewPeer(t, "up", `{"name":"a"}`, `{"name":"a"}`, "b")
	twin := gatewaytest.NewPeer(t, "twin", `{"name":"b","title":"another"}`)
	p.Settings, twin.Settings = `prefix = ""`, `prefix = ""`
	good := gatewaytest.Team("eng", "", "", p, twin, gatewaytest.NewDownPeer(t))
	r := gatewaytest.ServeReloadable(t, good, gateway.Options{Version: "1.2.3"})
	if err := r.TryReload(strings.Replace(good, "url", "headers = { Authorization = \"Bearer hunter2\" }\n urll", 1)); err == nil {
		t.Fatal("a broken configuration is accepted")
	}
	a := gatewaytest.Send(t, http.MethodGet, r.AdminURL+"/", "", nil)
	a.Want(t, http.StatusOK, "<bdi>Upstream gone is down</bdi></h1>", "<title>Upstream gone is down",
		"Also: the last configuration was refused, 2 reports to fix. The gateway serves clients.", "definitions in upstream &#34;up&#34;", "more than once", "urll",
		"unreachable since <time datetime=\"20", "connection refused at", "Start the server, or correct host and port in the URL.", `data-upstream="gone"`, "<dt>Server requests</dt>", "waiting for clients",
		`<tr class="bad" data-team="eng" role="row">`, "1 down", "1.2.3")
	for _, bad := range []string{"hunter2", `data-upstream="up"`} {
		if strings.Contains(a.Body, bad) {
			t.Errorf("%q is on the page:\n%s", bad, a.Body)
		}
	}
	order := 0
	for _, part := range []string{"<h1>", `id="troubled"`, `id="refused"`, `id="reports"`, `id="teams"`, `id="gateway"`} {
		at := strings.Index(a.Body, part)
		if at < order {
			t.Errorf("%q is at %d, before what is less urgent", part, at)
		}
		order = at
	}
	policy := a.Header.Get("Content-Security-Policy")
	if !strings.HasPrefix(policy, "default-src 'none'; style-src 'self'; script-src 'self'; ") || strings.Contains(policy, "unsafe") {
		t.Errorf("Content-Security-Policy: %s", policy)
	}
	if strings.Contains(a.Body, "<style") || strings.Contains(a.Body, " style=") || strings.Contains(a.Body, " onclick") {
		t.Error("the page has something that its policy forbids")
	}
	gatewaytest.Send(t, http.MethodGet, r.AdminURL+"/upstreams?team=eng", "", nil).Want(t, http.StatusOK, `data-upstream="up"`, `data-upstream="gone"`, "3 upstreams")
	r.MustReload(good)
	if fine := gatewaytest.Send(t, http.MethodGet, r.AdminURL+"/", "", nil); strings.Contains(fine.Body, "urll") {
		t.Error("a configuration that was corrected is still wrong")
	}
}

func TestPrompt_SaysWhoSeesIt(t *testing.T) {
	s, _, _ := gatewaytest.ServeTwoTeams(t, "auth {\n"+gatewaytest.Token("ann", "payments")+gatewaytest.Token("bob")+"}\n")
	page := func(query string, status int, parts ...string) {
		t.Helper()
		gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/prompt?"+query, "", nil).Want(t, status, parts...)
	}
	page("name=billing.ledger", http.StatusOK, "Who sees it", "group:payments", "by <bdi>membership of team &#34;payments&#34;", "gateway.hcl:", "year", "required", "Definition",
		"<bdi>--url</bdi> <bdi>http://", "<bdi>--</bdi> <bdi>billing.ledger</bdi> <bdi>&#39;year=…&#39;</bdi>", "revision <bdi>2025-11-25</bdi>",
		"Lost in clients", "Garbled by Claude Code: input is split at blanks, even in quotes, "+
			"and words after the last argument are dropped: year.",
		"Hidden by Windsurf, Codex, ", "promptweir sync --url URL --to codex,claude.",
		"None from <bdi>billing</bdi>: no prompt block", "called <bdi>ledger</bdi> there")
	ledger := gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/prompt?name=billing.ledger", "", nil).Body
	if try, lost := strings.Index(ledger, `id="arguments"`), strings.Index(ledger, `id="lost"`); try < 0 || lost < try {
		t.Errorf("the arguments are at %d, what is lost in clients at %d", try, lost)
	}
	page("name=billing.review_pr&as=user:bob", http.StatusOK, "<b>Yes</b>", "expose &#34;reviews&#34;", "<b>decides</b>", "<bdi>user:bob</bdi></b> sees this prompt: its definition",
		`href="/prompt?name=billing.review_pr"`, `href="/prompts?as=user%3Abob&amp;team=payments"`)
	page("name=billing.wip_x&as=user:ann,group:payments", http.StatusOK, "<b>No</b>", "hide &#34;half-finished&#34;",
		"<bdi>user:ann,group:payments</bdi></b> does not see this prompt: for them it does not exist")
	page("name=billing.wip_x", http.StatusOK, "Nobody: <bdi>hide &#34;half-finished&#34; of team &#34;payments&#34; removes it from everybody</bdi> ", "gateway.hcl:")
	if hidden := gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/prompt?name=billing.wip_x&as=user:bob", "", nil).Body; strings.Contains(hidden, "Lost in clients") {
		t.Error("clients of somebody who does not see a prompt lose something of it")
	}
	page("name=none.such", http.StatusOK, "Not in the catalog", "Nobody")
	page("name=x&as=ann", http.StatusBadRequest, "neither a user nor a group", "<title>This cannot be shown", `<a href="/prompt?name=x">Back</a>`, `<a href="/prompts">`)
	page("", http.StatusBadRequest)
	for path, want := range map[string]string{
		"prompts?q=billing.leger":             `Did you mean &#34;billing.ledger&#34;?`,
		"prompts?q=leger":                     `Did you mean &#34;ledger&#34;?`,
		"prompts?q=reviiw&as=user:bob":        `Did you mean &#34;review&#34;?`,
		"prompts?q=billing.leger&as=user:bob": "Nothing found.<", // the guess is no hidden prompt
		"upstreams?q=biling":                  `Did you mean &#34;billing&#34;?`,
	} {
		gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/"+path, "", nil).Want(t, http.StatusOK, want)
	}
	list := gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/prompts?as=user:bob", "", nil)
	list.Want(t, http.StatusOK, "Lists show what <b><bdi>user:bob</bdi></b> sees.")
	body := list.Body
	if !strings.Contains(body, `data-prompt="billing.review_pr"`) || !strings.Contains(body, `data-prompt="find.query"`) || strings.Contains(body, "ledger") {
		t.Errorf("bob does not see what he may:\n%s", body)
	}
}

// Whatever a server writes, it is text.
func TestPages_EscapeWhatServersSend(t *testing.T) {
	const evil = `<script>alert(1)</script><img src=x onerror=alert(1)>"'` + "\\u202e\\u2066\\u0007"
	quoted := strings.ReplaceAll(evil, `"`, `\"`)
	p := gatewaytest.NewPeer(t, "up", `{"name":"`+"<b>x"+`","title":"`+quoted+`","description":"`+quoted+strings.Repeat("W", 10_000)+
		`","arguments":[{"name":"`+quoted+`","description":"`+quoted+`","required":true}]}`, `{"name":"`+strings.Repeat("n", 10_000)+`"}`)
	s := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", p))
	for _, path := range []string{"/", "/prompts", "/prompts?q=%3Cscript%3E", "/prompt?name=up.%3Cb%3Ex", "/prompt?name=%3Cscript%3E", "/prompts?as=%3Cscript%3E", "/upstreams?team=%3Cscript%3E"} {
		r := gatewaytest.Send(t, http.MethodGet, s.AdminURL+path, "", nil)
		for _, bad := range []string{"<script>", "<img", "<b>x", "\u202e", "\u2066", "\u0007", "javascript:"} {
			if strings.Contains(r.Body, bad) {
				t.Errorf("%s: %q is on the page:\n%s", path, bad, r.Body)
			}
		}
		if strings.Contains(r.Body, strings.Repeat("n", 1000)) || len(r.Body) > 100_000 {
			t.Errorf("%s: %d bytes", path, len(r.Body))
		}
	}
	gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/prompt?name=up.%3Cb%3Ex", "", nil).Want(t, http.StatusOK, "&lt;script&gt;alert(1)", "⟨U+202E⟩", "⟨U+2066⟩")
}

func TestUpstreams_AreFoundByName(t *testing.T) {
	s, _, _ := gatewaytest.ServeTwoTeams(t, "")
	for query, names := range map[string][]string{"": {"billing", "find"}, "q=BILL": {"billing"}, "q=find&team=payments": {}, "q=i": {"billing", "find"}} {
		body := gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/upstreams?"+query, "", nil).Body
		for _, name := range []string{"billing", "find"} {
			if got := strings.Contains(body, `data-upstream="`+name+`"`); got != slices.Contains(names, name) {
				t.Errorf("%q: %s is shown: %t\n%s", query, name, got, body)
			}
		}
	}
}

func TestPrompts_SaysWhyThereAreNone(t *testing.T) {
	s := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", gatewaytest.NewDownPeer(t)))
	gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/prompts", "", nil).Want(t, http.StatusOK, "There are no prompts yet", `<a href="/">`)
	gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/prompts?q=x", "", nil).Want(t, http.StatusOK, "Nothing found.")
}

// A person is told at a glance what is unusual.
func TestPrompts_HaveBadges(t *testing.T) {
	up := gatewaytest.NewPeer(t, "up", "a10", "a2", `{"name":"a1","description":"`+strings.Repeat("long ", 200)+`"}`, `{"name":"b","title":"approved"}`, "draft_x", "old")
	gone := gatewaytest.NewPeer(t, "gone", "z")
	text := gatewaytest.Team("eng", `"user:ann"`, "hide \"drafts\" { prompts = [\"*.draft_*\"] }\nprompt \"up.old\" { name = \"up.new\" }\n", up, gone) +
		"auth {\n" + gatewaytest.Token("ann") + "}\n"
	lock := gatewaytest.Serve(t, text).Lock()
	up.SetPrompts("a10", "a2", `{"name":"a1","description":"`+strings.Repeat("long ", 200)+`"}`, `{"name":"b","title":"another"}`, "draft_x", "old")
	s := gatewaytest.ServeLocked(t, "gateway {\n lock = \"warn\"\n}\n"+text, lock)
	gone.Stop()
	s.AwaitTrouble("gone")
	var found struct {
		Prompts []struct {
			Name   string
			Badges []string
		}
	}
	body := gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/api/catalog", "", nil).Body
	if err := json.Unmarshal([]byte(body), &found); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range found.Prompts {
		got = append(got, strings.TrimSpace(p.Name+" "+strings.Join(p.Badges, " ")))
	}
	want := []string{"gone.z down", "up.a1", "up.a10", "up.a2", "up.b drifted", "up.draft_x hidden", "up.new renamed"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	list := gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/prompts", "", nil)
	list.Want(t, http.StatusOK, `<span class="tag drifted">drifted</span>`, "long lo…</bdi>")
	if strings.Contains(list.Body, "more)") {
		t.Error("a description is cut twice, and the second cut counts only its own bytes")
	}
	gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/prompt?name=up.old", "", nil).Want(t, http.StatusOK, "Upstream up offers it, but its prompt block exposes it as &#34;up.new&#34; instead.")
}

func TestNotFound_IsAPage(t *testing.T) {
	s := gatewaytest.Serve(t, "")
	page := gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/no<b>where", "", gatewaytest.Headers{"Accept", "text/html"})
	page.Want(t, http.StatusNotFound, "There is no such page</h1>", "no&lt;b&gt;where")
	gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/nowhere", "", nil).Want(t, http.StatusNotFound, "404 page not found")
}

func TestChanges_FollowAnUpstream(t *testing.T) {
	p := gatewaytest.NewPeer(t, "up", "a")
	s := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", p))
	version := func() string { return gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/changes", "", nil).Body }
	before := version()
	if !strings.Contains(gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/", "", nil).Body, strings.Split(before, `"`)[3]) || before != version() {
		t.Errorf("the page is of another version than %s", before)
	}
	p.Stop()
	s.AwaitTrouble("up")
	if version() == before {
		t.Error("an upstream died, and nothing has changed")
	}
}

func TestStatic_IsKeptByItsHash(t *testing.T) {
	s := gatewaytest.Serve(t, "")
	body := gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/", "", nil).Body
	_, rest, _ := strings.Cut(body, `href="/static/console.css?`)
	hash, _, _ := strings.Cut(rest, `"`)
	for query, want := range map[string]string{"": "no-cache", "?other": "no-cache", "?" + hash: "max-age=31536000, immutable"} {
		r := gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/static/console.css"+query, "", nil)
		if r.Want(t, http.StatusOK); r.Header.Get("Cache-Control") != want {
			t.Errorf("%q: %s, want %s", query, r.Header.Get("Cache-Control"), want)
		}
	}
	gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/static/doc.go", "", nil).Want(t, http.StatusNotFound)
	gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/static/../doc.go", "", nil).Want(t, http.StatusNotFound)
}

func TestPrompt_ShowsHowItDiffersFromTheLock(t *testing.T) {
	p := gatewaytest.NewPeer(t, "up", `{"name":"a","title":"approved"}`, "same")
	text := gatewaytest.Team("eng", "", "", p)
	lock := gatewaytest.Serve(t, text).Lock()
	p.SetPrompts(`{"name":"a","title":"another"}`, "same", "new")
	for mode, want := range map[string]string{"warn": "listed anyway", "enforce": "left out"} {
		s := gatewaytest.ServeLocked(t, "gateway {\n lock = \""+mode+"\"\n}\n"+text, lock)
		page := func(name string, parts ...string) {
			t.Helper()
			gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/prompt?name="+name, "", nil).Want(t, http.StatusOK, parts...)
		}
		page("up.a", "its definition differs from the one in promptweir.lock.hcl, so it is "+want, "gateway.hcl:1")
		page("up.new", "it is not in promptweir.lock.hcl, so it is "+want)
		if body := gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/prompt?name=up.a", "", nil).Body; strings.Count(body, "differs from its definition") != 1 {
			t.Errorf("%s: the page does not say once that the definition differs:\n%s", mode, body)
		}
		page("up.same", "its definition is the one in promptweir.lock.hcl")
	}
}
