// Package gatewaytest runs a gateway and real peers in a test.
//
//	Client, SSEClient, StdioClient ──▶ Server (a gateway behind a real HTTP server) ──▶ Peer, RequestingPeer
//	raw JSON over each transport       configured by a text in HCL                      raw JSON over HTTP
//
// Clients and peers are written by hand, so that a test can say and see every byte. They check each
// message that they receive against the JSON schemas of its protocol revision, and fail the test if
// it violates them. The exceptions say so: [Client.CallUnchecked], and gets whose arguments are not
// strings.
//
// A test writes its configuration with [Team], [Token] and [Expose], starts a gateway with [Serve]
// or one of its variants, and calls it with [Server.Modern], [Server.Legacy], [Server.SSE] and
// [Server.Stdio]. Whatever needs an end is registered with the test's cleanup. Nothing sleeps: what
// takes time is awaited, for at most [Timeout].
//
// Only tests may import this package.
package gatewaytest
