package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
)

func TestConfiguration_ShowsWhatIsInUseAndNoSecret(t *testing.T) {
	p := gatewaytest.NewPeer(t, "up", "a")
	p.Settings = `headers = { Authorization = "Bearer hunter2-hunter2" }`
	text := withToken("hunter3") + gatewaytest.Team("eng", `"user:ann"`, "", p) + "hide \"drafts\" { prompts = [\"*.draft_*\"] }\nauth {\n" + gatewaytest.Token("ann") + "}\n"
	r := gatewaytest.ServeReloadable(t, text, gateway.Options{})
	get := func(path string, parts ...string) {
		t.Helper()
		page := gatewaytest.Send(t, http.MethodGet, r.AdminURL+path, "", gatewaytest.Bearer("hunter3"))
		page.Want(t, http.StatusOK, parts...)
		if strings.Contains(page.Body, "hunter") {
			t.Errorf("%s has a secret:\n%s", path, page.Body)
		}
	}
	get("/configuration", "<bdi>gateway.hcl</bdi>", "SHA-256", "without warnings", "/api/config")
	get("/api/config", `"files": [`, `"sha256": "`, `"loaded": "`, `"diagnostics": []`)
	gatewaytest.Send(t, http.MethodGet, r.AdminURL+"/api/config", "", nil).Want(t, http.StatusForbidden)

	r.MustReload(text + "team \"idle\" {\n hide \"nothing\" { prompts = [\"idle.*\"] }\n}\n")
	get("/configuration", "2 warnings", "Warnings", "idle") // one of them of the token that is written out
	get("/api/config", `"severity": "warning"`, `"line": `)
	get("/", "2 warnings")
	if err := r.TryReload("gateway {"); err == nil {
		t.Fatal("a broken configuration is accepted")
	}
	get("/configuration", "The last configuration was refused", "SHA-256")
	get("/api/config", `"refused": "`, `"summary": "Unclosed configuration block"`, `"severity": "error"`)
}

// Buttons act only for operators, and then lead back.
func TestButtons_ConnectAndReload(t *testing.T) {
	p := gatewaytest.NewPeer(t, "up", "a")
	s := serveTriers(t, gatewaytest.Team("eng", "", "", p))
	press := func(path, form string, headers gatewaytest.Headers) (status int, location string) {
		t.Helper()
		r := gatewaytest.NewRequest(t.Context(), t, http.MethodPost, s.AdminURL+path, form, append(headers, "Content-Type", "application/x-www-form-urlencoded"))
		answer, err := http.DefaultTransport.RoundTrip(r) // follows no redirect
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		return answer.StatusCode, answer.Header.Get("Location")
	}
	for _, headers := range []gatewaytest.Headers{nil, gatewaytest.Bearer("wrong"), append(gatewaytest.Bearer("operator"), "Sec-Fetch-Site", "same-site")} {
		for _, path := range []string{"/reload", "/connect"} {
			if status, _ := press(path, "upstream=up", headers); status != http.StatusForbidden {
				t.Errorf("%s with %v: %d", path, headers, status)
			}
		}
	}
	for next, want := range map[string]string{"/upstreams?team=eng": "/upstreams?team=eng", "//evil.example.com": "/"} {
		status, location := press("/connect", url.Values{"upstream": {"up"}, "next": {next}}.Encode(), gatewaytest.Bearer("operator"))
		if status != http.StatusSeeOther || location != want {
			t.Errorf("connect: %d to %s, want %s", status, location, want)
		}
	}
	s.logged(`"act":"connect"`, `"upstream":"up"`, `"outcome":"ok"`)
	p.Stop()
	s.AwaitTrouble("up")
	before := gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/upstreams", "", gatewaytest.Bearer("operator"))
	before.Want(t, http.StatusOK, "Connect now")
	p.Restart()
	press("/connect", "upstream=up", gatewaytest.Bearer("operator"))
	if after := gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/upstreams", "", gatewaytest.Bearer("operator")); strings.Contains(after.Body, "Connect now") {
		t.Errorf("after the attempt, the page has no result:\n%s", after.Body)
	}
	if status, _ := press("/connect", "upstream=other", gatewaytest.Bearer("operator")); status != http.StatusUnprocessableEntity {
		t.Errorf("an unknown upstream: %d", status)
	}
	if status, location := press("/reload", "next=/configuration", gatewaytest.Bearer("operator")); location != "/configuration#configuration" {
		t.Errorf("a reload that is refused: %d to %s", status, location)
	}
	gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/configuration", "", gatewaytest.Bearer("operator")).Want(t, http.StatusOK, `id="configuration"`, "The last configuration was refused")
	s.logged(`"act":"reload"`, `"outcome":"failed"`) // this gateway was started without a way to load its configuration
}
