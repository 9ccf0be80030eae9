package admin_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
)

func TestCatalog_FindsPromptsByTheirTexts(t *testing.T) {
	docs := gatewaytest.NewPeer(t, "docs",
		`{"name":"review","title":"Code review","description":"Look for MISTAKES.","arguments":[{"name":"code"}]}`,
		`{"name":"summary","description":"A short review of a text`+strings.Repeat("ä", 3<<10)+` far"}`, "greet")
	other := gatewaytest.NewPeer(t, "other", "preview", "review")
	s := gatewaytest.Serve(t, "auth {\n"+gatewaytest.Token("ann")+gatewaytest.Token("bob")+"}\n"+
		gatewaytest.Team("eng", `"user:ann"`, gatewaytest.Expose("all", `"docs.review"`, `"*"`), docs)+gatewaytest.Team("ops", `"user:bob"`, "", other))
	found := func(query string, names ...string) {
		t.Helper()
		r := gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/api/catalog?"+query, "", nil)
		r.Want(t, http.StatusOK)
		var page struct {
			Total   int
			Prompts []struct{ Name string }
		}
		if err := json.Unmarshal([]byte(r.Body), &page); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range page.Prompts {
			got = append(got, p.Name)
		}
		if diff := cmp.Diff(names, got); diff != "" || page.Total != len(names) {
			t.Errorf("%s: %d, (-want +got):\n%s", query, page.Total, diff)
		}
	}
	found("", "docs.greet", "docs.review", "docs.summary", "other.preview", "other.review")
	found("q=review", "docs.review", "other.preview", "other.review", "docs.summary") // by name first
	found("q=Other.Rev", "other.review")
	found("q=mistakes+code", "docs.review")
	found("q=mistakes+short")
	found("q=ä", "docs.summary")
	found("q=far") // beyond what is searched
	found("team=ops", "other.preview", "other.review")
	found("as=user:bob", "docs.review", "other.preview", "other.review")
	found("as=user:bob&team=eng&q=code", "docs.review")
	found("as=user:anonymous", "docs.review")

	r := gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/api/catalog?q=code", "", nil)
	r.Want(t, http.StatusOK, `"title": "Code review"`, `"description": "Look for MISTAKES."`, `"team": "eng"`, `"docs"`, `"code"`)
	for query, want := range map[string]string{
		"team=non": "no team", "team=ehg": "eng", "as=bob": "neither a user nor a group", "page=0": "page", "page=x": "page",
	} {
		gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/api/catalog?"+query, "", nil).Want(t, http.StatusBadRequest, `"error"`, want)
	}
	docs.SetPrompts("new")
	docs.Announce()
	eventually(t, func() bool {
		return strings.Contains(gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/api/catalog?q=new", "", nil).Body, "docs.new")
	})
	found("q=mistakes")
}

func TestCatalog_HasPages(t *testing.T) {
	names := make([]string, 120)
	for i := range names {
		names[i] = fmt.Sprintf("p%03d", i)
	}
	s := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", gatewaytest.NewPeer(t, "up", names...)))
	var got []string
	for page, want := range []int{1, 1, 2, 3, 3} { // those that there are not are the first and the last
		r := gatewaytest.Send(t, http.MethodGet, fmt.Sprintf("%s/api/catalog?q=p&page=%d", s.AdminURL, max(1, page)), "", nil)
		var answer struct {
			Total, Page, Pages int
			Prompts            []struct{ Name string }
		}
		if err := json.Unmarshal([]byte(r.Body), &answer); err != nil {
			t.Fatal(err)
		}
		if answer.Total != 120 || answer.Page != want || answer.Pages != 3 {
			t.Errorf("page %d: %d of %d, %d in all", page, answer.Page, answer.Pages, answer.Total)
		}
		if page > 0 && page < 4 {
			for _, p := range answer.Prompts {
				got = append(got, strings.TrimPrefix(p.Name, "up."))
			}
		}
	}
	if diff := cmp.Diff(names, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestExplain_AnswersAsTheCommandDoes(t *testing.T) {
	s, _, _ := gatewaytest.ServeTwoTeams(t, "auth {\n"+gatewaytest.Token("ann", "payments")+gatewaytest.Token("bob")+"}\n")
	get := func(query string, status int, parts ...string) {
		t.Helper()
		gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/api/explain?"+query, "", nil).Want(t, status, parts...)
	}
	get("name=billing.review_pr&as=user:bob", http.StatusOK, `"visible": true`, `expose \"reviews\"`, `"decides": true`, "gateway.hcl:")
	get("name=billing.wip_x&as=user:ann,group:payments", http.StatusOK, `"visible": false`, `hide \"half-finished\"`)
	get("name=billing.ledger", http.StatusOK, `"visible": true`, `"who": "group:payments"`)
	get("name=nowhere", http.StatusOK, `"visible": false`)
	get("", http.StatusBadRequest, "name")
	get("name=a&as=group:x", http.StatusBadRequest, "names no user")
}

func TestUpstreams_AreThoseOfATeam(t *testing.T) {
	s := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", gatewaytest.NewPeer(t, "up", "a"))+gatewaytest.Team("ops", "", "", gatewaytest.NewDownPeer(t)))
	r := gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/api/upstreams?team=ops", "", nil)
	r.Want(t, http.StatusOK, `"name": "gone"`, `"reason": "unreachable"`, `"remedy"`)
	if strings.Contains(r.Body, `"up"`) {
		t.Errorf("another team's upstream: %s", r.Body)
	}
	gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/api/upstreams", "", nil).Want(t, http.StatusOK, `"up"`, `"gone"`)
	gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/api/upstreams?team=none", "", nil).Want(t, http.StatusBadRequest, "no team")
}

func TestAPI_IsForOperators(t *testing.T) {
	s := gatewaytest.Serve(t, withToken("operator"))
	for _, path := range []string{"catalog", "upstreams", "explain?name=a"} {
		gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/api/"+path, "", nil).Want(t, http.StatusForbidden)
		gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/api/"+path, "", gatewaytest.Bearer("operator")).Want(t, http.StatusOK)
		gatewaytest.Send(t, http.MethodPost, s.AdminURL+"/api/"+path, "", gatewaytest.Bearer("operator")).Want(t, http.StatusMethodNotAllowed)
	}
}
