package admin_test

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
	"github.com/promptweir/promptweir/gateway/gatewaytest"
)

func TestPage_ShowsTheStateOfTheGateway(t *testing.T) {
	p := gatewaytest.NewPeer(t, "up", `{"name":"<i>a"}`, `{"name":"<i>a"}`, "b")
	twin := gatewaytest.NewPeer(t, "twin", `{"name":"b","title":"another"}`)
	p.Settings, twin.Settings = `prefix = ""`, `prefix = ""`
	good := gatewaytest.Team("eng", "", "", p, twin, gatewaytest.NewDownPeer(t))
	r := gatewaytest.ServeReloadable(t, good, gateway.Options{Version: "1.2.3"})
	stream := r.Modern("").Listen("1")
	defer stream.Close()
	asker := gatewaytest.NewRequestingPeer(t, gatewaytest.FormElicitation)
	asker.Name = "asker"
	r.MustReload(good + gatewaytest.Team("other", "", "", asker.Peer))
	r.AwaitUpstreams()
	r.ModernWith("", `{"elicitation":{}}`)("prompts/get", gatewaytest.GetParams("asker.ask")).Want(t, http.StatusOK, "input_required")
	if err := r.TryReload(strings.Replace(good, "url", "headers = { Authorization = \"Bearer hunter2\" }\n urll", 1)); err == nil {
		t.Fatal("a broken configuration is accepted")
	}

	a := gatewaytest.Send(t, http.MethodGet, r.AdminURL+"/", "", nil)
	a.Want(t, http.StatusOK, "<h1>Ready</h1>", "Needs attention: the last configuration was refused, 1 of 4 upstreams in trouble, 2 reports to fix.",
		"definitions in upstream &#34;up&#34;", "and upstream &#34;twin&#34;", "set a different prefix on one of the upstreams", // both owners and the remedy
		"more than once", "&lt;i&gt;a",
		"urll", "was refused",
		"unreachable since <time>20", "connection refused at", "Start the server, or correct host and port in url.", "revision <bdi>2025-11-25</bdi>", "team <bdi>eng</bdi>",
		"1 open to clients", "1 request to clients without a reply yet", "1.2.3")
	for _, bad := range []string{"<i>", "<script", "hunter2", strings.TrimPrefix(p.URL, "http://")} {
		if strings.Contains(a.Body, bad) {
			t.Errorf("%q is on the page:\n%s", bad, a.Body)
		}
	}
	if gone, up := strings.Index(a.Body, `data-upstream="gone"`), strings.Index(a.Body, `data-upstream="up"`); gone < 0 || up < gone {
		t.Errorf("the upstream that is down is not the first: offsets %d and %d", gone, up)
	}
	style := regexp.MustCompile(`(?s)<style>(.*)</style>`).FindStringSubmatch(a.Body)
	sum := sha256.Sum256([]byte(style[1]))
	if got, want := a.Header.Get("Content-Security-Policy"), "style-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'"; !strings.Contains(got, want) || !strings.HasPrefix(got, "default-src 'none';") {
		t.Errorf("policy %s, want %s in it", got, want)
	}

	// The readiness shows the same.
	gatewaytest.Send(t, http.MethodGet, r.AdminURL+"/readyz", "", nil).Want(t, http.StatusOK, `"version": "1.2.3"`, `"started": "20`, `"streams": 1`, `"waiting": 1`)
}

func TestPage_IsForOperators(t *testing.T) {
	sum := sha256.Sum256([]byte("operator"))
	s := gatewaytest.Serve(t, fmt.Sprintf("admin {\n token_sha256 = %q\n}\n", hex.EncodeToString(sum[:]))+gatewaytest.Team("eng", "", "", gatewaytest.NewPeer(t, "up", "a")))
	url := s.AdminURL + "/"
	gatewaytest.Send(t, http.MethodHead, url, "", gatewaytest.Bearer("operator")).Want(t, http.StatusOK)
	gatewaytest.Send(t, http.MethodPost, url, "", nil).Want(t, http.StatusMethodNotAllowed)
	gatewaytest.Send(t, http.MethodGet, url+"page.css", "", nil).Want(t, http.StatusNotFound)
	gatewaytest.Send(t, http.MethodGet, url, "", gatewaytest.Headers{"Host", "evil.example.com"}).Want(t, http.StatusForbidden)
	gatewaytest.Send(t, http.MethodGet, url, "", gatewaytest.Headers{"Origin", "http://evil.example.com"}).Want(t, http.StatusForbidden)
	elsewhere := gatewaytest.Headers{"X-Forwarded-For", "192.0.2.1"}
	refused := gatewaytest.Send(t, http.MethodGet, url, "", elsewhere)
	refused.Want(t, http.StatusForbidden, "forbidden")
	if strings.Contains(refused.Body, "up") {
		t.Errorf("detail for a caller from another machine: %s", refused.Body)
	}
	gatewaytest.Send(t, http.MethodGet, url, "", append(elsewhere, "Authorization", "Bearer operator")).Want(t, http.StatusOK, `data-upstream="up"`)
}
