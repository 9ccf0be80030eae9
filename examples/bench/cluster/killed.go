//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

const (
	// killInterval is how often a replica is killed, and absence how long it is away until something starts it again.
	killInterval, absence = 5 * time.Second, 500 * time.Millisecond
	// blur is how exactly the rig knows when a request began, and a process ended: clients, HAProxy and gateways share the machine.
	blur = 100 * time.Millisecond
)

// checkKilledReplicas kills replicas at random under load, and starts them again. Lost are only requests that were in flight there.
func checkKilledReplicas(ctx context.Context, w *world, s *settings) (string, error) {
	t := w.beginTraffic(ctx, 200, 300, true)
	length := 2 * time.Minute
	if s.short {
		length = 20 * time.Second
	}
	until := time.Now().Add(length)
	var (
		kills  []kill
		failed error
	)
	for failed == nil && time.Now().Add(killInterval).Before(until) {
		one, err := w.killOne(ctx)
		kills, failed = append(kills, one), err
		time.Sleep(killInterval - time.Since(one.began))
	}
	from, to := t.began.Add(time.Second), time.Now() // after the burst
	seen, err := t.stop()
	failed = errors.Join(failed, err)
	all := append(append([]got{}, seen.free...), seen.limited...)
	inFlight, lost := 0, 0
	for _, g := range all {
		cut := slices.ContainsFunc(kills, func(k kill) bool { return g.began.Before(k.ended.Add(blur)) && g.began.Add(g.took).After(k.began) })
		isLost := len(failures([]got{g})) > 0
		if cut {
			inFlight++
		}
		if isLost {
			lost++
		}
		if isLost && !cut {
			failed = errors.Join(failed, fmt.Errorf("a get was lost that was not in flight when a replica was killed: %w", g.err))
		}
	}
	var limited []got
	for _, g := range seen.limited {
		if len(failures([]got{g})) == 0 {
			limited = append(limited, g)
		}
	}
	held, err := s.rateWithin(limited, from, to, rate, tolerance)
	return fmt.Sprintf("%d kills: %s; %d gets lost, of %d in flight around one; %s", len(kills), seen, lost, inFlight, held), errors.Join(failed, err)
}

// kill is when a replica was killed, and when it had ended.
type kill struct{ began, ended time.Time }

// killOne kills a replica, and starts it again.
func (w *world) killOne(ctx context.Context) (kill, error) {
	i := rand.IntN(len(w.gateways))
	listen, admin := addresses(w.gateways[i])
	k := kill{began: time.Now()}
	err := w.gateways[i].Kill()
	k.ended = time.Now()
	if err != nil {
		return k, err
	}
	time.Sleep(absence)
	next, err := w.startGateway(ctx, listen, admin, w.plain.block())
	if err == nil {
		w.gateways[i] = next
	}
	return k, err
}
