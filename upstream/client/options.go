package client

import (
	"log/slog"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/time/rate"

	"github.com/promptweir/promptweir/upstream/wire"
)

// Options are what sessions need beside the server's configuration. The zero value works.
type Options struct {
	// Logger receives changes of state and what a child process writes to stderr; nil discards both.
	Logger *slog.Logger
	// Name and Version identify the gateway to servers.
	Name, Version string
	// DialGuard returns an error for an address that must not be dialed. It gets an IP address and a port, after name
	// resolution. Nil allows every address.
	DialGuard func(address string) error
	// Pace spreads what idle servers are asked, to see whether they are there; those of all upstreams share it. Nil for none.
	Pace *rate.Limiter
	// Transport carries HTTP requests in place of a network transport. TLS settings and DialGuard do not apply to it.
	Transport http.RoundTripper
}

func (o Options) logger() *slog.Logger {
	if o.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return o.Logger
}

// implementation is how the gateway introduces itself (Implementation in the schema).
func (o Options) implementation() jsontext.Value {
	name, version := o.Name, o.Version
	if name == "" {
		name, version = "promptweir", "0"
	}
	return wire.Object{}.With("name", wire.Quote(name)).With("version", wire.Quote(version)).JSON()
}

// SessionOptions say what a session is for. The zero value is a session that declares no client capabilities.
type SessionOptions struct {
	// OnListChanged is called when the server says that its list of prompts changed. It must not block. It may be nil.
	OnListChanged func()
	// Capabilities are declared to a server of the legacy era, which learns them once for the whole session.
	Capabilities wire.Capabilities
	// Relays allows messages that are not tied to a call to be relayed to the only call that they can belong to. With
	// Exclusive, the session's user makes one call at a time, so that this is also possible after the first call.
	Relays, Exclusive bool
	// OnUntied is called when the server sends a request for the client without saying in which call. It may be nil.
	OnUntied func()
}
