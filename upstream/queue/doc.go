// Package queue answers: may a call to one upstream begin now? It keeps a limit on the calls in
// flight, one fair queue for the calls above it, and the deadline of each call.
//
//	Slot.Acquire ──▶ a slot is free, nobody waits, the rate allows it ──▶ begun
//	      │
//	      ▼
//	lines, one for each caller     ann │ a1 a2 a3 │     Round robin: a3, b1, a2, a1. A caller's flood
//	                               bob │ b1       │     delays that caller.
//	      │                    │
//	      │                    └─ half of the timeout is over ──▶ refused
//	      ▼ slot free, rate allows it
//	    begun ──▶ Slot.Lend, Deadline.Pause while the client is asked; then it goes on, slot or not
//	      │
//	      ▼
//	Slot.Release ──▶ its outcome adapts the limit, unless the slot was lent ──▶ the next call
//
// How the limit adapts is in limit.go: between 1 and the upstream's concurrency, so that a server at
// ten times its capacity goes on answering at nearly its capacity.
//
// When 1 024 calls wait, the oldest of the longest line is refused for one whose line would still be
// shorter; otherwise that one is.
//
// All methods are safe for concurrent use. Waiting ends with the caller's context, too, and with a
// refusal: the context says why. Contexts derived from a [Deadline] say Canceled when its time is
// over; [context.Cause] says why. A call that has a slot asks [Queue.AwaitRate] before each further
// request, such as a retry.
package queue
