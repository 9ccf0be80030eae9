// Package audit records who gets which prompts, before they get them.
//
//	requests, admin ── Line ──▶ Log.Write ──▶ queue ──▶ writer ──▶ file
//	                               ▲                       │
//	                               └────── written ◀───────┘  (only if the log is required)
//
// Promises:
//   - A line is one JSON object, written whole and once. One goroutine writes all lines that wait
//     in one piece, and repeats that until the file accepts it.
//   - If the log is required, Write returns when the operating system has the line, or an error
//     after a second at most. While writes fail or hang, it refuses immediately. Lines are not
//     synced: they survive the process, not the machine.
//   - A line whose request was refused after waiting may still be written: each response has a
//     line, but a line does not prove that its response was given.
//   - If the log is not required, Write never waits, and a line is written within milliseconds. It
//     counts lines that do not fit into the queue.
//   - A nil *Log records nothing, and each of its methods costs one comparison. All methods are
//     safe for concurrent use.
package audit
