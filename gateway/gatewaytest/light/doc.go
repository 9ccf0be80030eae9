// Package light has an MCP client and an MCP server that take little time of a processor, for
// gateways under load and for many histories: [Client], [Server]; and clients that record what they
// do: [Audience]. It needs no test.
package light
