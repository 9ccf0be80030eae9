package transport

import (
	"net/http"

	"github.com/promptweir/promptweir/gateway/clientsetup"
	"github.com/promptweir/promptweir/upstream/wire"
)

// serveRoot serves /: a page to browsers, and nothing to anybody else.
func (t *Transport) serveRoot(w http.ResponseWriter, r *http.Request) {
	x := &exchange{Transport: t, w: w, r: r, snapshot: t.publisher.Current()}
	if err := x.snapshot.Origins.Request(r); err != nil {
		x.refuse(http.StatusForbidden, nil, wire.NewError(wire.InvalidRequest, "Forbidden: "+err.Error()))
		return
	}
	if !clientsetup.IsBrowser(r) {
		http.NotFound(w, r)
		return
	}
	x.servePage()
}

// servePage tells a person who has opened the endpoint in a browser how to point a client at it. It says how clients authenticate, as
// the refusal of a client without a credential does, and nothing else that depends on the configuration.
func (x *exchange) servePage() {
	clientsetup.ServePage(x.w, x.resource().String(), clientsetup.AccessOf(x.snapshot.Config.Auth))
}
