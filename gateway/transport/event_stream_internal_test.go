package transport

import (
	"testing"

	"github.com/promptweir/promptweir/gateway/catalog"
)

func TestEventIDs_AreAboutTheirView(t *testing.T) {
	old, changed := catalog.Fingerprint{1}, catalog.Fingerprint{2}
	ids := eventIDs{stream: "s"}
	first, second := ids.next(changed), ids.next(changed)
	if !isAbout(second, changed) || isAbout(second, old) || first == second {
		t.Errorf("after %q, the view has the id %q", first, second)
	}
}
