// Package admin answers: what condition is the gateway in, and what may its operators do?
//
//	program ── /healthz, /readyz, /metrics, /api/…, POST /-/reload ──▶ admin ──▶ View: snapshot, inspect, History
//	browser ── /, /prompts, … ──▶ Operators: the admin token, a session, or this machine ──▶ console, over the same View
//
// It serves the admin listener: liveness, readiness, metrics, reloading, what is known about
// upstreams and prompts as JSON, and the console's pages, which are in package console. What it
// shows holds nothing secret; causes of trouble may name addresses and quote servers, and are for
// operators.
//
// Operators are callers on this machine or, where an admin token is configured, those who have it.
// To others, only /healthz, /metrics, the status of /readyz, and the page on which they can sign in
// exist.
package admin
