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

func TestEventIDs_AreAboutTheirView(t *testing.T) {
	old, changed := catalog.Fingerprint{1}, catalog.Fingerprint{2}
	ids := eventIDs{stream: "s"}
	first, second := ids.next(changed), ids.next(changed)
	if !isAbout(second, changed) || isAbout(second, old) || first == second {
		t.Errorf("after %q, the view has the id %q", first, second)
	}
}
