package gateway_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// assertionHeader is the default header of assertion blocks.
const assertionHeader = "X-Promptweir-Assertion"

// verifier is a server that checks assertions: it knows the gateway's keys, and its own audience.
type verifier struct {
	keys     []ed25519.PublicKey
	audience string
}

// subject returns who an assertion names; an error text if it is not for this server.
func (v verifier) subject(assertion string) string {
	token, err := jwt.ParseSigned(assertion, []jose.SignatureAlgorithm{jose.EdDSA})
	if err != nil {
		return "error: " + err.Error()
	}
	for _, key := range v.keys {
		var claims jwt.Claims
		if token.Claims(key, &claims) != nil {
			continue
		}
		if err := claims.Validate(jwt.Expected{Issuer: "https://p.example.com", AnyAudience: jwt.Audience{v.audience}}); err != nil {
			return "error: " + err.Error()
		}
		return claims.Subject
	}
	return "error: signed by a stranger"
}

func newAssertionKey(t *testing.T) (ed25519.PublicKey, string) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return public, fmt.Sprintf("%q", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// Many callers of both eras at once, while the signing keys change: a server always learns its own caller, and only for what a
// caller asks for. The servers speak each transport and era.
func TestAssertions_EachAnswerNamesItsOwnCaller(t *testing.T) {
	t.Parallel()
	const callers = 200
	oldKey, oldPEM := newAssertionKey(t)
	newKey, newPEM := newAssertionKey(t)
	legacy, modern := gatewaytest.NewPeer(t, "legacy", "a"), gatewaytest.NewModernPeer(t, "modern", "a")
	sse := upstreamtest.NewPeer(t)
	sse.Prompts("a")
	overSSE := &gatewaytest.Peer{Name: "sse", URL: upstreamtest.Serve(t, upstreamtest.SSE(sse)).URL + "/sse"}
	answer := func(w http.ResponseWriter, r *upstreamtest.Request, url string) {
		who := verifier{[]ed25519.PublicKey{oldKey, newKey}, url}.subject(r.Header.Get(assertionHeader))
		r.Result(w, fmt.Sprintf(`{"messages":[{"role":"user","content":{"type":"text","text":%q}}]}`, "for "+who+"."))
	}
	sse.Handle("prompts/get", func(w http.ResponseWriter, r *upstreamtest.Request) { answer(w, r, overSSE.URL) })
	legacy.Handle("prompts/get", func(w http.ResponseWriter, r *upstreamtest.Request) { answer(w, r, legacy.URL) })
	modern.Handle("prompts/get", func(w http.ResponseWriter, r *upstreamtest.Request) { answer(w, r, modern.URL) })
	var tokens, members []string
	for i := range callers {
		name := fmt.Sprintf("u%d", i)
		tokens, members = append(tokens, gatewaytest.Token(name)), append(members, fmt.Sprintf("%q", "user:"+name))
	}
	text := func(keys string) string {
		for _, p := range []*gatewaytest.Peer{legacy, modern, overSSE} {
			p.Settings = "assertion {}"
		}
		return "gateway {\n public_url = \"https://p.example.com\"\n signing_keys = [" + keys + "]\n}\nauth {\n anonymous = true\n" + strings.Join(tokens, "") + "}\n" +
			gatewaytest.Team("eng", strings.Join(members, ", "), gatewaytest.Expose("all", `"*"`, `"*"`), legacy, modern, overSSE)
	}
	s := gatewaytest.ServeReloadable(t, text(oldPEM), gateway.Options{})

	get := func(c *gatewaytest.Client, prompt, want string) {
		c.Call("prompts/get", gatewaytest.GetParams(prompt)).Want(t, http.StatusOK, `"for `+want+`."`)
	}
	var all sync.WaitGroup
	for i := range callers {
		name := fmt.Sprintf("u%d", i)
		all.Go(func() {
			c := s.Modern(name)
			if i%2 == 0 {
				c = s.Legacy("2025-11-25", name)
			}
			for _, prompt := range []string{"legacy.a", "modern.a", "sse.a", "modern.a"} {
				get(c, prompt, name)
			}
		})
	}
	s.MustReload(text(newPEM + ", " + oldPEM))
	all.Wait()

	legacy.ForgetSeen()
	s.Modern("").Call("prompts/get", gatewaytest.GetParams("legacy.a")).Want(t, http.StatusOK, `"for error: `)
	get(s.Modern("u7"), "legacy.a", "u7")
	if seen := legacy.Calls("prompts/get"); len(seen) != 2 || seen[0].Header[assertionHeader] != nil || seen[1].Header[assertionHeader] == nil {
		t.Errorf("gets of an anonymous caller and of u7: %v", seen)
	}
	for _, p := range []*upstreamtest.Peer{legacy.Peer, modern.Peer, sse} {
		for _, method := range []string{"initialize", "prompts/list", "notifications/initialized", "subscriptions/listen"} {
			for _, r := range p.Seen(method) {
				if r.Header[assertionHeader] != nil {
					t.Errorf("the gateway's own %s names a caller", method)
				}
			}
		}
	}
	// The server gets the keys from here.
	a := gatewaytest.Send(t, http.MethodGet, strings.TrimSuffix(s.URL, "/mcp")+"/.well-known/jwks.json", "", nil)
	a.Want(t, http.StatusOK)
	var set jose.JSONWebKeySet
	if err := json.Unmarshal([]byte(a.Body), &set); err != nil || len(set.Keys) != 2 || !newKey.Equal(set.Keys[0].Key) || !oldKey.Equal(set.Keys[1].Key) {
		t.Errorf("%v: key set %s", err, a.Body)
	}
}

// A team's server cannot pass on what it was sent to the server of another team.
func TestAssertions_OfOneTeamsServerAreRefusedAtAnothers(t *testing.T) {
	key, text := newAssertionKey(t)
	one, two := gatewaytest.NewPeer(t, "one", "a"), gatewaytest.NewPeer(t, "two", "a")
	one.Settings, two.Settings = "assertion {}", "assertion {}"
	cfg := "gateway {\n public_url = \"https://p.example.com\"\n signing_keys = [" + text + "]\n}\nauth {\n" + gatewaytest.Token("ann") + "}\n"
	s := gatewaytest.Serve(t, cfg+gatewaytest.Team("a", `"user:ann"`, "", one)+gatewaytest.Team("b", `"user:ann"`, "", two))
	s.Modern("ann").Call("prompts/get", gatewaytest.GetParams("one.a")).Want(t, http.StatusOK)
	keys, sent := []ed25519.PublicKey{key}, one.Calls("prompts/get")[0].Header.Get(assertionHeader)
	upstreamtest.Equal(t, "ann", (verifier{keys, one.URL}).subject(sent), "the subject that its own server learns")
	if got := (verifier{keys, two.URL}).subject(sent); !strings.HasPrefix(got, "error: ") {
		t.Errorf("another team's server learns %q", got)
	}
	gatewaytest.Send(t, http.MethodGet, strings.TrimSuffix(gatewaytest.Serve(t, "").URL, "/mcp")+"/.well-known/jwks.json", "", nil).Want(t, http.StatusNotFound)
}

// Gets, completions and reads name their caller. The gateway's own requests do not.
func TestAssertions_GoWithTheRequestsOfCallers(t *testing.T) {
	_, text := newAssertionKey(t)
	p := linkPeer(t, "p", "memo:a.md")
	p.Settings += "\nassertion {}"
	p.Declare(`{"prompts":{},"resources":{},"completions":{}}`)
	s := gatewaytest.Serve(t, "gateway {\n public_url = \"https://p.example.com\"\n signing_keys = ["+text+"]\n}\nauth {\n"+gatewaytest.Token("ann")+"}\n"+
		gatewaytest.Team("eng", `"user:ann"`, "", p))
	ann := s.Modern("ann")
	ann.Call("resources/read", uriParams(link(t, ann, "p.p"))).Want(t, http.StatusOK)
	ann.Call("completion/complete", gatewaytest.CompleteParams("p.p"))
	for method, want := range map[string]bool{"prompts/get": true, "completion/complete": true, "resources/read": true, "prompts/list": false, "initialize": false} {
		calls := p.Calls(method)
		if len(calls) == 0 || (calls[0].Header.Get(assertionHeader) != "") != want {
			t.Errorf("%s: %v, want an assertion: %t", method, calls, want)
		}
	}
}

// A get whose assertion no server would read fails, and says why.
func TestAssertions_TooLargeFailsTheGet(t *testing.T) {
	_, text := newAssertionKey(t)
	p := gatewaytest.NewPeer(t, "p", "a")
	p.Settings = "assertion { claims = [\"groups\"] }"
	var groups []string
	for i := range 200 {
		groups = append(groups, fmt.Sprintf("a-group-with-a-long-name-%d", i))
	}
	s := gatewaytest.Serve(t, "gateway {\n public_url = \"https://p.example.com\"\n signing_keys = ["+text+"]\n}\nauth {\n"+
		gatewaytest.Token("ann", groups...)+"}\n"+gatewaytest.Team("eng", `"user:ann"`, "", p))
	s.Modern("ann").Call("prompts/get", gatewaytest.GetParams("p.a")).Want(t, http.StatusOK, `"code":-32603`, "too large for a header")
	if got := p.Calls("prompts/get"); len(got) != 0 {
		t.Errorf("the server got %v", got)
	}
}
