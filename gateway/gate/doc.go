// Package gate answers: which requests wait, and which are refused, while there is more to do than the processors can?
//
// Without it, all requests that have arrived are carried out at once, each a step at a time in turns with all others. So under twice
// the load that the processors can carry, all of them take seconds, and those that are refused later on have cost as much as those
// that are answered. With it, a request waits before anything but its first bytes has been read:
//
//	first bytes of a request ──▶ open ──────────────────────────────▶ carried out
//	new connection                └─ closed ─▶ waits ─▶ room ────────────┘
//	                                             └─ longer than patience ─▶ HTTP 503
//
// The gate is closed while the process is late with what has arrived, which it finds out by sending itself a byte now and then. It does so
// as long as requests arrive, and rests when none do. While it is closed, a few requests are let in each time that a byte has come back:
// not before the process has got as far as that. What waits for upstreams does not count: however many gets are in flight, they take no
// processor's time until their responses arrive.
//
// Promises:
//   - An open gate costs a request nothing but a look at one variable.
//   - Of those that wait, mostly the newest of an address goes first. When more arrive than can be served, somebody has to wait
//     for long, and it had better be few. But one in four is the oldest, so that all are served where the load is only a short one.
//   - Addresses of clients take turns: who sends more than others waits longer than they do.
//   - Who waits holds nothing but its connection.
//   - Requests to another listener, such as that of operators, do not wait, and with [Gate.Precede] hardly for those of clients.
package gate
