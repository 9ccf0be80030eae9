package identity

import "net/http"

// Through makes the authenticator fetch from issuers by the test's transport.
func (a *Authenticator) Through(transport http.RoundTripper) *Authenticator {
	for _, i := range a.issuers {
		i.keys.client.Transport = transport
	}
	return a
}
