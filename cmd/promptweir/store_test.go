//go:build unix

package main

import (
	"strings"
	"testing"

	"github.com/promptweir/promptweir/gateway/cluster/clustertest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// A store that drops keys when its memory is full silently disables limits.
func TestStore_ThatDropsLimitsIsSaid(t *testing.T) {
	store := func(settings ...string) string {
		started := clustertest.Start(t)
		for i := 0; i < len(settings); i += 2 {
			started.Command("CONFIG", "SET", settings[i], settings[i+1])
		}
		return started.URL()
	}
	gone := "redis://" + upstreamtest.Address(t)
	for name, test := range map[string]struct {
		store, line string
		code        int
	}{
		"evicts": {
			store("maxmemory", "67108864", "maxmemory-policy", "allkeys-lru"),
			"warning  the store of the cluster block drops limits when its memory is full (allkeys-lru); set its maxmemory-policy to noeviction\n", exitFailed,
		},
		"keeps": {store("maxmemory", "67108864"), "ok       the store of the cluster block can be used\n", exitDone},
		"has no bound": {
			store("maxmemory-policy", "allkeys-lru"), "ok       the store of the cluster block can be used\n", exitDone,
		},
		"is gone": {gone, "error    the store of the cluster block cannot be used: ", exitFailed},
	} {
		folder := configure(t, map[string]string{})
		shared := "cluster { store = \"" + test.store + "\" }" +
			strings.Replace(anyPort, "gateway {", "gateway {\n  cursor_keys = [base64encode(\"0123456789abcdef0123456789abcdef\")]", 1)
		writeFile(t, folder, "listen.hcl", shared)
		stdout, stderr, code := runHere(t, "validate", "--live", "--strict", "--config", folder)
		if code != test.code || !strings.Contains(stdout, test.line) {
			t.Errorf("a store that %s: exit code %d, want %d\n%s%s", name, code, test.code, stdout, stderr)
		}
		if name != "evicts" {
			continue
		}
		p := serve(t, folder)
		eventually(t, "/readyz says it", func() bool { _, text := p.page(t, "/readyz"); return strings.Contains(text, `"evicts": "allkeys-lru"`) })
		eventually(t, "the log says it", func() bool {
			return strings.Contains(p.logged(), "store evicts: set its maxmemory-policy to noeviction")
		})
		if _, text := p.page(t, "/metrics"); !strings.Contains(text, "promptweir_cluster_evicts 1") {
			t.Error("the metric does not say it")
		}
	}
}
