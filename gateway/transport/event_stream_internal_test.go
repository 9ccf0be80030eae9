package transport

import (
	"testing"
	"time"

	"github.com/promptweir/promptweir/gateway/catalog"
)

type discard struct{}

func (discard) Write(p []byte) (int, error)      { return len(p), nil }
func (discard) SetWriteDeadline(time.Time) error { return nil }
func (discard) Flush() error                     { return nil }

// An event is written at once, from one buffer.
func TestEventStream_AllocatesOncePerEvent(t *testing.T) {
	out, data := &eventStream{w: discard{}, control: discard{}}, make([]byte, 300)
	if got := testing.AllocsPerRun(100, func() { out.event("0123456789abcdef.1.0123", data) }); got > 1 {
		t.Errorf("an event allocates %v times, want once", got)
	}
}

// A client that was told of a view which not every replica serves yet may have listed the older one
// there: wherever it resumes, it is told again.
func TestEventIDs_OfAnUnsettledViewAreAboutNone(t *testing.T) {
	old, changed := catalog.Fingerprint{1}, catalog.Fingerprint{2}
	ids := eventIDs{stream: "s"}
	unsettled, settled := ids.next(changed, false), ids.next(changed, true)
	for _, view := range []catalog.Fingerprint{old, changed, {}} {
		if isAbout(unsettled, view) {
			t.Errorf("%q is about %v", unsettled, view)
		}
	}
	if !isAbout(settled, changed) || isAbout(settled, old) || settled == unsettled {
		t.Errorf("after %q, the settled view has the id %q", unsettled, settled)
	}
}
