package gate

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
)

const scope = "github.com/promptweir/promptweir/gateway/gate"

// observe declares the gate's metrics, until stop is called. Errors are about invalid names only.
func (g *Gate) observe() (stop func()) {
	meter := otel.Meter(scope)
	waiting, err := meter.Int64ObservableGauge("promptweir.gate.waiting", metric.WithUnit("{request}"),
		metric.WithDescription("Requests that wait because there is more to do than the processors can."))
	refused, err2 := meter.Int64ObservableCounter("promptweir.gate.refused", metric.WithUnit("{request}"),
		metric.WithDescription("Requests that were refused, before they were read, because they had waited for too long."))
	registration, err3 := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		g.mu.Lock()
		defer g.mu.Unlock()
		o.ObserveInt64(waiting, int64(g.waiting.Len()))
		o.ObserveInt64(refused, int64(g.refused))
		return nil
	}, waiting, refused)
	if err := errors.Join(err, err2, err3); err != nil {
		otel.Handle(err)
		return func() {}
	}
	return func() { _ = registration.Unregister() } // never fails
}
