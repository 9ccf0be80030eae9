package upstream_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/wire"
)

func TestProbe_DecidesTheEraOverHTTP(t *testing.T) {
	t.Parallel()
	unsupported := func(supported string) string {
		return `{"code":-32022,"message":"unsupported","data":{"supported":` + supported + `,"requested":"2026-07-28"}}`
	}
	for name, test := range map[string]struct {
		status int
		err    string // "" for a text
		want   any    // revision or reason
	}{
		"500":                       {500, "", wire.Rev20251125},
		"404":                       {404, "", wire.Rev20251125},
		"405":                       {405, "", wire.Rev20251125},
		"202":                       {202, "", wire.Rev20251125},
		"200 and a text":            {200, "", wire.Rev20251125},
		"400, -32000":               {400, `{"code":-32000,"message":"no session"}`, wire.Rev20251125},
		"400, -32602":               {400, `{"code":-32602,"message":"initialize first"}`, wire.Rev20251125},
		"500, -32603":               {500, `{"code":-32603,"message":"?"}`, wire.Rev20251125},
		"200, -32601":               {200, `{"code":-32601,"message":"unknown"}`, wire.Rev20251125},
		"200, 0":                    {200, `{"code":0,"message":"unknown"}`, wire.Rev20251125},
		"-32022, legacy supported":  {400, unsupported(`["2025-11-25","2025-06-18"]`), wire.Rev20251125},
		"-32022, nothing":           {400, `{"code":-32022,"message":"unsupported"}`, wire.Rev20251125},
		"-32022, modern supported":  {400, unsupported(`["2026-07-28","2025-06-18"]`), upstream.BadResponse},
		"-32020":                    {400, `{"code":-32020,"message":"header mismatch"}`, upstream.BadResponse},
		"-32021":                    {400, `{"code":-32021,"message":"capability"}`, upstream.BadResponse},
		"401":                       {401, "", upstream.Denied},
		"403":                       {403, "", upstream.Denied},
		"401, and a JSON-RPC error": {401, `{"code":-32001,"message":"who are you"}`, upstream.Denied},
		"429":                       {429, "", upstream.RateLimited},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			peer := upstreamtest.NewPeer(t)
			if test.err == "" {
				peer.Status(wire.Discover, test.status)
			} else {
				peer.Error(wire.Discover, test.status, test.err)
			}
			c := startTried(t, upstreamtest.HTTP("probed", upstreamtest.Serve(t, peer).URL))
			state := c.State()
			if revision, ok := test.want.(string); ok {
				if state.Revision != revision || !state.Listed {
					t.Errorf("State() = %+v, problem %+v, want %s", state, state.Problem, revision)
				}
				return
			}
			if state.Problem == nil || state.Problem.Reason != test.want || len(peer.Seen(wire.Initialize)) > 0 {
				t.Errorf("State() = %+v, problem %+v, want %s and no handshake", state, state.Problem, test.want)
			}
		})
	}
}

// object parses a JSON object.
func object(t *testing.T, text string) wire.Object {
	t.Helper()
	o, err := wire.ParseObject([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestHTTP_FollowsNoRedirectAndShowsNoSecret(t *testing.T) {
	t.Parallel()
	elsewhere := upstreamtest.NewPeer(t)
	target := upstreamtest.Serve(t, elsewhere).URL
	for _, status := range []int{301, 302, 303, 307, 308} {
		redirecting := upstreamtest.Serve(t, http.RedirectHandler(target, status))
		u := upstreamtest.HTTP("redirecting", redirecting.URL+"/?key=s3cret")
		u.Headers = map[string]config.Secret{"Authorization": config.NewSecret("Bearer s3cret")}
		c, log := startLogged(t, u)
		upstreamtest.Eventually(t, "a first try", func() bool { return c.State().Tried })
		redirecting.Down()
		_, err := get(t.Context(), c, "p")
		for _, text := range []string{log.String(), c.State().Problem.Err.Error(), err.Error()} {
			if strings.Contains(text, "s3cret") {
				t.Errorf("told: %s", text)
			}
		}
		wantLogged(t, log, "redirects are not followed")
	}
	wantSeen(t, elsewhere, http.MethodPost, 0)
	down := upstreamtest.Serve(t, elsewhere)
	down.Down()
	_, err := client.Connect(t.Context(), upstreamtest.HTTP("down", down.URL+"/s3cret"), upstream.Options{})
	if err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("Connect() = %v", err)
	}
}
