// Package cluster answers: what do the replicas of a gateway share, and how, by one store?
//
//	                        ┌─ Limits    one script counts a request over all replicas
//	Replica ── connection ──┼─ Messages  to one replica or to all, by pub/sub: publish, announce, call
//	           and breaker  └─ Peers     who is alive and serves which lists: a heartbeat each second
//
// Replicas are gateways with the same store and the same cursor keys, behind one load balancer: a
// client's next request may reach any of them. The store is any server that speaks the Redis
// protocol, alone, behind Sentinels or as a Redis Cluster. It sees nothing in clear: names are
// keyed hashes, and messages and records are sealed.
//
// # The circuit breaker (store.go)
//
//	closed ── an operation takes longer than 50 ms ──▶ half-open ── no probe in time for 200 ms ──▶ open
//	   ▲   └─ an operation fails ─────────────────────────────────────────────────────────────▶  │
//	   └──── a probe is answered in time, after a cool-down of 20 ms to 1 s ─────────────────────┘
//
// Counting waits for the store for 50 ms at most, and only while the breaker is closed; a message
// does so unless it is open. While it is not closed, each replica counts alone; while it is open, no
// message is sent, and no change settles. Nothing is repaid afterwards: counts go on from now.
//
// # Limits (limits.go)
//
// A rate is one key: the time at which the bucket will be full again, by the store's clock (GCRA).
// One script counts a request against all limits that it meets, or against none, in one round trip.
//
// # Messages (messages.go, pieces.go)
//
//	publish   to one or all; it may be lost
//	announce  to all, and once more whenever a replica's breaker closes within ten minutes
//	call      to one, which says each second that it works on it; 5 s without that, and it is gone
//
// A message is handled at most once, or not at all; an announcement may be handled again. It says
// until when it lasts, a minute, so that one that somebody has recorded is refused afterwards. A
// body of more than 128 KiB is put into the store in pieces that the receiver takes out. Slots and
// bytes are bounded, see the constants.
//
// # Who serves which lists (peers.go, settlement.go)
//
// The promise: a client that is notified of a change finds it at whichever replica it lists next,
// or is notified again. It rests on state, since a message may be lost. Each replica keeps a record
// in the store, until six seconds after its last heartbeat: a digest of each upstream's list and of
// its configuration, and what operators have drained. A heartbeat writes one digest of the record
// and reads those of the others; records are read only where these differ, so that a thousand
// upstreams cost no more than one. A message only says that a heartbeat is worth while now.
//
//	a list changes here ─▶ pending ── all live replicas serve it ─▶ settled: listeners are notified
//	                          └────── not within a second ────────▶ unsettled: listeners are notified
//	                                   unsettled ── all serve it ─▶ settled: these listeners are notified again
//
// [settlement] decides that, without clock or network. A replica that was not alive, after a pause
// or while the store could not be used, compares before it answers its first list, for 1 s at most.
// Lists that differ then, or that it changed meanwhile, it marks in its record as behind: its
// clients may have read them after others were notified of newer ones. The others take a mark as if
// the list had been unsettled, and notify their listeners again.
//
// # Why valkey-go
//
// It knows Sentinel, Cluster, TLS and scripts, sends what many goroutines ask for over one
// connection without waiting for one another, and obeys a context's deadline while it waits, where
// go-redis gives up the connection. Its command builder would be 10 MB of the binary if anything
// called methods by name: text/template does, and so is not linked.
package cluster
