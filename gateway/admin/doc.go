// Package admin answers: what condition is the gateway in, and what may its operators do?
//
//	program ── /healthz, /readyz, /metrics, /api/…, POST /-/reload ──▶ admin ──▶ View: snapshot, inspect, History
//	browser ── /, /prompts, … ──▶ Operators: the admin token, a session, or this machine ──▶ console, over the same View
//
// It serves the admin listener: liveness, readiness, metrics, reloading, the state of upstreams and
// prompts as JSON, and the pages of package console. It shows no secrets. The causes of problems may
// contain addresses and texts of servers, so only operators see them. Operators are callers on this
// machine or, if an admin token is configured, callers who have the token. Other callers can use only
// /healthz, /metrics, the status of /readyz, and the sign-in page with its static files.
package admin
