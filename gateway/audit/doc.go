// Package audit answers: who got what, and was it written down before it was given?
//
//	requests, transport, admin ── Line ──▶ Log.Write ──▶ queue ──▶ writer ──▶ file
//	                                          ▲                      │
//	                                          └── written, or not ◀──┘  (only where the log is required)
//
// Promises:
//   - A line is one JSON object, written whole and once. A line cut by a full disk is removed
//     again, at the latest when the file is next opened.
//   - Where the log is required, Write returns when the system has the line, or an error after a
//     second at most. From then on it refuses at once, until a write has succeeded. It is not
//     synced: a line survives the process, not the machine.
//   - Where it is not, Write never waits. Lines wait in a queue for a moment, for as long as the
//     file cannot be written, or until the queue is full. What does not fit is counted.
//   - After lines were lost, a line of the event "gap" says how many, as soon as the file can be
//     written.
//   - A nil *Log records nothing, and its methods cost a comparison. All methods are safe for
//     concurrent use.
package audit
