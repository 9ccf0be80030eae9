// Package queue answers two questions for each call to one upstream: may it begin now, and if it
// has to wait, would an answer still come in its time? It keeps a limit on the calls in flight, one
// fair queue for the calls above it, and the deadline of each call.
//
//	Slot.Acquire ──▶ a slot is free, nobody waits, the rate allows it ──▶ begun
//	      │
//	      ├─ it would wait too long ──▶ refused, with the time after which to come back
//	      │
//	      ▼
//	lines, one for each caller     ann │ a3 a2 a1 │     Round robin: a1, b1, a2, a3. A caller's flood
//	                               bob │ b1       │     delays that caller.
//	      │ slot free, rate allows it, time left for an answer
//	      ▼
//	    begun ──▶ Slot.Lend, Deadline.Pause while the client is asked; then it goes on, slot or not
//	      │
//	      ▼
//	Slot.Release ──▶ its duration, if measured and not lent, adapts the limit ──▶ the next call
//
// The limit begins at 64 slots, or at the upstream's concurrency if that is less, and adapts with
// the ends of calls:
//
//	it grows by one   for a call that found no slot free, up to the concurrency, when a call is
//	                  answered within a quarter of the timeout, or within 1.5 times the base
//	it falls          when even the fastest of the last 8 to 32 calls needed more than half of the
//	                  timeout and more than 1.5 times the base, or all of them timed out: to as many
//	                  as end in a quarter of the timeout, timeouts included, but not below 8
//	it stays          where fewer calls do not help: all were answered, but one that began among no
//	                  more than the limit would fall to was as late. The server is slow, not
//	                  overloaded, and the base is the time of the fastest
//
// The base is otherwise the least duration of an answered call. It is measured anew by each 64 that
// end while none waits. So a server at ten times its capacity goes on answering at its capacity;
// one that is slow by nature keeps its concurrency, and one that becomes slow gets it back.
//
// The expected duration of a call is a smoothed round-trip time or, while all slots are occupied,
// the time in which as many calls end as there are slots, if that is longer; 0 before any call has
// ended. A call that has waited begins if its time left is that and twice the deviation, or nine
// tenths of the timeout. It is refused otherwise, on arrival if that can be foreseen: sending it
// would only keep the server from calls that it can still answer. When 1 024 calls wait, the last
// one of the longest line is refused for one whose line would still be shorter; else that one is.
//
// All methods are safe for concurrent use. Waiting ends with the caller's context, too, and with a
// [Refusal]: the context says why. Contexts derived from a [Deadline] say Canceled when its time is
// over; [context.Cause] says why. A call that has a slot asks [Queue.AwaitRate] before each further
// request, such as a retry.
package queue
