package transport_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream/wire"
)

// A client that knows only the domain finds the catalog, by it the card, and by that the endpoint,
// of which discovery says the same.
func TestCard_LeadsFromTheDomainToTheEndpoint(t *testing.T) {
	schema := jsonschema.NewCompiler().MustCompile("testdata/server-card.schema.json#/$defs/ServerCard")
	for public, cards := range map[string][]string{
		"https://mcp.example.com":           {"/mcp/server-card"},
		"https://mcp.example.com/mcp":       {"/mcp/server-card"},
		"https://mcp.example.com/prompts":   {"/mcp/server-card", "/prompts/mcp/server-card"},
		"http://localhost:8080":             {"/mcp/server-card"},
		"https://mcp.example.com/a{x}b/mcp": {"/mcp/server-card", "/a%7Bx%7Db/mcp/server-card"},
	} {
		s := gatewaytest.Serve(t, "gateway {\n public_url = \""+public+"\"\n card = true\n}\nauth {\n"+gatewaytest.Token("ann")+"}")
		host := strings.TrimSuffix(s.URL, "/mcp")
		var catalog struct {
			SpecVersion string
			Entries     []struct{ Identifier, Type, URL string }
		}
		readPublic(t, host+"/.well-known/ai-catalog.json", "application/ai-catalog+json", &catalog)
		if catalog.SpecVersion != "1.0" || len(catalog.Entries) != 1 || catalog.Entries[0].Type != "application/mcp-server-card+json" {
			t.Fatalf("catalog = %+v", catalog)
		}
		for _, path := range cards {
			var card struct {
				Name, Version string
				Remotes       []struct {
					Type, URL string
					Revisions []string `json:"supportedProtocolVersions"`
				}
			}
			text := readPublic(t, host+path, "application/mcp-server-card+json", &card)
			value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(value); err != nil {
				t.Errorf("%s: %v", text, err)
			}
			namespace, name, _ := strings.Cut(card.Name, "/")
			if domain := strings.Split(catalog.Entries[0].Identifier, ":")[2]; namespace != map[string]string{"mcp.example.com": "com.example.mcp", "localhost": "localhost"}[domain] ||
				len(card.Remotes) != 1 || card.Remotes[0].URL+"/server-card" != catalog.Entries[0].URL {
				t.Errorf("the catalog %+v leads to the card %s", catalog, text)
			}
			info, versions := discovered(t, s)
			if diff := cmp.Diff(versions, card.Remotes[0].Revisions); diff != "" || info.Name != name || info.Version != card.Version {
				t.Errorf("discovery has %+v (-want +got):\n%s", info, diff)
			}
		}
	}
}

// discovered is what server/discover says.
func discovered(t *testing.T, s *gatewaytest.Server) (info struct{ Name, Version string }, versions []string) {
	t.Helper()
	response := s.Modern("ann").Call("server/discover", "{}")
	var meta map[string]json.RawMessage
	for raw, into := range map[string]any{
		string(response.Result(t, "supportedVersions")): &versions,
		string(response.Result(t, "_meta")):             &meta,
	} {
		if err := json.Unmarshal([]byte(raw), into); err != nil {
			t.Fatal(err)
		}
	}
	if err := json.Unmarshal(meta[wire.MetaServerInfo], &info); err != nil {
		t.Fatal(err)
	}
	return info, versions
}

// readPublic reads a document as anybody may, and as one who has it already.
func readPublic(t *testing.T, url, contentType string, into any) (text string) {
	t.Helper()
	page := gatewaytest.Headers{"Origin", "https://app.example.com"}
	a := gatewaytest.Send(t, http.MethodGet, url, "", page)
	a.Want(t, http.StatusOK)
	if err := json.Unmarshal([]byte(a.Body), into); err != nil {
		t.Fatalf("%s: %v", a.Body, err)
	}
	tag := a.Header.Get("ETag")
	if a.Header.Get("Access-Control-Allow-Origin") != "*" || a.Header.Get("Content-Type") != contentType || tag == "" {
		t.Errorf("%s has the headers %v", url, a.Header)
	}
	gatewaytest.Send(t, http.MethodGet, url, "", append(page, "If-None-Match", tag)).Want(t, http.StatusNotModified)
	gatewaytest.Send(t, http.MethodGet, url, "", append(page, "If-None-Match", `"other"`)).Want(t, http.StatusOK)
	gatewaytest.Send(t, http.MethodPost, url, "{}", nil).Want(t, http.StatusMethodNotAllowed)
	gatewaytest.Send(t, http.MethodGet, url, "", gatewaytest.Headers{"Host", "evil.example.net"}).Want(t, http.StatusForbidden, "Forbidden: host")
	return a.Body
}

func TestCard_IsOffByDefault(t *testing.T) {
	host := strings.TrimSuffix(gatewaytest.Serve(t, `gateway { public_url = "https://mcp.example.com" }`).URL, "/mcp")
	for _, path := range []string{"/.well-known/ai-catalog.json", "/mcp/server-card", "/server-card"} {
		gatewaytest.Send(t, http.MethodGet, host+path, "", nil).Want(t, http.StatusNotFound)
	}
}
