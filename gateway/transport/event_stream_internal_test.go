package transport

import (
	"testing"
	"time"
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
