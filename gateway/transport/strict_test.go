package transport_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
)

func TestHTTP_ReadsMessagesStrictly(t *testing.T) {
	s := gatewaytest.Serve(t, ``)
	c := s.Legacy("2025-11-25", "")
	refuse := func(body, code string, more ...string) {
		t.Helper()
		a := gatewaytest.Send(t, http.MethodPost, c.URL, body, c.Headers)
		a.Want(t, http.StatusBadRequest, append(more, `"code":`+code)...)
		gatewaytest.CheckSchema(t, "2025-11-25", "", a.Body)
	}
	const head = `{"jsonrpc":"2.0","id":1,"method":"ping"`
	refuse(``, "-32700")
	refuse(head+`,"method":"prompts/list"}`, "-32700")
	refuse(head+`}`+head+`}`, "-32700")
	refuse(`[`+head+`}]`, "-32600", "Batches")
	refuse(`[]`, "-32600")
	refuse(`{"jsonrpc":"1.0","id":"a","method":"ping"}`, "-32600", `"id":"a"`)
	refuse(`{"jsonrpc":"2.0","id":7,"method":"ping","params":[7]}`, "-32600", `"id":7`)
	refuse(`{"jsonrpc":"2.0","id":7}`, "-32600")
	large := head + `,"params":{"a":"` + strings.Repeat("x", 4<<20) + `"}}`
	gatewaytest.Send(t, http.MethodPost, c.URL, large, c.Headers).Want(t, http.StatusRequestEntityTooLarge, "too large")
	fits := head + `,"params":{"a":"` + strings.Repeat("x", 3<<20) + `"}}`
	gatewaytest.Send(t, http.MethodPost, c.URL, fits, c.Headers).Want(t, http.StatusOK)
}

// malformed are texts in place of a JSON value whose meaning no reader may guess.
var malformed = map[string]string{ //nolint:gochecknoglobals // a constant table
	"a duplicate member":              `{"a":1,"a":2}`,
	"a duplicate in another spelling": `{"a":1,"\u0061":2}`,
	"a duplicate deep inside":         `[[{"x":{"b":1,"b":1}}]]`,
	"invalid UTF-8":                   "\"\xff\"",
	"half a character":                "\"\xe2\x82\"",
	"an encoded surrogate":            "\"\xed\xa0\x80\"",
	"a lone surrogate":                `"\ud800"`,
	"surrogates the wrong way round":  `"\ude00\ud83d"`,
	"a lone surrogate in a name":      `{"\udc00":1}`,
	"NaN":                             `NaN`,
	"infinity":                        `-Infinity`,
	"a leading zero":                  `01`,
	"a plus sign":                     `+1`,
	"a hexadecimal number":            `0x10`,
	"a comma at the end":              `[1,]`,
	"a comment":                       `/* x */ 1`,
	"single quotes":                   `'x'`,
	"a name without quotes":           `{a:1}`,
	"a control character":             "\"\x01\"",
	"nothing":                         ``,
	"an end too few":                  `{"a":[1]`,
	"too deep":                        strings.Repeat("[", 127) + strings.Repeat("]", 127),
}

// deepest is a value of the greatest depth allowed in place of the malformed ones.
var deepest = strings.Repeat("[", 125) + strings.Repeat("]", 125) //nolint:gochecknoglobals // a constant

// Upstreams respond with texts that clients may not send either. None reaches a client.
func TestUpstream_MalformedResponseReachesNobody(t *testing.T) {
	t.Parallel()
	for _, p := range []*gatewaytest.Peer{gatewaytest.NewPeer(t, "p", "a"), gatewaytest.NewModernPeer(t, "p", "a")} {
		p.Settings = "max_message = 100000\nbreaker { failures = 1000 }" // responses that break off would open it
		s := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", p))
		bodies := map[string]string{
			"a batch":                `[{"jsonrpc":"2.0","id":%ID%,"result":{}}]`,
			"two documents":          `{"jsonrpc":"2.0","id":%ID%,"result":{}}{"jsonrpc":"2.0","id":%ID%,"result":{}}`,
			"another version":        `{"jsonrpc":"1.0","id":%ID%,"result":{}}`,
			"no version":             `{"id":%ID%,"result":{}}`,
			"another id":             `{"jsonrpc":"2.0","id":"other","result":{}}`,
			"an id of another type":  `{"jsonrpc":"2.0","id":"%ID%","result":{}}`,
			"no id":                  `{"jsonrpc":"2.0","result":{}}`,
			"neither":                `{"jsonrpc":"2.0","id":%ID%}`,
			"both":                   `{"jsonrpc":"2.0","id":%ID%,"result":{},"error":{"code":1,"message":"secret"}}`,
			"a result of text":       `{"jsonrpc":"2.0","id":%ID%,"result":"secret"}`,
			"a result of null":       `{"jsonrpc":"2.0","id":%ID%,"result":null}`,
			"a list as the result":   `{"jsonrpc":"2.0","id":%ID%,"result":["secret"]}`,
			"an error of text":       `{"jsonrpc":"2.0","id":%ID%,"error":"secret"}`,
			"an error without code":  `{"jsonrpc":"2.0","id":%ID%,"error":{"message":"secret"}}`,
			"an error with a half":   `{"jsonrpc":"2.0","id":%ID%,"error":{"code":1.5,"message":"secret"}}`,
			"an error without words": `{"jsonrpc":"2.0","id":%ID%,"error":{"code":1,"data":"secret"}}`,
			"a request":              `{"jsonrpc":"2.0","id":%ID%,"method":"secret"}`,
			"too much":               `{"jsonrpc":"2.0","id":%ID%,"result":{"secret":"` + strings.Repeat("x", 100_000) + `"}}`,
			"not JSON":               `secret`,
			"nothing":                ``,
		}
		for name, value := range malformed {
			bodies[name+" in a result"] = `{"jsonrpc":"2.0","id":%ID%,"result":{"messages":[],"secret":` + value + `}}`
			bodies[name+" in an error"] = `{"jsonrpc":"2.0","id":%ID%,"error":{"code":-1,"message":"secret","data":{"x":` + value + `}}}`
		}
		for name, body := range bodies {
			for _, contentType := range []string{"application/json", "text/event-stream"} {
				p.OnGet(func(w http.ResponseWriter, _ *http.Request, call gatewaytest.Call) bool {
					w.Header().Set("Content-Type", contentType)
					text := strings.ReplaceAll(body, "%ID%", string(call.ID))
					if contentType == "text/event-stream" {
						text = "data: " + text + "\n\n"
					}
					_, _ = w.Write([]byte(text)) // the gateway may have closed the response
					return true
				})
				for _, c := range []*gatewaytest.Client{s.Modern(""), s.Legacy("2025-06-18", "")} {
					a := c.Call("prompts/get", gatewaytest.GetParams("p.a"))
					explained := strings.Contains(a.Body, `"reason":"bad_response"`) || strings.Contains(a.Body, `"reason":"unreachable"`)
					if a.Status != http.StatusOK || !strings.Contains(a.Body, `"code":-32603`) || !explained || strings.Contains(a.Body, "secret") {
						t.Errorf("%s as %s to %s: status %d, %s, want -32603 with a reason", name, contentType, c.Revision, a.Status, a.Body)
					}
				}
			}
		}
		p.Intercept(nil)
		p.Answer("prompts/get", `{"messages":[],"deep":`+deepest+`}`)
		s.Modern("").CallUnchecked("prompts/get", gatewaytest.GetParams("p.a")).Want(t, http.StatusOK, `"deep":`+deepest)
	}
}

// FuzzPost sends any body. The response is always JSON, and never an internal error.
func FuzzPost(f *testing.F) {
	s := gatewaytest.Serve(f, ``)
	legacy, modern := s.Legacy("2025-11-25", ""), s.Modern("")
	for _, c := range []*gatewaytest.Client{legacy, modern} {
		for method, params := range map[string]string{"prompts/list": "", "prompts/get": gatewaytest.GetParams("a"), "completion/complete": gatewaytest.CompleteParams("a"), "initialize": gatewaytest.InitializeParams("2025-11-25")} {
			body, _ := c.Encode("1", method, params)
			f.Add(body, method)
		}
	}
	f.Add(`[]`, "ping")
	f.Add(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":[]}}`, "")
	f.Fuzz(func(t *testing.T, body, method string) {
		if method == "subscriptions/listen" || strings.Contains(body, "subscriptions") {
			return // the stream would not end
		}
		for _, h := range []gatewaytest.Headers{legacy.Headers, {"Mcp-Protocol-Version", gatewaytest.Latest, "Mcp-Method", method}} {
			ctx, cancel := context.WithCancel(t.Context())
			r := httptest.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/mcp", strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", "application/json, text/event-stream")
			for i := 0; i < len(h); i += 2 {
				r.Header.Set(h[i], h[i+1])
			}
			w := httptest.NewRecorder()
			s.Handler().ServeHTTP(w, r)
			cancel()
			if w.Code >= http.StatusInternalServerError {
				t.Errorf("%q: status %d, %s", body, w.Code, w.Body)
			}
			if w.Header().Get("Content-Type") == "application/json" && !json.Valid(w.Body.Bytes()) {
				t.Errorf("%q: the response %q is not JSON", body, w.Body)
			}
		}
	})
}
