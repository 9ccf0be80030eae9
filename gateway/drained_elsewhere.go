package gateway

import (
	"context"
	"encoding/binary"
	"sync"
	"time"
)

// topicDrain is what replicas announce an operator's drains under.
const topicDrain = "drain"

// drainBound bounds how long a drain that another replica announced may take.
const drainBound = 10 * time.Second

// sharedDrains are when operators have drained upstreams last, or let them serve again, at whichever replica. The zero value is
// ready.
type sharedDrains struct {
	mu   sync.Mutex           // guards last
	last map[string]time.Time // by label
}

// after returns a time for what is done to an upstream now, later than before whatever another replica's clock says.
func (d *sharedDrains) after(label string) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	if last := d.last[label]; !now.After(last) {
		now = last.Add(1)
	}
	d.setLocked(label, now)
	return now
}

// isNews reports whether what was done to an upstream at a time is not known here, or outdated.
func (d *sharedDrains) isNews(label string, at time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !at.After(d.last[label]) {
		return false
	}
	d.setLocked(label, at)
	return true
}

func (d *sharedDrains) setLocked(label string, at time.Time) {
	if d.last == nil {
		d.last = map[string]time.Time{}
	}
	d.last[label] = at
}

// shareDrain tells the other replicas what an operator has done to an upstream here.
func (g *Gateway) shareDrain(label string, drained bool) {
	if g.cluster == nil {
		return
	}
	message := binary.BigEndian.AppendUint64(nil, uint64(g.drains.after(label).UnixNano()))
	state := byte(0)
	if drained {
		state = 1
	}
	g.cluster.Announce(topicDrain, append(append(message, state), label...))
}

// hearDrain does what an operator has done to an upstream at another replica. That the configuration here has no such upstream is
// for that replica to say.
func (g *Gateway) hearDrain(message []byte) {
	const size = 9
	if len(message) <= size {
		return
	}
	at, drained, label := time.Unix(0, int64(binary.BigEndian.Uint64(message))), message[size-1] == 1, string(message[size:])
	if !g.drains.isNews(label, at) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), drainBound)
	defer cancel()
	_, _ = g.publisher.SetDrained(ctx, label, drained) // or the gateway ends
}
