package upstream_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/wire"
)

func TestConnector_MasksSecretsThatAServerRepeats(t *testing.T) {
	t.Parallel()
	for kind, format := range map[string]string{
		"the name of a member":        `{"jsonrpc":"2.0","id":%s,"result":{"%s":1,"%[2]s":2}}`,
		"a long name":                 `{"jsonrpc":"2.0","id":%s,"result":{"%s` + strings.Repeat("x", 500) + `":1,"%[2]s` + strings.Repeat("x", 500) + `":2}}`,
		"the message of an error":     `{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"%s is not valid"}}`,
		"a bad request without an id": `{"jsonrpc":"2.0","error":{"code":-32000,"message":"%[2]s is not valid, %[1]s"}}`,
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				request, err := wire.ParseObject(body)
				if err != nil {
					http.Error(w, "", http.StatusMethodNotAllowed)
					return
				}
				w.Header().Set("Content-Type", "application/json")
				if strings.Contains(kind, "bad request") {
					w.WriteHeader(http.StatusBadRequest)
				}
				fmt.Fprintf(w, format, request.Get("id"), r.Header.Get("X-Key"))
			}))
			t.Cleanup(server.Close)
			u := upstreamtest.HTTP("repeating", server.URL)
			u.Headers = map[string]config.Secret{"X-Key": config.NewSecret("hunter2-" + strings.Repeat("k", 100))}
			c, log := startLogged(t, u)
			upstreamtest.Eventually(t, "it is down", func() bool { return c.State().Problem != nil })
			upstreamtest.Eventually(t, "that is logged", func() bool { return strings.Contains(log.String(), "upstream down") })
			for _, shown := range []string{log.String(), c.State().Problem.Err.Error()} {
				if strings.Contains(shown, "hunter2") || !strings.Contains(shown, "(sensitive)") {
					t.Errorf("a secret shows, or the error does not: %s", shown)
				}
			}
		})
	}
}
