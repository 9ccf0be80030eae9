package console_test

import (
	"net/http"
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
	get("/configuration", "1 warning", "Warnings", "idle")
	get("/api/config", `"severity": "warning"`, `"line": `)
	get("/", "1 warning")
	if err := r.TryReload("gateway {"); err == nil {
		t.Fatal("a broken configuration is accepted")
	}
	get("/configuration", "The last configuration was refused", "SHA-256")
	get("/api/config", `"refused": "`, `"summary": "Unclosed configuration block"`, `"severity": "error"`)
}

// What buttons do, they do for operators, and then lead back.
func TestButtons_DrainAndReload(t *testing.T) {
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
	const drain = "upstream=up&drained=true&next=%2Fupstreams%3Fteam%3Deng"
	for _, headers := range []gatewaytest.Headers{nil, gatewaytest.Bearer("wrong"), append(gatewaytest.Bearer("operator"), "Sec-Fetch-Site", "same-site")} {
		for _, path := range []string{"/drain", "/reload", "/connect"} {
			if status, _ := press(path, drain, headers); status != http.StatusForbidden || s.Snapshot().Drained("up") {
				t.Errorf("%s with %v: %d", path, headers, status)
			}
		}
	}
	status, location := press("/drain", drain, gatewaytest.Bearer("operator"))
	if status != http.StatusSeeOther || location != "/upstreams?team=eng" || !s.Snapshot().Drained("up") {
		t.Errorf("%d to %s", status, location)
	}
	s.logged(`"act":"drain"`, `"upstream":"up"`, `"outcome":"ok"`)
	page := gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/", "", gatewaytest.Bearer("operator"))
	page.Want(t, http.StatusOK, "<bdi>Upstream up is drained by an operator</bdi>", "Undo: let <bdi>up</bdi> serve again")
	_, location = press("/drain", "upstream=up&drained=false&next=//evil.example.com", gatewaytest.Bearer("operator"))
	if location != "/" || s.Snapshot().Drained("up") {
		t.Errorf("leads to %s", location)
	}
	if status, location := press("/connect", "upstream=up&next=/upstreams", gatewaytest.Bearer("operator")); status != http.StatusSeeOther || location != "/upstreams" {
		t.Errorf("connect: %d to %s", status, location)
	}
	s.logged(`"act":"connect"`, `"upstream":"up"`, `"outcome":"ok"`)
	for _, path := range []string{"/drain", "/connect"} {
		if status, _ := press(path, "upstream=other&drained=true", gatewaytest.Bearer("operator")); status != http.StatusUnprocessableEntity {
			t.Errorf("%s of an unknown upstream: %d", path, status)
		}
	}
	if status, location := press("/reload", "next=/configuration", gatewaytest.Bearer("operator")); location != "/configuration#configuration" {
		t.Errorf("a reload that is refused: %d to %s", status, location)
	}
	gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/configuration", "", gatewaytest.Bearer("operator")).Want(t, http.StatusOK, `id="configuration"`, "The last configuration was refused")
	s.logged(`"act":"reload"`, `"outcome":"failed"`) // this gateway was started without a way to load its configuration
}
