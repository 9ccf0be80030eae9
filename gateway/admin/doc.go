// Package admin answers: what condition is the gateway in, and what may its operators do?
//
//	program ── /healthz, /readyz, /metrics, /api/…, POST /-/reload ──▶ admin ──▶ View: snapshot, inspect, History
//	browser ── /, /prompts, … ──▶ Operators: the admin token, a session, or this machine ──▶ console, over the same View
//
// It serves the admin listener: liveness, readiness, metrics, reloading, the state of upstreams and
// prompts as JSON, and the console's pages, which are in package console. It shows no secrets.
// Causes of problems may contain addresses and server texts, and are for operators. Operators are
// callers on this machine or, if an admin token is configured, callers who have it. For other
// callers only /healthz, /metrics, the status of /readyz, and the sign-in page with its static
// files exist.
package admin
