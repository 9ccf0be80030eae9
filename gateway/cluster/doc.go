// Package cluster answers: what do the replicas of a gateway share, and by which store?
//
//	requests ── Take: one script ───────────────▶ ┌───────┐ ◀── another replica
//	        ◀─ counted, or how long to wait ───── │ store │ ──▶ hears what is announced
//	         ── release, if it held a place ────▶ │       │
//	transport ── Announce: to all replicas ─────▶ │       │ ──▶ serves what it is asked
//	         ── Ask, Tell: one replica ─────────▶ │       │ ──▶ is woken, takes the list
//	                                              └───────┘
//
// The store is any server that speaks the Redis protocol, alone, behind Sentinels or as a Redis Cluster. Replicas are those with
// the same store and the same cursor keys.
//
// Promises:
//   - The store sees nothing in clear: principals and limits stand in keys as keyed hashes, and the keys are derived from the
//     cursor keys; messages are sealed. Gateways with other cursor keys can use the same store without meeting.
//   - What is on a request's way waits for 50 ms at most, whatever the client library does. After an operation that was late, limits do
//     not wait for the store until it has answered a probe in the background. An operation that fails, or 200 ms without an answer in
//     time, make the store away: from then on nothing on a request's way waits for it.
//   - While the store is away, each replica does what it would do alone. The log has one line when that begins and one when it
//     ends. Requests that replicas counted alone are counted together when it answers, so that a rate holds on the whole where it is late
//     again and again.
//   - What is announced reaches every replica, those too that were away or are started within a day, as long as the store keeps it;
//     where it is to hold only as long as one that knows it lives, those that are started within the time for which it lasts.
//   - A message to another replica is bounded, and arrives at most once. Whoever asks one that has ended knows at once,
//     and within two seconds if it hangs, or the store is a Redis Cluster, whose nodes know only who listens there.
//   - A replica that dies gives back its places in a concurrency limit after 15 seconds at most, one that the store was away or late for
//     as soon as it answers.
//
// # Why valkey-go
//
// It is the Valkey project's own client, released every month. It knows Sentinel, Cluster, TLS and scripts, sends what many
// goroutines ask for over one connection without waiting for one another, and heeds a context's deadline while it waits for a
// response, where go-redis gives up the connection. It needs no module beside golang.org/x/sys, where go-redis needs two more. Its price
// is the binary: with html/template in it, which keeps the methods that nobody calls, 10 MB are the client's (8 MB with go-redis); they
// are code that is never read into memory.
package cluster
