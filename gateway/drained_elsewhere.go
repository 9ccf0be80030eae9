package gateway

import (
	"bytes"
	"context"
	"encoding/binary"
	"maps"
	"slices"
	"sync"
	"time"
)

// What an operator does to an upstream at one replica is announced to all, and holds as long as one of them lives: those that know it
// announce it again and again, for replicas that are started later or have missed it. Some seconds after the last one has ended, it is
// forgotten. Whatever was done last counts, so that replicas agree in whichever order they hear.

const (
	// topicDrains is what replicas announce drains under.
	topicDrains = "drains"
	// renewDrainsInterval is how often drains are announced again, by one of the replicas, and every second time at least. drainLasts is
	// how long they are kept for replicas that are started.
	renewDrainsInterval, drainLasts = 2 * time.Second, 10 * time.Second
	// drainBound bounds how long a drain that another replica announced may take.
	drainBound = 10 * time.Second
)

// sharedDrains are what operators have done last to upstreams, at whichever replica. The zero value is ready.
type sharedDrains struct {
	mu   sync.Mutex             // guards what follows, and is held while an upstream is drained or let serve again
	last map[string]sharedDrain // by label

	// renewed is what was announced last for all upstreams, and heard says that it has come back, from whichever replica.
	renewed []byte
	heard   bool
}

// sharedDrain is what was done to an upstream, and when.
type sharedDrain struct {
	at      time.Time
	drained bool
}

// setLocked notes what was done to an upstream.
func (d *sharedDrains) setLocked(label string, done sharedDrain) {
	if d.last == nil {
		d.last = map[string]sharedDrain{}
	}
	d.last[label] = done
}

// drainEverywhere takes an upstream out of service, or lets it serve again, at this replica and all others, see
// [snapshot.Publisher.SetDrained].
func (g *Gateway) drainEverywhere(ctx context.Context, label string, drained bool) (since time.Time, err error) {
	if g.cluster == nil {
		return g.publisher.SetDrained(ctx, label, drained)
	}
	since, done, err := g.drainHere(ctx, label, drained)
	if err == nil {
		g.cluster.Announce(topicDrains, done.append(nil, label))
	}
	return since, err
}

func (g *Gateway) drainHere(ctx context.Context, label string, drained bool) (since time.Time, done sharedDrain, err error) {
	g.drains.mu.Lock()
	defer g.drains.mu.Unlock()
	if since, err = g.publisher.SetDrained(ctx, label, drained); err != nil {
		return since, done, err
	}
	done = sharedDrain{time.Now().Round(0), drained}               // without the monotonic clock, which others do not share
	if before := g.drains.last[label].at; !done.at.After(before) { // another replica's clock is ahead
		done.at = before.Add(1)
	}
	g.drains.setLocked(label, done)
	return since, done, nil
}

// hearDrains does what operators have done to upstreams at another replica. An upstream that the configuration here does not have may
// come with its next one.
func (g *Gateway) hearDrains(message []byte) {
	g.drains.mu.Lock()
	defer g.drains.mu.Unlock()
	if bytes.Equal(message, g.drains.renewed) {
		g.drains.heard = true
		return
	}
	for len(message) > 0 {
		label, done, rest, ok := cutDrain(message)
		if !ok {
			return
		}
		message = rest
		if !done.at.After(g.drains.last[label].at) {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), drainBound)
		if _, err := g.publisher.SetDrained(ctx, label, done.drained); err == nil {
			g.drains.setLocked(label, done)
		}
		cancel()
	}
}

// renewDrains announces again what operators have done to upstreams, until ctx ends.
func (g *Gateway) renewDrains(ctx context.Context) {
	ticker := time.NewTicker(renewDrainsInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if all := g.drainsToRenew(); len(all) > 0 && g.cluster.State().Here {
				g.cluster.Announce(topicDrains, all)
			}
		case <-ctx.Done():
			return
		}
	}
}

// drainsToRenew returns what is to be announced again; nothing if that was done meanwhile.
func (g *Gateway) drainsToRenew() (all []byte) {
	g.drains.mu.Lock()
	defer g.drains.mu.Unlock()
	s := g.Snapshot()
	for _, label := range slices.Sorted(maps.Keys(g.drains.last)) {
		// A drain that a reload has ended here, because it has removed the name, is for others to renew.
		if done := g.drains.last[label]; !done.drained || s.Drained(label) {
			all = done.append(all, label)
		}
	}
	heard := g.drains.heard && bytes.Equal(all, g.drains.renewed)
	g.drains.renewed, g.drains.heard = all, false
	if heard {
		return nil
	}
	return all
}

// append appends what was done to an upstream: the time in nanoseconds, whether it is drained, and the label with its length.
func (d sharedDrain) append(message []byte, label string) []byte {
	message = binary.BigEndian.AppendUint64(message, uint64(d.at.UnixNano()))
	state := byte(0)
	if d.drained {
		state = 1
	}
	return append(binary.BigEndian.AppendUint32(append(message, state), uint32(len(label))), label...)
}

// cutDrain reads what [sharedDrain.append] has written, and returns what follows it.
func cutDrain(message []byte) (label string, done sharedDrain, rest []byte, ok bool) {
	const size = 8 + 1 + 4
	if len(message) < size {
		return "", done, nil, false
	}
	done = sharedDrain{time.Unix(0, int64(binary.BigEndian.Uint64(message))), message[8] == 1}
	length := binary.BigEndian.Uint32(message[9:])
	if message = message[size:]; uint64(len(message)) < uint64(length) {
		return "", done, nil, false
	}
	return string(message[:length]), done, message[length:], true
}
