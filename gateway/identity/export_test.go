package identity

import "net/http"

// Through makes the authenticator ask issuers by a transport of the test's.
func (a *Authenticator) Through(transport http.RoundTripper) *Authenticator {
	for _, i := range a.issuers {
		i.keys.client.Transport = transport
	}
	return a
}
