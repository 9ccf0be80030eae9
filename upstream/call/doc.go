// Package call carries out one call to a server. It waits for a slot, sends the request, repeats it
// while that is safe, and returns one outcome.
//
//	Do ──▶ acquire ──▶ attempts ──▶ release ──▶ finish
//	                      │
//	      ┌───────────────┘
//	      ▼
//	┌──▶ pick ──▶ send ──▶ changesEra ──▶ outcomeOf ──▶ answered, or not to be sent again: return
//	│                           │              │
//	├── in the other era ◀──────┘              │
//	├── renew: on a new session ◀──────────────┤ the session is lost
//	└── backOff: a new attempt after a pause ◀─┘ no answer
//
// Promises:
//   - One defer in [Calls.Do] releases the slot, however the call ends. While the client is asked for
//     input, other calls may use the slot and the deadline is paused (relayDuring).
//   - send reports the start and the end of each request to the breaker. Each session begins with a
//     closed breaker. The table at outcome defines how an error counts. Failures of one caller alone do not
//     open the breaker.
//   - The loop ends with an answer, and after the attempts that the retry block allows. It ends
//     earlier if part of an answer has arrived, the client was asked for input, the caller has left,
//     the deadline has passed, the breaker is open, or the server asked for a pause.
//   - A lost session is replaced once in each attempt, and the era is changed once on each session.
//   - The queue adapts its limit of calls in flight to their outcomes, between 1 and the upstream's
//     concurrency. So a server under ten times the load that it can handle still answers at nearly its
//     capacity.
//   - A call waits for a slot for half of its timeout at most. An attempt gets half of the
//     remaining time if another attempt may follow. Every wait ends with the caller's context.
//   - [Calls.Close] refuses the calls that wait for a slot, and lets the calls in flight end.
//
// When a deadline has passed, the Err of a context derived from it is Canceled. [context.Cause] returns
// the reason.
package call
