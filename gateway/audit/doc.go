// Package audit records who gets which prompts, before they get them.
//
//	requests, admin ── Line ──▶ Log.Write ──▶ queue ──▶ writer ──▶ file
//	                               ▲                       │
//	                               └────── written ◀───────┘  (only if the log is required)
//
// Promises:
//   - A line is one JSON object, written whole and once. One goroutine writes the queued lines in
//     batches, and repeats a failed write until the file accepts it.
//   - If the log is required, Write returns when the operating system has accepted the line, or with
//     an error after a second. While writes fail or hang, it returns an error immediately. The file is
//     not synced: lines survive a crash of the process, but not of the machine.
//   - After such an error, the line may still be written. So each response that is to be recorded has a line, but
//     a line does not prove that a response was sent.
//   - If the log is not required, Write never waits, and a line is written within milliseconds. Lines
//     that do not fit into the queue are lost and counted.
//   - A nil *Log records nothing, and each of its methods costs one comparison. All methods are
//     safe for concurrent use.
package audit
