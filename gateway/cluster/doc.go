// Package cluster answers: what do the replicas of a gateway share?
//
// Replicas are gateways with the same store and the same cursor keys, behind one load balancer: a
// client's next request may reach any of them. They share rates. The store is any server that
// speaks the Redis protocol, alone, behind Sentinels or as a Redis Cluster. Its keys are hashed with
// a secret, so that it learns no names.
//
// # Rates (limits.go)
//
// A rate is one key: the time at which the bucket will be full again, by the store's clock (GCRA).
// One script counts a request against all limits that it meets, or against none, in one round trip.
//
// # The circuit breaker (store.go)
//
//	closed            ── an operation takes longer than 50 ms ─────────▶ half-open
//	half-open         ── one does so 200 ms after that or later ───────▶ open
//	closed, half-open ── an operation fails ───────────────────────────▶ open
//	half-open, open   ── a probe is answered in 50 ms, after a
//	                     cool-down of 20 ms to 1 s ────────────────────▶ closed
//
// It begins open. A probe waits for 1 s, so a store that hangs may keep it half-open for that long;
// one that fails is repeated after 50 ms, then after longer and longer, up to 1 s. A request waits
// for the store for 50 ms at most, and only while the breaker is closed. While it is not, each
// replica counts alone. Nothing is repaid afterwards: counts go on from now.
//
// # Why valkey-go
//
// It knows Sentinel, Cluster, TLS and scripts, sends what many goroutines ask for over one
// connection without waiting for one another, and obeys a context's deadline while it waits, where
// go-redis gives up the connection. Its command builder would add 10 MB to the binary if anything
// called methods by name, as text/template does: that is why nothing links it.
package cluster
