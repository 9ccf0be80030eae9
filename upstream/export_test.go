package upstream

import (
	"io"
	"net/http"
	"time"

	"github.com/promptweir/promptweir/upstream/wire"
)

// UseTransport replaces the network of a connector that has not started.
func UseTransport(c *Connector, transport http.RoundTripper) {
	for _, e := range c.endpoints {
		if a, ok := e.opts.client.network.(*authorized); ok {
			a.RoundTripper, a.tokens.client.Transport = transport, transport
			continue
		}
		e.opts.client.network = transport
	}
}

// ReadStream reads an event stream as a session over Streamable HTTP does that waits for the response with the id.
func ReadStream(stream io.Reader, id string, maxMessage int, handle func(wire.Message)) (wire.Message, error) {
	t := newHTTPTransport(&httpClient{maxMessage: maxMessage}, time.Second)
	return t.readStream(stream, &bookmark{}, id, handle)
}
