// Package upstreamtest answers: what can stand in for an MCP server in a test?
//
//   - [HTTP] and [Child] are configurations with the defaults of config.Load.
//   - [Peer] is a server over HTTP of either era whose every answer the test may decide.
//   - [SSE] serves a Peer over HTTP+SSE.
//   - [SDK] is a server of the official Go SDK, for use behind its handlers or on stdio.
//   - [Serve] puts a handler on a port that can go down and come back.
//   - [Main] makes the test binary play a child process, in a role of the test's own.
//   - [Violation] checks a message against the JSON schema of its protocol revision; the schemas are in testdata/schema.
//   - [Memory] is an http.RoundTripper without a network, for tests in which time moves in a synctest bubble.
//
// What needs an end registers it with the test's cleanup.
package upstreamtest
