//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"
)

// tolerance is how far a rate may be from what is configured, alone that of each replica while the store is away, which depends on
// how evenly requests come.
const (
	tolerance      = 0.05
	toleranceAlone = 0.15
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

// checkCost compares gets with a limit that is counted at the store with gets without any.
func checkCost(ctx context.Context, w *world, s *settings) (string, error) {
	const bound = 300 * time.Microsecond
	var free, counted []got
	for until := time.Now().Add(s.length(8 * time.Second)); time.Now().Before(until); {
		for prompt, gets := range map[string]*[]got{"plain.p0000": &free, "plain.counted": &counted} {
			l := &load{}
			l.get(ctx, w, prompt)
			*gets = append(*gets, l.gets...)
		}
	}
	if err := errors.Join(anyFailure(free), anyFailure(counted)); err != nil {
		return "", err
	}
	more := quantile(counted, 50) - quantile(free, 50)
	seen := fmt.Sprintf("p50 %v without a limit, %v more with one", quantile(free, 50).Round(time.Microsecond), more.Round(time.Microsecond))
	if !s.busy && more > bound {
		return seen, fmt.Errorf("that is more than %v", bound)
	}
	return seen, nil
}
