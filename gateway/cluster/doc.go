// Package cluster answers: what do the replicas of a gateway share?
//
//	          ┌─ Limits     one script at the store counts a request over all replicas
//	Replica ──┤
//	          └─ Forwarder  a request goes to the replica that holds what it is about
//
// Replicas are gateways with the same store and the same cursor keys, behind one load balancer: a
// client's next request may reach any of them. Everything else that crosses replicas is a sealed
// token.
//
// # Rates (limits.go, store.go)
//
// The store is any server that speaks the Redis protocol, alone, behind Sentinels or as a Redis
// Cluster. Its keys are hashes with a secret. A rate is one key: the time at which the bucket will be
// full again, by the store's clock (GCRA). One script counts a request against all limits that it
// meets, or against none. A request waits for that for 50 ms at most, and only while the circuit
// breaker is closed. While it is not, each replica counts alone, and nothing is repaid afterwards.
//
//	closed ── an operation fails, or takes longer than 50 ms ─────────────────▶ open
//	open   ── a probe is answered in 50 ms, after a cool-down of 20 ms to 1 s ─▶ closed
//
// The store counts as away once an operation fails, or answers are late for 200 ms.
//
// # Forwarding (forward.go)
//
// A session of HTTP+SSE, a server request and a parked get belong to one process, A. Their ids are
// sealed, with the address and the random instance id of A:
//
//	client ── POST with an id of A ──▶ B ── the same POST, one sealed header ──▶ A
//	       ◀─────────────────────────    ◀── what A answers ───────────────────
//
// Promises:
//   - B dials only addresses that a sealed id contains, and never through an egress proxy. It keeps
//     the Host; https is verified by the host of public_url.
//   - B sends no credential of the client. [Header] says whose request it is, in place of these: the
//     key of the principal that B has authenticated, and the client's address.
//   - A accepts a header for its own instance id, method, target and the SHA-256 of the body, for 10
//     seconds and once. It remembers the headers of 20 seconds, so that one from a clock that is
//     ahead cannot be replayed either, and refuses those beyond 100 000. Clocks must differ by less
//     than 10 seconds.
//   - A never forwards such a request again. If it does not accept the header, it answers 404,
//     whatever other credentials the request has.
//   - B answers as if it had been restarted itself where A cannot be reached, does not begin to
//     answer within 10 seconds, has another instance id, or answers 404.
//
// # Why valkey-go
//
// It knows Sentinel, Cluster, TLS and scripts, sends what many goroutines ask for over one
// connection without waiting for one another, and obeys a context's deadline while it waits, where
// go-redis gives up the connection. Its command builder would add 10 MB to the binary if anything
// called methods by name, as text/template does: that is why nothing links it.
package cluster
