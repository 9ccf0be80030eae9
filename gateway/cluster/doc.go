// Package cluster answers: what do the replicas of a gateway share?
//
//	          ┌─ Limits     one script at the store counts a request over all replicas
//	Replica ──┤
//	          └─ Forwarder  a request goes to the replica that holds its session or call
//
// Replicas are gateways with the same store and the same cursor keys, behind one load balancer: a client's
// next request may reach any of them. All other state that crosses replicas, such as a list cursor, travels
// in sealed tokens.
//
// # Rates (limits.go, store.go)
//
// The store is any server that speaks the Redis protocol, alone, behind Sentinels or as a Redis Cluster. The
// names of its keys are keyed hashes, so they do not reveal principals. A rate is stored as one key. Its
// value is the time at which the bucket will be full again, by the store's clock (GCRA). One script counts a
// request against all limits that apply, or against none. A request waits for the script for 50 ms at most,
// and only while the circuit breaker is closed. While it is open, each replica counts alone. Those requests
// are not added to the store afterwards.
//
//	closed ── an operation fails, or takes longer than 50 ms ─────────────────▶ open
//	open   ── a probe is answered in 50 ms, after a cool-down of 20 ms to 1 s ─▶ closed
//
// The store counts as unavailable once an operation fails, or once answers have been late for 200 ms.
//
// # Forwarding (forward.go)
//
// An HTTP+SSE session, a server request and a parked get belong to one process, A. Their ids are sealed, and
// contain the address and the random instance id of A:
//
//	client ── POST with an id of A ──▶ B ── the same POST, one sealed header ──▶ A
//	       ◀─────────────────────────    ◀── A's response ─────────────────────
//
// Promises:
//   - B dials only addresses that a sealed id contains, and never through an egress proxy. It keeps the Host
//     header. Over https, it verifies A's certificate for the host name of public_url.
//   - B sends no credential of the client. Instead, [Header] contains the key of the principal that B has
//     authenticated, and the client's address.
//   - A accepts a header once, within 10 seconds, and only with its own instance id, the request's
//     method and target, and the SHA-256 of the body. It remembers a header for at least 20
//     seconds, so that a header from a clock that is ahead cannot be replayed. It refuses more than
//     100 000 headers in that time. Clocks must differ by less than 10 seconds.
//   - A never forwards a request with this header. If it does not accept the header, it answers 404, even if
//     the request has other credentials.
//   - If A cannot be reached, does not begin to answer within 10 seconds, has another instance id, or answers
//     404, then B answers as for an id from before its own restart.
//
// # Why valkey-go
//
// It supports Sentinel, Cluster, TLS and scripts. It pipelines the commands of many goroutines over one
// connection. When a context's deadline ends the wait for a response, it keeps the connection; go-redis
// closes it. Do not link text/template or other code that calls methods by name: the linker would then keep
// valkey-go's whole command builder, 10 MB.
package cluster
