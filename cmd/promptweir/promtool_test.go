//go:build interop

package main

import (
	"os/exec"
	"strings"
	"testing"
)

// Prometheus' linter accepts the names, units and types of all metrics.
func TestMetrics_PassPromtool(t *testing.T) {
	check := exec.CommandContext(t.Context(), "promtool", "check", "metrics")
	check.Stdin = strings.NewReader(eventfulPage(t))
	if out, err := check.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool check metrics: %v (it is in Debian's package prometheus)\n%s", err, out)
	}
}
