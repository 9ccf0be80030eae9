package config

import (
	"strings"
	"testing"
)

func TestAddress_MasksSensitiveParts(t *testing.T) {
	upstreams := load(t, "testdata/valid/outside.hcl").Upstreams()
	for i, want := range []struct {
		address, url string
	}{
		{"(sensitive)", "https://docs.example.com/hunter2-env/mcp"},
		{"tool --key (sensitive) (sensitive)", ""},
		{"https://a.example.com/mcp", "https://a.example.com/mcp"},
	} {
		u := upstreams[i]
		if got := u.Address(); got != want.address {
			t.Errorf("Address of %s = %q, want %q", u.Name, got, want.address)
		}
		if u.URL != want.url {
			t.Errorf("URL of %s = %q, want %q", u.Name, u.URL, want.url)
		}
	}
}

// Neither column has a default: a contributor decides about both.
func TestUpstream_HasBothColumnsOfEachAttribute(t *testing.T) {
	var list []string
	for _, a := range newUpstream().table(nil, reach{}) {
		if a.Files != serversOnly && a.Files != filesToo || a.Connection != newConnection && a.Connection != keepsConnection {
			t.Errorf("%s: write row(serversOnly or filesToo, newConnection or keepsConnection, …)", a.Name)
		}
		if a.Files == filesToo && a.Name != "files" {
			list = append(list, "`"+a.Name+"`")
		}
	}
	if want := "Goes with " + strings.Join(list, ", ") + " only."; !strings.Contains(strings.ReplaceAll(fileText(t, "README.md"), " and `", ", `"), want) {
		t.Errorf("the meaning of files in the table of upstream has no %q", want)
	}
}

func TestSameConnection_IgnoresOnlyWhatNoConnectionDependsOn(t *testing.T) {
	const block = `team "eng" {
  upstream "up" {
    url     = "https://one.example.com/mcp"
    headers = { X-Key = "one" }
    # more
    tls { server_name = "mcp.example.com" }
  }
}
`
	upstream := func(change ...string) Upstream {
		return load(t, write(t, "eng.hcl", strings.NewReplacer(change...).Replace(block))).Upstreams()[0]
	}
	before := upstream()
	for change, want := range map[string]bool{
		"# more":                   true,
		"\n\n":                     true, // it stands in another line
		`prefix = "other"`:         true,
		`when_down = "hide"`:       true,
		`timeout = "1s"`:           false,
		`max_prompts = 7`:          false,
		`breaker { failures = 2 }`: false,
		`oauth { ` + "\n" + `token_url = "https://one.example.com/t"` + "\n" + `client_id = "a"` + "\n" + `client_secret = "b"` + "\n}": false,
	} {
		if got := before.SameConnection(upstream("# more", change)); got != want {
			t.Errorf("with %s: SameConnection = %v, want %v", change, got, want)
		}
	}
	for was, is := range map[string]string{`"one"`: `"two"`, "one.example": "two.example", "mcp.example": "other.example", `"eng"`: `"ops"`} {
		if before.SameConnection(upstream(was, is)) {
			t.Errorf("with %s instead of %s: SameConnection = true, want false", is, was)
		}
	}
}
