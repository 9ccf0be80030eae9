//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/promptweir/promptweir/examples/bench/internal/process"
)

// tolerance is how far a rate may be from what is configured, alone that of each replica while the store is away, which depends on
// how evenly requests come, and late that over all replicas while they count alone and together in turns.
const (
	tolerance      = 0.05
	toleranceAlone = 0.15
	toleranceLate  = 0.05
)

// offered is how many gets a second of the limited prompt are sent: more than the replicas admit apart.
const offered = 500

func checkRate(ctx context.Context, w *world, s *settings) (string, error) {
	l := w.begin(ctx, "plain.limited", offered)
	time.Sleep(time.Second) // the burst
	from := time.Now()
	time.Sleep(s.length(16 * time.Second))
	to := time.Now()
	gets := l.stop()
	return s.rateWithin(gets, from, to, rate, tolerance)
}

// blurred is how long replicas on a busy machine, where the store is late now and then, may have counted alone at one end of what is watched, which
// is made up for on the other side of it.
const blurred = 300 * time.Millisecond

// rateWithin checks how many gets a second were answered.
func (s *settings) rateWithin(gets []got, from, to time.Time, want, tolerance float64) (string, error) {
	within := between(gets, from, to)
	if err := anyFailure(within); err != nil {
		return "", err
	}
	have := float64(answered(within)) / to.Sub(from).Seconds()
	seen := fmt.Sprintf("%.1f of %.0f gets a second answered, limit %.0f", have, float64(len(within))/to.Sub(from).Seconds(), want)
	least, most := want*(1-tolerance), want*(1+tolerance)
	if s.busy {
		least = want / 2 // a bucket is full where nothing comes for a tenth of a second
		most += (replicas*burst + (replicas-1)*rate*blurred.Seconds()) / to.Sub(from).Seconds()
	}
	if have < least || have > most {
		return seen, fmt.Errorf("%.1f gets a second answered, not %.0f to %.0f", have, least, most)
	}
	return seen, nil
}

// checkConcurrency sends gets one after another over as many connections as there are places, none of which may be refused, and
// over more, of which some must be.
func checkConcurrency(ctx context.Context, w *world, s *settings) (string, error) {
	count := func(connections int) (answered, refused int, err error) {
		var (
			wait sync.WaitGroup
			mu   sync.Mutex
		)
		until := time.Now().Add(s.length(4 * time.Second))
		for range connections {
			wait.Go(func() {
				for time.Now().Before(until) {
					failed := w.get(ctx, "plain.places")
					mu.Lock()
					switch {
					case failed == nil:
						answered++
					case errors.Is(failed, errLimited):
						refused++
					default:
						err = failed
					}
					mu.Unlock()
				}
			})
		}
		wait.Wait()
		return answered, refused, err
	}
	few, refusedOfFew, err := count(places)
	many, refused, errMany := count(10 * places)
	seen := fmt.Sprintf("%d of %d gets refused over %d connections; %d of %d over %d", refusedOfFew, few+refusedOfFew, places, refused, many+refused, 10*places)
	mayBe := 0
	if s.busy { // where the store is late a place is given back a moment later
		mayBe = (few + refusedOfFew) / 20
	}
	if err = errors.Join(err, errMany); err == nil && (refusedOfFew > mayBe || refused == 0) {
		err = errors.New("want none over as many connections as there are places, and some over ten times as many")
	}
	return seen, err
}

// checkCost compares gets with a limit that is counted at the store with gets that a gateway without a cluster counts, and with gets without
// a limit. They take turns, without HAProxy, one at a time and from several connections.
func checkCost(ctx context.Context, w *world, s *settings) (string, error) {
	const bound = 300 * time.Microsecond
	alone, err := process.StartGateway(ctx, w.configurationAlone(), w.program)
	if err != nil {
		return "", err
	}
	defer alone.Stop()
	here, apart := w.at(0), &world{client: w.client, url: strings.TrimSuffix(alone.Endpoint, "/mcp")}
	kinds := []struct {
		at     *world
		prompt string
	}{{here, "plain.counted"}, {apart, "plain.counted"}, {here, "plain.p0000"}}
	var seen []string
	for _, connections := range []int{1, 8} {
		gets := make([][]got, len(kinds))
		for until := time.Now().Add(s.length(16 * time.Second)); time.Now().Before(until); {
			for i, kind := range kinds {
				gets[i] = append(gets[i], getFrom(ctx, kind.at, kind.prompt, connections)...)
			}
		}
		shared, local, none := quantile(gets[0], 50), quantile(gets[1], 50), quantile(gets[2], 50)
		seen = append(seen, fmt.Sprintf("%d at a time: p50 %v shared, %v more than local, %v more than none", connections,
			shared.Round(time.Microsecond), (shared-local).Round(time.Microsecond), (shared-none).Round(time.Microsecond)))
		err = errors.Join(err, anyFailure(slices.Concat(gets...)))
		if !s.busy && connections == 1 && (shared-local > bound || shared-none > bound) {
			err = errors.Join(err, fmt.Errorf("that is more than %v", bound))
		}
	}
	return strings.Join(seen, "; "), err
}

// getFrom gets a prompt some times from each of a number of connections.
func getFrom(ctx context.Context, w *world, prompt string, connections int) []got {
	const times = 20
	l := &load{}
	for range connections {
		l.pending.Go(func() {
			for range times {
				l.get(ctx, w, prompt, time.Now())
			}
		})
	}
	l.pending.Wait()
	return l.gets
}
