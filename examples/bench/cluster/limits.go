//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
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
	return rateWithin(gets, from, to, rate, tolerance)
}

// rateWithin checks how many gets a second were answered.
func rateWithin(gets []got, from, to time.Time, want, tolerance float64) (string, error) {
	within := between(gets, from, to)
	if err := anyFailure(within); err != nil {
		return "", err
	}
	have := float64(answered(within)) / to.Sub(from).Seconds()
	seen := fmt.Sprintf("%.1f of %.0f gets a second answered, limit %.0f", have, float64(len(within))/to.Sub(from).Seconds(), want)
	if math.Abs(have-want) > tolerance*want {
		return seen, fmt.Errorf("not within %.0f %%", 100*tolerance)
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
	few, refused, err := count(places)
	if err != nil || refused > 0 {
		return "", fmt.Errorf("%d of %d gets over as many connections as there are places were refused: %w", refused, few+refused, err)
	}
	many, refused, err := count(10 * places)
	if err != nil || refused == 0 {
		return "", fmt.Errorf("%d of %d gets over ten times as many were refused: %w", refused, many+refused, err)
	}
	return fmt.Sprintf("%d gets over %d connections, none refused; over %d, %d of %d refused", few, places, 10*places, refused, many+refused), nil
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
