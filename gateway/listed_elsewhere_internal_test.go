package gateway

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/snapshot"
)

func TestLists_AreReadAsTheyWereWritten(t *testing.T) {
	changes := []snapshot.ListChange{{}, {Upstream: "eng", Content: catalog.Fingerprint{1, 2, 15: 3}}, {Upstream: strings.Repeat("x", 255)}}
	message := encodeLists(append(changes, snapshot.ListChange{Upstream: strings.Repeat("x", 256)}))
	got, ok := decodeLists(message)
	if diff := cmp.Diff(changes, got); !ok || diff != "" {
		t.Errorf("ok %t (-want +got):\n%s", ok, diff)
	}
	for i := 1; i < len(message); i++ { // never more than is there
		if got, ok := decodeLists(message[:i]); ok && len(encodeLists(got)) != i {
			t.Errorf("%d bytes are read as %d lists", i, len(got))
		}
	}
}
