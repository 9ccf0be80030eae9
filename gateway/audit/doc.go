// Package audit answers: who got what, and was it written down before it was given?
//
//	requests, admin ── Line ──▶ Log.Write ──▶ queue ──▶ writer ──▶ file
//	                               ▲                       │
//	                               └────── written ◀───────┘  (only where the log is required)
//
// Promises:
//   - A line is one JSON object, written whole and once. One goroutine writes, and repeats a line
//     until the file accepts it.
//   - Where the log is required, Write returns when the system has the line, or an error after a
//     second at most. While writes fail or hang, it refuses at once. Lines are not synced: they
//     survive the process, not the machine.
//   - A line whose request was refused after waiting may still be written: nothing is given without
//     a line, but a line does not prove that its response was given.
//   - Where the log is not required, Write never waits. What does not fit into the queue is counted.
//   - A nil *Log records nothing, and its methods cost a comparison. All methods are safe for
//     concurrent use.
package audit
