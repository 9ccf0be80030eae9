// Package admin answers: what condition is the gateway in, and what may its operators do?
//
// It serves the admin listener: liveness, readiness, metrics, reloading, and a page for whoever was woken up. What it shows holds
// nothing secret; causes of trouble may name addresses and quote servers, and are for operators.
//
// Operators are callers on this machine, and those with the admin token. To others, only /healthz, /metrics and the status
// of /readyz exist.
//
// Reading order: admin.go, drain.go, page.go, health.go
package admin
