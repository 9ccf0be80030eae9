package gateway

import (
	"testing"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/policy"
)

// A when may tell every token from every other, and tokens are new all the time while the catalog stays.
func TestViewsOfAudiencesThatAreForgottenAreForgotten(t *testing.T) {
	g, err := New(&config.Config{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	e := g.edition.Load()
	var last *policy.Audience
	for range maxViews + 10 {
		last = new(policy.Audience)
		e.view(last)
	}
	if n := e.views.Len(); n != maxViews {
		t.Errorf("%d views are kept, want %d", n, maxViews)
	}
	next := e.next(e.snapshot, e.states)
	if kept, ok := next.views.Peek(last); !ok || kept != e.audienceView(last) || next.views.Len() != maxViews {
		t.Errorf("of %d views the next edition has %d, and not that of who asked last", maxViews, next.views.Len())
	}
}
