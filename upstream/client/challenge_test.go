package client

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAuthParameters_ReadsChallenge(t *testing.T) {
	for text, want := range map[string]map[string]string{
		``:                                {},
		`a=b`:                             {"a": "b"},
		`A = b , c="d, e"`:                {"a": "b", "c": "d, e"},
		`a="b\"c\\",d=`:                   {"a": `b"c\`, "d": ""},
		`a="b`:                            {"a": "b"},
		`a="b\`:                           {"a": "b\\"},
		`scope="x y", error="invalid", z`: {"scope": "x y", "error": "invalid"},
	} {
		if diff := cmp.Diff(want, authParameters(text)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

// FuzzChallenge checks that reading any challenge ends.
func FuzzChallenge(f *testing.F) {
	f.Add(`realm="a, \"b\"", resource_metadata="https://x", scope=mcp`)
	f.Add(`a="\`)
	f.Fuzz(func(_ *testing.T, text string) { authParameters(text) })
}
