// Package upstreamtest has MCP servers for tests: fakes whose every response a test decides, and
// real ones.
//
//   - [HTTP] and [Child] return configurations with the defaults of config.Load.
//   - [Peer] is a server over Streamable HTTP, of either era, whose responses can be replaced.
//   - [SSE] serves a Peer over HTTP+SSE.
//   - [SDK] returns a server of the official Go SDK, to be served by its handlers or over stdio.
//   - [Serve] serves a handler on a port that can go down and come back; [Address] is that of other
//     programs that do.
//   - [Authority] issues certificates.
//   - [Main] lets the test binary run as a child process, in a role that the test defines.
//   - [Violation] checks a message with the JSON schema of its protocol revision; the schemas are
//     in testdata/schema.
//   - [Memory] is an http.RoundTripper without a network, for tests in virtual time: package
//     bubble.
//
// Whatever must be stopped is stopped by the test's cleanup.
package upstreamtest
