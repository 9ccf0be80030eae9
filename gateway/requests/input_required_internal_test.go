package requests

import (
	"testing"

	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/wire"
)

func TestParamsDigest_TellsParamsApart(t *testing.T) {
	digest := func(text string) string {
		params, err := wire.ParseObject([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return paramsDigest(params)
	}
	const params = `{"name":"a","context":{"id":9007199254740993}}`
	for text, same := range map[string]bool{
		`{"context":{"id":9007199254740993},"name":"\u0061","_meta":{"n":1},"requestState":"s","inputResponses":{}}`: true,
		`{"name":"a","context":{"id":9007199254740992}}`:                                                             false, // equal as a float64
		`{"name":"b","context":{"id":9007199254740993}}`:                                                             false,
		`{"name":"a"}`: false,
	} {
		upstreamtest.Equal(t, same, digest(text) == digest(params), "%s has the digest of %s", text, params)
	}
}
