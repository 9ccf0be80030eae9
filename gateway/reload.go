package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream"
)

// A reload is all or nothing. Whatever can fail comes first, beside what is at work; then the new setup takes its place in
// one step; and only then does what is left over end:
//
//	load ▶ setup, with the connectors that stay ▶ run the others ▶ swap ▶ move the streams ▶ retire what is left over
//	  └── errors end here, nothing has changed ──┘

// warmBound is how long a reload waits for the connector that is to take another one's place to reach its server, so
// that calls go from the one to the other without a gap.
const warmBound = 5 * time.Second

// Why a gateway cannot be reloaded.
var (
	errNoLoad     = errors.New("this gateway was not told how to load its configuration")
	errNotRunning = errors.New("the gateway is not running")
)

// Reload loads the configuration again and puts it to work. An error means that nothing has changed: its text says what
// is wrong in the configuration, and holds nothing sensitive. To be called while [Gateway.Run] runs; reloads happen one
// after another.
//
// Connectors whose block says the same as before stay, with their sessions and calls. Others are replaced, or go, once
// their calls in flight have ended.
func (g *Gateway) Reload(ctx context.Context) error {
	done := make(chan error, 1)
	select {
	case g.reloads <- done:
	case <-g.over:
		return errNotRunning
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-done:
		return err
	case <-g.over:
		return errNotRunning
	case <-ctx.Done():
		return ctx.Err()
	}
}

// loading is what became of the configuration that was last looked at.
type loading struct {
	// since is when the configuration at work was loaded.
	since time.Time
	// refused is when one was refused since then, and problem why; zero while the last was good.
	refused time.Time
	problem error
}

// crew runs the connectors, and replaces them at reloads. Only its own goroutine touches it.
type crew struct {
	gateway *Gateway
	group   *errgroup.Group
	// leave ends a connector's run.
	leave map[*upstream.Connector]context.CancelFunc
}

// engage runs the connectors among these that do not run yet.
func (c *crew) engage(ctx context.Context, connectors []*upstream.Connector) {
	for _, connector := range connectors {
		if c.leave[connector] != nil {
			continue
		}
		ctx, leave := context.WithCancel(ctx)
		c.leave[connector] = leave
		c.group.Go(func() error {
			defer leave()
			return connector.Run(ctx)
		})
	}
}

// run carries out what [Gateway.Reload] asks for, until ctx ends.
func (c *crew) run(ctx context.Context) error {
	for {
		select {
		case done := <-c.gateway.reloads:
			done <- c.reload(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}

func (c *crew) reload(ctx context.Context) error {
	g, before := c.gateway, c.gateway.setup()
	next, err := g.load(before)
	if err != nil {
		g.logger.ErrorContext(ctx, "configuration refused, the one before stays", slog.Any("error", err))
		g.loading.Store(&loading{since: g.loading.Load().since, refused: time.Now(), problem: err})
		return err
	}
	c.engage(ctx, next.connectors)
	g.warm(ctx, before, next)
	select {
	case g.setups <- next:
	case <-ctx.Done():
		return errNotRunning
	}
	<-before.replaced
	g.loading.Store(&loading{since: time.Now()})
	retired := c.retire(ctx, before, next)
	g.logger.InfoContext(ctx, "configuration reloaded", slog.Int("upstreams", len(next.upstreams)),
		slog.Int("kept", len(before.connectors)-retired), slog.Int("retired", retired))
	return nil
}

// load makes the setup that is to take another one's place.
func (g *Gateway) load(before *setup) (*setup, error) {
	if g.opts.Load == nil {
		return nil, errNoLoad
	}
	cfg, diagnostics := g.opts.Load()
	for _, warning := range diagnostics.Warnings() {
		g.logger.Warn("configuration", slog.String("warning", warning))
	}
	if err := diagnostics.Err(); err != nil {
		return nil, err
	}
	if fixed := fixed(before.cfg, cfg); len(fixed) > 0 {
		return nil, fmt.Errorf("%s changed, which needs a restart: restart the gateway, or take that change back",
			strings.Join(fixed, " and "))
	}
	return g.newSetup(cfg, before)
}

// fixed names the settings that differ and that a running gateway cannot change.
func fixed(before, after *config.Config) (names []string) {
	for _, setting := range []struct{ name, before, after string }{
		{"gateway.listen", before.Gateway.Listen, after.Gateway.Listen},
		{"gateway.path", before.Gateway.Path, after.Gateway.Path},
		{"gateway.state_dir", before.Gateway.StateDir, after.Gateway.StateDir},
		{"admin.listen", before.Admin.Listen, after.Admin.Listen},
	} {
		if setting.before != setting.after {
			names = append(names, setting.name)
		}
	}
	if !sameTLS(before, after) {
		names = append(names, "gateway.tls")
	}
	return names
}

// sameTLS reports whether the endpoint's connections would be made alike. What is in the certificate's files does not
// count: it is read again while they are served.
func sameTLS(before, after *config.Config) bool {
	was, is := before.Gateway.TLS, after.Gateway.TLS
	if was == nil || is == nil {
		return was == is
	}
	a, b := *was, *is
	for _, files := range []*config.ServerTLS{&a, &b} {
		files.Certificate, files.Key = config.Secret{}, config.Secret{}
	}
	return reflect.DeepEqual(a, b) && before.Auth.RequiresClientCertificate() == after.Auth.RequiresClientCertificate()
}

// warm waits until each connector that is to take another one's place has once answered or failed, at most for warmBound.
func (g *Gateway) warm(ctx context.Context, before, next *setup) {
	ctx, cancel := context.WithTimeout(ctx, warmBound)
	defer cancel()
	for {
		e := g.edition.Load() // a connector's news make another
		if next.takenOver(before) {
			return
		}
		select {
		case <-e.superseded:
		case <-ctx.Done():
			return
		}
	}
}

// takenOver reports whether each connector that replaces one of an earlier setup has been tried.
func (s *setup) takenOver(before *setup) bool {
	for name, connector := range s.byName {
		if before.byName[name] != nil && !connector.State().Tried {
			return false
		}
	}
	return true
}

// retire lets the connectors go that are not in the next setup. It returns how many they are, and does not wait.
func (c *crew) retire(ctx context.Context, before, next *setup) (retired int) {
	for _, connector := range before.connectors {
		if next.byName[connector.Upstream().Name] == connector {
			continue
		}
		retired++
		leave := c.leave[connector]
		delete(c.leave, connector)
		c.group.Go(func() error {
			defer leave()
			bound, cancel := context.WithTimeout(ctx, connector.Upstream().Timeout) // only one that asks a person lasts longer
			defer cancel()
			connector.Retire(bound)
			return nil
		})
	}
	return retired
}
