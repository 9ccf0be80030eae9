package upstream

import "github.com/promptweir/promptweir/upstream/client"

// Names of package client that the gateway needs to make calls, so that it depends on this package alone.
type (
	// Options are what a connector needs beside its configuration.
	Options = client.Options
	// Result is the result of a request.
	Result = client.Result
	// Relay passes on what a server says during a call.
	Relay = client.Relay
	// Cause says to an operator why an upstream is in trouble.
	Cause = client.Cause
)
