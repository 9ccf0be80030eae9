package gatewaytest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway"
)

// Reloadable is a running gateway whose configuration the test changes.
type Reloadable struct {
	*Server

	// Path is the configuration file that reloads read.
	Path string
}

// ServeReloadable is [Serve] with other options, for a gateway that can be reloaded.
func ServeReloadable(tb testing.TB, text string, opts gateway.Options) *Reloadable {
	tb.Helper()
	r := &Reloadable{Path: filepath.Join(tb.TempDir(), "changing.hcl")}
	opts.Load = func(inUse *config.Config) (*config.Config, *gateway.LastGood, config.Diagnostics) {
		return gateway.ReloadLastGood(r.Path, config.Options{}, inUse)
	}
	r.Server = StartWith(tb, text, opts)
	r.AwaitUpstreams()
	return r
}

// TryReload reloads the gateway with another configuration and returns the error of Reload.
func (r *Reloadable) TryReload(text string) error {
	r.TB.Helper()
	if err := os.WriteFile(r.Path, []byte(text), 0o600); err != nil {
		r.TB.Fatal(err)
	}
	return r.Reload(r.TB.Context())
}

// MustReload is [Reloadable.TryReload] for a configuration that must be accepted.
func (r *Reloadable) MustReload(text string) {
	r.TB.Helper()
	if err := r.TryReload(text); err != nil {
		r.TB.Fatalf("%v\n%s", err, text)
	}
}
