package upstream

import "net/http"

// UseTransport replaces the network of a connector that has not started.
func UseTransport(c *Connector, transport http.RoundTripper) {
	for _, e := range c.endpoints {
		e.opts.client.client.Transport = transport
	}
}
