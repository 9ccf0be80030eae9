package client_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// signpost serves documents by path, with its own address in place of URL, and refuses everything else.
type signpost struct {
	challenge string
	documents map[string]string
	url       string
}

func (s *signpost) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	fill := strings.NewReplacer("URL", s.url).Replace
	if document, ok := s.documents[r.URL.Path]; ok && r.Method == http.MethodGet {
		_, _ = io.WriteString(w, fill(document))
		return
	}
	if r.URL.Path != "/team/mcp" {
		http.NotFound(w, r)
		return
	}
	if s.challenge != "" {
		w.Header().Set("WWW-Authenticate", fill(s.challenge))
	}
	w.WriteHeader(http.StatusUnauthorized)
}

func TestDiscoverAuthorization_FollowsRefusal(t *testing.T) {
	t.Parallel()
	const (
		below    = "/.well-known/oauth-protected-resource/team/mcp"
		root     = "/.well-known/oauth-protected-resource"
		resource = `{"resource":"URL/team/mcp","authorization_servers":["URL/as"],"scopes_supported":["read","list"]}`
		server   = `{"issuer":"URL/as","token_endpoint":"URL/token"}`
		rfc8414  = "/.well-known/oauth-authorization-server/as"
	)
	tests := []struct {
		name, challenge string
		documents       map[string]string
		scopes, problem string
	}{
		{"where the refusal says", `Bearer realm="a, \"b\"", resource_metadata="URL/here", scope=mcp`, map[string]string{"/here": resource, rfc8414: server}, "mcp", ""},
		{"below its path", "Bearer", map[string]string{below: resource, root: `{}`, rfc8414: server}, "read list", ""},
		{"at its root, without a challenge", "", map[string]string{root: resource, rfc8414: server}, "read list", ""},
		{"OpenID with the path inserted", "", map[string]string{root: resource, "/.well-known/openid-configuration/as": server}, "read list", ""},
		{"OpenID with the path in front", "", map[string]string{root: resource, "/as/.well-known/openid-configuration": server}, "read list", ""},
		{"for the whole host", "", map[string]string{root: strings.Replace(resource, "/team/mcp", "", 1), rfc8414: server}, "read list", ""},
		{"of another resource", "", map[string]string{root: strings.Replace(resource, "/team/mcp", "/team/m", 1), rfc8414: server}, "", "another resource"},
		{"of another host", "", map[string]string{root: strings.Replace(resource, "URL/team", "https://mcp.example.com/team", 1), rfc8414: server}, "", "another resource"},
		{"of another issuer", "", map[string]string{root: resource, rfc8414: strings.Replace(server, "/as", "/", 1)}, "", "another issuer"},
		{"naming nobody", "", map[string]string{root: `{"resource":"URL/team/mcp"}`}, "", "names no authorization server"},
		{"without TLS", "", map[string]string{root: strings.Replace(resource, "URL/as", "http://sso.example.com", 1)}, "", "the issuer is not an https URL"},
		{"a token endpoint without TLS", "", map[string]string{root: resource, rfc8414: strings.Replace(server, "URL/token", "http://sso.example.com/token", 1)}, "", "token endpoint is not an https URL"},
		{"nowhere", "", nil, "", "404 Not Found"},
		{"not JSON", "", map[string]string{root: "<html>"}, "", "invalid character"},
	}
	for _, test := range tests {
		post := &signpost{challenge: test.challenge, documents: test.documents}
		s := upstreamtest.Serve(t, post)
		post.url = s.URL
		got, err := client.DiscoverAuthorization(t.Context(), upstreamtest.HTTP("x", s.URL+"/team/mcp"), client.Options{})
		if test.problem != "" {
			if err == nil || !strings.Contains(err.Error(), test.problem) {
				t.Errorf("%s: %+v, %v, want an error with %q", test.name, got, err, test.problem)
			}
			continue
		}
		want := client.Authorization{Issuer: s.URL + "/as", TokenURL: s.URL + "/token", Scopes: strings.Fields(test.scopes), Resource: s.URL + "/team/mcp"}
		if test.name == "for the whole host" {
			want.Resource = s.URL
		}
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", test.name, err, diff)
		}
	}
	open := upstreamtest.Serve(t, upstreamtest.NewPeer(t))
	if _, err := client.DiscoverAuthorization(t.Context(), upstreamtest.HTTP("x", open.URL), client.Options{}); err == nil || !strings.Contains(err.Error(), "without a token") {
		t.Errorf("a server that refuses nobody: %v", err)
	}
}
