package gateway_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/gateway"
)

func TestTheAdminPageSaysHowAllIs(t *testing.T) {
	p := newPeer(t, "up", `{"name":"<i>a"}`, `{"name":"<i>a"}`, "b")
	twin := newPeer(t, "twin", `{"name":"b","title":"another"}`)
	p.settings, twin.settings = `prefix = ""`, `prefix = ""`
	good := team("eng", "", "", p, twin, dead(t))
	r := serveReloadable(t, good, gateway.Options{Version: "1.2.3"})
	stream := r.modern("").open("1")
	defer stream.close()
	asker := newLegacyAsker(t, formQuestion)
	asker.name = "asker"
	r.reload(good + team("other", "", "", asker.peer))
	r.settle()
	r.capable("", `{"elicitation":{}}`)("prompts/get", get("asker.ask")).is(t, http.StatusOK, "input_required")
	if err := r.try(strings.Replace(good, "url", "headers = { Authorization = \"Bearer hunter2\" }\n urll", 1)); err == nil {
		t.Fatal("a broken configuration is taken")
	}

	a := send(t, http.MethodGet, r.admin+"/", "", nil)
	a.is(t, http.StatusOK, "<h1>Ready</h1>", "Needs attention: the last configuration was refused, 1 of 4 upstreams in trouble, 2 reports to fix.",
		"definitions in upstream &#34;up&#34;", "and upstream &#34;twin&#34;", "set a different prefix on one of the upstreams", // both owners, and the remedy
		"more than once", "&lt;i&gt;a",
		"urll", "was refused",
		"unreachable since <time>20", "Nothing answers there", "revision <bdi>2025-11-25</bdi>", "team <bdi>eng</bdi>",
		"1 open to clients", "1 request to clients without a reply yet", "1.2.3")
	for _, bad := range []string{"<i>", "<script", "hunter2", strings.TrimPrefix(p.url, "http://")} {
		if strings.Contains(a.body, bad) {
			t.Errorf("%q is on the page:\n%s", bad, a.body)
		}
	}
	if gone, up := strings.Index(a.body, `data-upstream="gone"`), strings.Index(a.body, `data-upstream="up"`); gone < 0 || up < gone {
		t.Errorf("what is down is not first: %d, %d", gone, up)
	}
	style := regexp.MustCompile(`(?s)<style>(.*)</style>`).FindStringSubmatch(a.body)
	sum := sha256.Sum256([]byte(style[1]))
	if got, want := a.header.Get("Content-Security-Policy"), "style-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'"; !strings.Contains(got, want) || !strings.HasPrefix(got, "default-src 'none';") {
		t.Errorf("policy %s, want %s in it", got, want)
	}

	// The same, from the same source.
	send(t, http.MethodGet, r.admin+"/readyz", "", nil).is(t, http.StatusOK, `"version": "1.2.3"`, `"started": "20`, `"streams": 1`, `"waiting": 1`)
}

func TestTheAdminPageIsForOperators(t *testing.T) {
	sum := sha256.Sum256([]byte("operator"))
	s := serve(t, fmt.Sprintf("admin {\n token_sha256 = %q\n}\n", hex.EncodeToString(sum[:]))+team("eng", "", "", newPeer(t, "up", "a")))
	url := s.admin + "/"
	send(t, http.MethodHead, url, "", nil).is(t, http.StatusOK)
	send(t, http.MethodPost, url, "", nil).is(t, http.StatusMethodNotAllowed)
	send(t, http.MethodGet, url+"page.css", "", nil).is(t, http.StatusNotFound)
	send(t, http.MethodGet, url, "", headers{"Host", "evil.example.com"}).is(t, http.StatusForbidden)
	send(t, http.MethodGet, url, "", headers{"Origin", "http://evil.example.com"}).is(t, http.StatusForbidden)
	elsewhere := headers{"X-Forwarded-For", "192.0.2.1"}
	refused := send(t, http.MethodGet, url, "", elsewhere)
	refused.is(t, http.StatusForbidden, "forbidden")
	if strings.Contains(refused.body, "up") {
		t.Errorf("detail for callers from elsewhere: %s", refused.body)
	}
	send(t, http.MethodGet, url, "", append(elsewhere, "Authorization", "Bearer operator")).is(t, http.StatusOK, `data-upstream="up"`)
}
