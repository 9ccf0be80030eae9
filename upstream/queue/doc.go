// Package queue gives out the slots of one upstream: how many calls may be in flight, whose turn it
// is, and which call is refused at once because no answer could come in its time.
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
//	    begun ──▶ Slot.Lend while a person is asked: others may have the slot, and the [Deadline] is paused
//	      │
//	      ▼
//	Slot.Release ──▶ how long the call took adapts the limit ──▶ the next call of the lines
//
// One limit adapts. It begins at 64 slots, or at the upstream's concurrency if that is less, and
// grows to the concurrency while calls want it and are answered soon. If even the fastest of the
// last calls took more than half of the timeout, though calls are answered in less than half of
// that when none has to wait, the server is late with all of them because it has too many: the
// limit falls to as many as it answers in a quarter of the timeout, but not below 8. So a server at
// ten times its capacity goes on answering at its capacity, and one that is slow by nature keeps
// its concurrency.
//
// How long a call takes is a smoothed round-trip time and its deviation or, while all slots are
// taken, the time in which as many calls end as there are slots, if that is longer. A call waits
// where its turn comes early enough to be answered after it, and is refused otherwise: sending it
// would only take the server's time from calls that it can still answer. Of 1 024 calls that wait,
// the last of the longest line is refused for another one.
//
// All methods are safe for concurrent use. Waiting ends with the caller's context.
package queue
