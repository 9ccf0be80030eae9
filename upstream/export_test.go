package upstream

import "net/http"

// UseTransport replaces the network of a connector that has not started.
func UseTransport(c *Connector, transport http.RoundTripper) {
	c.opts.client.client.Transport = transport
}
