// Package cluster answers: what do the replicas of a gateway share, and how, by one store?
//
//	                        ┌─ Limits    one script counts a request over all replicas
//	Replica ── connection ──┼─ Messages  publish, announce, call and handle, by pub/sub
//	           and breaker  └─ Peers     who is alive and serves what: a heartbeat each second
//
// The store is any server that speaks the Redis protocol, alone, behind Sentinels or as a Redis
// Cluster. Replicas are the gateways with the same store and the same cursor keys. The store sees
// nothing in clear: names are keyed hashes, and messages and records are sealed.
//
// # The circuit breaker
//
//	closed ── an operation takes longer than 50 ms ──▶ half-open ── no probe in time for 200 ms ──▶ open
//	   ▲   └─ an operation fails ─────────────────────────────────────────────────────────────▶  │
//	   └──── a probe is answered in time, after a cool-down of 20 ms to 1 s ─────────────────────┘
//
// While it is not closed, each replica counts requests alone; while it is open, no message is sent
// and nothing waits for the store. Nothing is repaid afterwards: counts go on from now.
//
// # Messages
//
// A message reaches the replica that it is for at most once, or not at all. What is announced is
// published to all, and once more when a replica's breaker closes. A message says until when it
// lasts, so that one that somebody has recorded is worth nothing a minute later. A body of more
// than 128 KiB goes through the store in pieces.
//
// # Who serves what
//
// The promise: a client that is told of a change finds it at whichever replica it lists next, or is
// told again. It rests on state and not on messages. Each replica keeps a record in the store, for
// six seconds after its last heartbeat: a digest of each list that it serves, of its configuration,
// and what operators have drained. The heartbeat writes one digest of the record and reads those of
// the others. Only where they differ are records read, so that a thousand servers cost no more than
// one. A message says only that a heartbeat is worth while now.
//
//	a list changes here ─▶ pending ── all live replicas serve it ─▶ listeners are told: settled
//	                          └────── not within a second ────────▶ listeners are told: unsettled
//	                                   unsettled ── all serve it ─▶ these listeners are told again
//
// [settlement] decides that, without clock or network. A replica that was not in the live set, after
// a pause or while the store could not be used, compares before it answers its first list. Lists that
// it then serves differently, or has changed meanwhile, stand in its record as having been behind:
// the others take them for unsettled, and tell their listeners again once all serve the same.
//
// # Why valkey-go
//
// It knows Sentinel, Cluster, TLS and scripts, sends what many goroutines ask for over one connection
// without waiting for one another, and obeys a context's deadline while it waits, where go-redis gives
// up the connection. Its price is the binary: 10 MB of methods that nobody calls.
package cluster
