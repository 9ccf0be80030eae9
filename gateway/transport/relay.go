package transport

import (
	"context"

	"github.com/promptweir/promptweir/gateway/requests"
)

// handleRelaying carries out a request and meanwhile sends what the upstream has for its client: progress, log messages and
// server requests, all of them before the response.
func (t *Transport) handleRelaying(ctx context.Context, request *requests.Request, buffer []byte, out outlet) (response requests.Response) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		response = t.requests.Handle(ctx, request, buffer)
		request.Relay.Close()
	}()
	ticks, stop := out.ticks()
	defer stop()
	for {
		select {
		case <-request.Relay.Ready():
			out.sendAll(request.Relay)
		case <-ticks:
			out.keepAlive()
		case <-done:
			out.sendAll(request.Relay)
			return response
		}
	}
}

func (o outlet) sendAll(relay *requests.RelayQueue) {
	for _, message := range relay.Take() {
		o.send(message)
	}
}
