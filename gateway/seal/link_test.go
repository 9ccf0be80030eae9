package seal_test

import (
	"errors"
	"testing"

	"github.com/promptweir/promptweir/gateway/seal"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// The seal of a link is one-to-one, the same on every replica, and opens for its principal alone, with any key of the
// ring. Nothing else opens as a link.
func FuzzLink(f *testing.F) {
	one, other, foreign := sealer(f, key(1)), sealer(f, key(2), key(1)), sealer(f, key(3))
	f.Add("user:ann", "user:bob", "billing", "billing.review", "file:///a")
	f.Add("i user:ann", "i user:anna", "", "", "")
	f.Add("user:ann", "user:ann ", "ab", "c", "memo://x/\x00\xff")
	f.Fuzz(func(t *testing.T, principal, stranger, owner, prompt, uri string) {
		if len(owner) > 1000 || len(prompt) > 1000 {
			t.Skip("no label or name is that long")
		}
		link := seal.Link{Owner: owner, Prompt: prompt, URI: uri}
		token := one.SealLink(principal, link)
		upstreamtest.Equal(t, token, one.SealLink(principal, link), "the second seal of the link")
		if opened, err := other.OpenLink(principal, token); err != nil || opened != link {
			t.Errorf("%+v opens as %+v, %v", link, opened, err)
		}
		if _, err := foreign.OpenLink(principal, token); !errors.Is(err, seal.ErrExpiredKey) {
			t.Errorf("another key: %v", err)
		}
		if opened, err := one.OpenLink(stranger, token); stranger != principal && !errors.Is(err, seal.ErrWrongPrincipal) {
			t.Errorf("another principal: %+v, %v", opened, err)
		}
		for _, twin := range []seal.Link{{Owner: owner + prompt, URI: uri}, {Owner: owner, URI: prompt + uri}, {Prompt: owner + prompt, URI: uri}} {
			if twin != link && one.SealLink(principal, twin) == token {
				t.Errorf("%+v is sealed like %+v", twin, link)
			}
		}
		if _, err := one.OpenCursor("prompts/list", principal, token); err == nil {
			t.Error("it opens as a cursor")
		}
		if opened, err := one.OpenLink(principal, one.SealCursor("prompts/list", principal, uri)); err == nil {
			t.Errorf("a cursor opens as %+v", opened)
		}
		if opened, err := one.OpenLink(principal, uri); err == nil && one.SealLink(principal, opened) != uri {
			t.Errorf("%q opens as %+v", uri, opened)
		}
	})
}

func TestOpenLink_RefusesWhatIsNoLink(t *testing.T) {
	s := sealer(t, key(1))
	box := s.For("link")
	for _, content := range []string{"", "\x01", "\x02aaaaaaaaaaaaaaaa\x00\x00\x00\x00", "\x01aaaaaaaaaaaaaaaa\x00\x00\x00"} {
		if opened, err := s.OpenLink("user:ann", box.Seal([]byte(content))); !errors.Is(err, seal.ErrMalformed) {
			t.Errorf("%q opens as %+v, %v", content, opened, err)
		}
	}
}
