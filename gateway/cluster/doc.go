// Package cluster answers: what do the replicas of a gateway share, and how, by one store?
//
//	                        ┌─ Limits    one script counts a request over all replicas
//	Replica ── connection ──┼─ Messages  to one replica or all, by pub/sub: publish, announce, call
//	           and breaker  └─ Peers     who is alive and serves which lists: a heartbeat each second
//
// Replicas are gateways with the same store and the same cursor keys, behind one load balancer: a
// client's next request may reach any of them. The store is any server that speaks the Redis
// protocol, alone, behind Sentinels or as a Redis Cluster. It learns neither names nor contents:
// keys are hashed with a secret, and messages and records are sealed.
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
// one that fails is repeated after 50 ms, then after longer and longer, up to 1 s.
//
// Counting waits for the store for 50 ms at most, and only while the breaker is closed; a message
// does so unless it is open. While it is not closed, each replica counts alone; while it is open,
// no message is sent, and no change settles. Nothing is repaid afterwards: counts go on from now.
//
// # Limits (limits.go)
//
// A rate is one key: the time at which the bucket will be full again, by the store's clock (GCRA).
// One script counts a request against all limits that it meets, or against none, in one round trip.
//
// # Messages (messages.go, pieces.go)
//
//	publish   to one, or to all others; it may be lost
//	announce  to all others; it may be lost as well, but when any replica's breaker closes, all
//	          repeat theirs of the last ten minutes
//	call      to one, which says each second that it works on it; it is gone after 5 s without
//	          that, 2 s before the first, or at once where the store knows of no subscriber. One
//	          that is busy, or panics, says that it is gone, too, and may have done the work
//
// A message is handled at most once, in a goroutine of its own, in no order; an announcement may be
// handled again. A message older than a minute is refused, since somebody may have recorded it: clocks must differ by less than that. A
// body for all has 512 KiB at most; one of more than 128 KiB for a single replica is put into the
// store in pieces, which the receiver takes out: that may take 2 s, and 1 s for each piece. Slots and bytes are bounded, see the constants.
//
// # Who serves which lists (peers.go, settlement.go)
//
// The promise: a client that is notified of a change finds it at whichever replica it lists next,
// or is notified again. It rests on state, since a message may be lost. A replica is alive from its
// first heartbeat, once it is ready for clients, until it leaves, or for six seconds after a
// heartbeat; one over stdio is never waited for. Its record in the store has digests of its
// configuration and of each upstream's list, and what operators have drained. A heartbeat writes
// one digest of the record and reads those of the others; a record is read only where that differs,
// so that a thousand upstreams cost no more than one. A message only says that a heartbeat is worth
// while now.
//
//	list changes here ─▶ pending ─── all live replicas serve it ─▶ settled: notify listeners
//	                     pending ─── not within a second ────────▶ unsettled: notify listeners
//	                     unsettled ─ all serve it ───────────────▶ settled: notify these again
//
// Pending changes are announced together. A list that another replica changed first is unsettled
// here until this one serves it, too. [settlement] decides that, without clock or network.
//
// A replica that had no heartbeat answered for 5 s, because it was paused or the store was away,
// compares before it answers a list, for 1 s at most, unless the breaker is open; not before its
// first heartbeat has been answered. After that, or a
// single heartbeat without an answer, it marks lists in its record as behind that differ or changed
// meanwhile: its clients may have read them after others were notified of newer ones. The others
// take a mark as if the list had been unsettled, and notify their listeners again.
//
// # Why valkey-go
//
// It knows Sentinel, Cluster, TLS and scripts, sends what many goroutines ask for over one
// connection without waiting for one another, and obeys a context's deadline while it waits, where
// go-redis gives up the connection. Its command builder would add 10 MB to the binary if anything
// called methods by name, as text/template does: that is why nothing links it.
package cluster
