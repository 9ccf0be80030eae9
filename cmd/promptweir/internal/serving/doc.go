// Package serving answers: how does a gateway run as a process, from its first signal to its last?
//
//	command ──▶ HTTP ──▶ load, listen, serve ──▶ signal ──▶ drain_delay ──▶ requests in flight ──▶ upstreams ──▶ exit
//	        ──▶ Stdio ─▶ load, serve one client ──▶ its end, or a signal ──────────────────────────────▶ upstreams ──▶ exit
//	        ──▶ With ──▶ a gateway without listeners, for one result
//
// It wires the gateway to what the process has: listeners and their certificate, file descriptors,
// memory, signals, the service manager, standard error as a log that nobody waits for, and
// exporters of telemetry.
//
// Promises:
//   - Both addresses are bound before a child process is started.
//   - A gateway announces its end before it refuses anything: during drain_delay, it still serves.
//   - The admin listener outlives the endpoint, and the upstreams outlive both.
//   - Nothing waits for a reader of the log or for a collector of telemetry.
package serving
