package main

import (
	"context"
	"time"

	"github.com/promptweir/promptweir/examples/bench/internal/rig"
	"github.com/promptweir/promptweir/gateway/gatewaytest/light"
)

// follow has clients listen at endpoints, that record what they do.
func (w *world) follow(ctx context.Context, n int, endpoints ...string) *light.Audience {
	a := &light.Audience{Client: w.client, Endpoints: endpoints, Principals: []string{token}, Read: w.read}
	a.Start(ctx, n)
	return a
}

// await waits until all clients of an audience have listed a mark.
func await(a *light.Audience, mark string, bound time.Duration) error {
	return rig.Eventually(bound, func() error { return a.Missing(server, mark) })
}

// get begins gets of a prompt at a rate.
func get(ctx context.Context, c *light.Client, prompt string, perSecond float64) *rig.Paced {
	return rig.Pace(ctx, perSecond, func(ctx context.Context) error { return c.Get(ctx, prompt) })
}

// walk begins lists at a rate, each of which must be whole.
func (w *world) walk(ctx context.Context, c *light.Client, perSecond float64) *rig.Paced {
	return rig.Pace(ctx, perSecond, func(ctx context.Context) error {
		names, err := c.Walk(ctx)
		if err == nil {
			_, _, err = w.read(names)
		}
		return err
	})
}

// repeat does something again and again, with a pause each, until stop is called, which waits for the
// end.
func repeat(pause time.Duration, do func()) (stop func()) {
	stopping, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			do()
			select {
			case <-stopping:
				return
			case <-time.After(pause):
			}
		}
	}()
	return func() { close(stopping); <-done }
}
