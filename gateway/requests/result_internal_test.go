package requests

import (
	"bytes"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/wire"
)

// respond returns the response that a request gets with an upstream's result.
func respond(t *testing.T, r *Request, revision, result string) *Response {
	t.Helper()
	x := newRun(r, &Scope{})
	passed, err := x.passedOn(upstream.Result{JSON: jsontext.Value(result), Revision: revision}, inputNotAllowed)
	if err != nil {
		t.Fatal(err)
	}
	out := x.encode([]byte("head "), passed, serverInfo("1"))
	out.JSON = append(out.JSON, " tail"...)
	return &out
}

func TestParts_JoinedAreTheWholeResponse(t *testing.T) {
	large := strings.Repeat("x", minLarge)
	for name, result := range map[string]string{
		"small":             `{"messages":[]}`,
		"large":             `{"messages":["` + large + `"],"a":1}`,
		"two large members": `{"messages":["` + large + `"],"other":"` + large + `"}`,
	} {
		for _, from := range []string{wire.LatestLegacy, wire.Rev20260728} {
			for _, to := range []string{wire.LatestLegacy, wire.Rev20260728} {
				whole := respond(t, &Request{Revision: to}, from, result)
				if parts := whole.Parts(); len(parts) != 1 || !bytes.Equal(parts[0], whole.JSON) {
					t.Errorf("%s from %s to %s: %d parts, want one unless the transport can write more", name, from, to, len(parts))
				}
				parts := respond(t, &Request{Revision: to, InParts: true}, from, result).Parts()
				upstreamtest.Equal(t, map[bool]int{true: 1, false: 3}[name == "small"], len(parts), "%s from %s to %s: parts", name, from, to)
				if got := bytes.Join(parts, nil); !bytes.Equal(got, whole.JSON) {
					t.Errorf("%s from %s to %s: the parts joined are %.200s, want %.200s", name, from, to, got, whole.JSON)
				}
			}
		}
	}
}

func TestParts_DoNotCopyALargeResult(t *testing.T) {
	result := []byte(`{"messages":["` + strings.Repeat("x", minLarge) + `"]}`)
	out := newRun(&Request{Revision: wire.LatestLegacy, InParts: true}, &Scope{}).encode([]byte("head "), Result{JSON: result}, serverInfo("1"))
	out.JSON = append(out.JSON, " tail"...)
	parts := out.Parts()
	if len(parts) != 3 || string(parts[0]) != "head " || &parts[1][0] != &result[0] || string(parts[2]) != " tail" {
		t.Errorf("%d parts, want the head, the memory of the result itself, and the tail", len(parts))
	}
}
