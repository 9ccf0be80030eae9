package config

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestShown_HasEverySettingAndNoSecret(t *testing.T) {
	t.Setenv("OUTSIDE_URL", "https://outside-hook-7f3a.example.com")
	t.Setenv("OUTSIDE_TEXT", "text from outside")
	dir := write(t, "gateway.hcl", `
gateway {
  listen       = "127.0.0.1:0"
  public_url   = "${env("OUTSIDE_URL")}/"
  instructions = env("OUTSIDE_TEXT")
  page_size    = 7
}
admin { token_sha256 = sha256("hunter2") }
auth {
  token "ci" {
    sha256 = sha256("hunter3")
    groups = ["ci"]
  }
}
hide "drafts" { prompts = ["*.draft_*"] }
team "eng" {
  members = ["group:ci"]
  upstream "up" {
    urls    = ["${env("OUTSIDE_URL")}/mcp", "https://127.0.0.1/mcp?api_key=hunter6"]
    headers = { Authorization = "Bearer hunter4-hunter4" }
    timeout = "3s"
  }
  upstream "sh" {
    command = ["sh", "-c", "true", "--password", "hunter7"]
    env     = { KEY = "hunter5" }
  }
  expose "all" {
    prompts = ["up.*"]
    to      = ["*"]
    when    = prompt.name != "x"
  }
  screen "form" { wellformed = true }
  prompt "up.a" {
    title     = "New title"
    arguments = { year = 2026 }
  }
}
`)
	opts := options()
	opts.LookupEnv = os.LookupEnv
	cfg, diags := Load(filepath.Join(dir, "gateway.hcl"), opts)
	if err := diags.Err(); err != nil {
		t.Fatal(err)
	}
	shown, err := json.MarshalIndent(cfg.Shown(), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	text := string(shown)
	for _, part := range []string{
		`"page_size": 7`, `"separator": "."`, `"public_url": "(sensitive)"`, `"instructions": "(sensitive)"`, `"token_sha256": "(sensitive)"`,
		`"subject": "ci"`, `"name": "eng"`, `"group:ci"`, `"timeout": "3s"`, `"refresh": "5m"`, `"grace": "1m"`, `"Authorization": "(sensitive)"`, `"KEY": "(sensitive)"`,
		`"*.draft_*"`, `"title": "New title"`, `"value": "2026"`, `"true",`, `"--password",`, `"when": "prompt.name != \"x\""`, `"failures": 5`,
	} {
		if !strings.Contains(text, part) {
			t.Errorf("no %s in\n%s", part, text)
		}
	}
	for _, secret := range []string{"hunter", "outside", "OUTSIDE", "m0s", `"place"`, `"team"`, "transport_explicit", "well_formed"} {
		if strings.Contains(text, secret) {
			t.Errorf("%q is shown in\n%s", secret, text)
		}
	}
	if team := cfg.ShownTeam("eng"); team.Get("name") != "eng" || cfg.ShownTeam("none") != nil {
		t.Errorf("the team's settings are %v", team)
	}
}

// Who writes a secret into an address or a command should not, and operators are not shown it all
// the same.
func TestShown_HidesWhatIsNamedLikeASecret(t *testing.T) {
	for text, want := range map[string]string{
		"https://a.example.com/mcp?api_key=hunter&page=2&access_token=x%20y#f": "https://a.example.com/mcp?api_key=(sensitive)&page=2&access_token=(sensitive)#f",
		"https://a.example.com/mcp?page=2":                                     "https://a.example.com/mcp?page=2",
		"a=b":                                                                  "a=b",
		"postgresql://app:hunter2@db/shop?x=1 and mysql://b:c@d":               "postgresql://app:(sensitive)@db/shop?x=1 and mysql://b:(sensitive)@d",
		"https://app@db.example.com:8080/a@b":                                  "https://app@db.example.com:8080/a@b",
		"Server=db;Password=hunter two;Encrypt=true":                           "Server=db;Password=(sensitive);Encrypt=true",
		"host=db pwd=hunter2 sslmode=require":                                  "host=db pwd=(sensitive) sslmode=require",
	} {
		if got := hideParameters(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	for _, test := range [][2]string{
		{"server|--token=hunter|--name=x", "server|--token=(sensitive)|--name=x"},
		{"server|--api-key|hunter|--verbose|x", "server|--api-key|(sensitive)|--verbose|x"},
		{"server|--no-token|--name|x", "server|--no-token|--name|x"},
		{"env|API_TOKEN=hunter|HOME=/x|server", "env|API_TOKEN=(sensitive)|HOME=/x|server"},
		{"mcp-remote|https://a.example.com/?token=hunter|--header|Authorization: Bearer hunter", "mcp-remote|https://a.example.com/?token=(sensitive)|--header|Authorization: (sensitive)"},
		{"server|--token", "server|--token"},
		{"mysql|-pHunter2|-u|app|-p|-port|-p8080:80|-p=1", "mysql|-p(sensitive)|-u|app|-p|-port|-p8080:80|-p=1"},
	} {
		if got := strings.Join(hideWords(strings.Split(test[0], "|")), "|"); got != test[1] {
			t.Errorf("%s: %s, want %s", test[0], got, test[1])
		}
	}
}

func TestSettingName_IsSpelledLikeAnAttribute(t *testing.T) {
	for field, want := range map[string]string{
		"URLs": "urls", "TLS": "tls", "PublicURL": "public_url", "TokenSHA256": "token_sha256", "JWKSURL": "jwksurl", "OAuth": "oauth",
		"MaxBuffered": "max_buffered", "WellFormed": "wellformed", "ClientCAs": "client_cas", "JWTs": "jwts",
	} {
		if got := settingName(field); got != want {
			t.Errorf("%s: %q, want %q", field, got, want)
		}
	}
}
