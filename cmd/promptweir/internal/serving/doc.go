// Package serving runs a gateway as a process.
//
//	command ──▶ HTTP ──▶ load, listen, serve ──▶ signal ──▶ drain_delay ──▶ requests in flight ──▶ upstreams ──▶ exit
//	        ──▶ Stdio ─▶ load, serve one client ──▶ its end, or a signal ──────────────────────────────▶ upstreams ──▶ exit
//	        ──▶ With ──▶ a gateway without listeners, for one result
//
// It connects the gateway to listeners and their certificate, file descriptors, memory, signals, the service
// manager, a log that never blocks, and exporters of telemetry.
//
// Promises:
//   - Both addresses are bound before a child process is started.
//   - A gateway announces its shutdown first: during drain_delay, it still serves.
//   - The admin listener outlives the endpoint, and the upstreams outlive both.
//   - No request waits for a reader of the log or for a collector of telemetry.
package serving
