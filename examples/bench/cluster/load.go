//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"
)

// got is one get: when it began, how long after it was due, how long it took from then on, and what became of it.
type got struct {
	began      time.Time
	late, took time.Duration
	err        error
}

// load is gets of one prompt at a constant rate. Stop ends it.
type load struct {
	prompt, at string // of what, and through which HAProxy
	cancel     context.CancelFunc
	pending    sync.WaitGroup

	mu   sync.Mutex // guards gets
	gets []got
}

// begin gets a prompt a number of times each second, whether or not earlier gets have been answered, until [load.stop]. Gets for which this
// program has no processor when they are due come as soon as it has, so that none is left out; that they are late is the rig's own fault.
func (w *world) begin(ctx context.Context, prompt string, perSecond int) *load {
	l := &load{prompt: prompt, at: w.url}
	ctx, l.cancel = context.WithCancel(ctx)
	l.pending.Go(func() {
		interval := time.Second / time.Duration(perSecond)
		for due := time.Now().Add(interval); ; due = due.Add(interval) {
			select {
			case <-time.After(time.Until(due)):
				l.pending.Go(func() { l.get(context.WithoutCancel(ctx), w, prompt, due) })
			case <-ctx.Done():
				return
			}
		}
	})
	return l
}

func (l *load) get(ctx context.Context, w *world, prompt string, due time.Time) {
	g := got{began: time.Now()}
	g.late = g.began.Sub(due)
	g.err = w.get(ctx, prompt)
	g.took = time.Since(g.began)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gets = append(l.gets, g)
}

// stop ends the load and returns its gets.
func (l *load) stop() []got {
	l.cancel()
	l.pending.Wait()
	return l.gets
}

// between returns the gets that began within a time.
func between(gets []got, from, to time.Time) (within []got) {
	for _, g := range gets {
		if g.began.After(from) && g.began.Before(to) {
			within = append(within, g)
		}
	}
	return within
}

// answered counts the gets that were answered.
func answered(gets []got) (n int) {
	for _, g := range gets {
		if g.err == nil {
			n++
		}
	}
	return n
}

// failures returns the errors of gets that no limit explains.
func failures(gets []got) (failed []error) {
	for _, g := range gets {
		if g.err != nil && !errors.Is(g.err, errLimited) {
			failed = append(failed, g.err)
		}
	}
	return failed
}

// quantile returns that of how long gets took, in percent.
func quantile(gets []got, percent int) time.Duration {
	if len(gets) == 0 {
		return 0
	}
	all := make([]time.Duration, len(gets))
	for i, g := range gets {
		all[i] = g.took
	}
	slices.Sort(all)
	return all[min(len(all)-1, len(all)*percent/100)]
}

func p99(gets []got) time.Duration { return quantile(gets, 99).Round(100 * time.Microsecond) }

// lateness returns the p99 of how late gets began.
func lateness(gets []got) time.Duration {
	late := make([]got, len(gets))
	for i, g := range gets {
		late[i].took = g.late
	}
	return p99(late)
}

// worstSecond returns when after a time the p99 of the gets of one second was the greatest, and that.
func worstSecond(gets []got, from time.Time) (second int, worst time.Duration) {
	bySecond := map[int][]got{}
	for _, g := range gets {
		n := int(math.Floor(g.began.Sub(from).Seconds()))
		bySecond[n] = append(bySecond[n], g)
	}
	for n, some := range bySecond {
		if one := p99(some); one > worst {
			second, worst = n, one
		}
	}
	return second, worst
}

// anyFailure returns an error if gets failed.
func anyFailure(gets []got) error {
	failed := failures(gets)
	if len(failed) == 0 {
		return nil
	}
	i := slices.IndexFunc(gets, func(g got) bool { return errors.Is(g.err, failed[0]) })
	return fmt.Errorf("%d of %d gets failed, the first at %s after %v with: %w", len(failed), len(gets), gets[i].began.UTC().Format("15:04:05.000"),
		gets[i].took, failed[0])
}
