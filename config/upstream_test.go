package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAddress_MasksSensitiveParts(t *testing.T) {
	upstreams := load(t, "testdata/valid/outside.hcl").Upstreams()
	for i, want := range []struct {
		address string
		urls    []string
	}{
		{"(sensitive)", []string{"https://docs.example.com/hunter2-env/mcp"}},
		{"tool --key (sensitive) (sensitive)", nil},
		{"https://a.example.com/mcp, (sensitive)", []string{"https://a.example.com/mcp", "https://b.example.com/hunter2-env"}},
		{"(sensitive), (sensitive)", []string{"https://a.example.com", "https://b.example.com"}},
	} {
		u := upstreams[i]
		if got := u.Address(); got != want.address {
			t.Errorf("Address of %s = %q, want %q", u.Name, got, want.address)
		}
		if diff := cmp.Diff(want.urls, u.URLs); diff != "" {
			t.Errorf("URLs of %s (-want +got):\n%s", u.Name, diff)
		}
	}
}

func TestSameConnection_IgnoresOnlyWhatNoConnectionDependsOn(t *testing.T) {
	const block = `team "eng" {
  upstream "up" {
    urls    = ["https://one.example.com/mcp"]
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
