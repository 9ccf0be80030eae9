package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/admin"
	"github.com/promptweir/promptweir/gateway/publish"
	"github.com/promptweir/promptweir/gateway/snapshot"
)

// errNoLoad means that [Options] has no Load function.
var errNoLoad = errors.New("the gateway cannot reload: it was started without a way to load its configuration")

// Reload loads the configuration again and puts it into use. A team's file with errors does not stop
// the reload of the other files: [Gateway.Ready] shows whether the file's previous text is used. If it
// returns an error, nothing has changed, unless ctx has ended: the reload may then still be under way.
// The error's text contains nothing sensitive. Call it while [Gateway.Run] runs. Reloads happen one
// after another.
//
// Connectors stay, with their sessions and calls, if the connection settings of their upstream are
// unchanged. Other connectors are replaced or removed, and end after their calls in flight.
func (g *Gateway) Reload(ctx context.Context) error {
	// The buffer lets carryOutReloads send the result after the caller has left.
	done := make(chan error, 1)
	select {
	case g.reloads <- done:
	case <-g.publisher.Stopped():
		return publish.ErrStopped
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	// The reload is under way, and goes on even if ctx ends first.
	case err := <-done:
		return err
	case <-g.publisher.Stopped():
		return publish.ErrStopped
	case <-ctx.Done():
		return ctx.Err()
	}
}

// carryOutReloads carries out one reload after another until ctx ends. It always returns nil.
func (g *Gateway) carryOutReloads(ctx context.Context) error {
	for {
		select {
		case done := <-g.reloads:
			err := g.reload(ctx)
			records{g.opts.Audit}.reload(err)
			done <- err
		case <-ctx.Done():
			return nil
		}
	}
}

// reload puts a loaded configuration into use as a whole, or not at all. All steps that can fail
// come first, while the previous generation serves:
//
//	load ▶ generation, with the connectors that stay ▶ [publish.Publisher.Replace]
//	  └────── errors end here, nothing changes ─────┘
func (g *Gateway) reload(ctx context.Context) error {
	before := g.Snapshot().Generation
	var (
		next  *snapshot.Generation
		state func() *admin.ConfigurationState
		err   error
	)
	loaded := make(chan struct{})
	go func() {
		defer close(loaded)
		next, state, err = g.load(before)
	}()
	select {
	case <-loaded:
	case <-ctx.Done():
		// Abandon the load: a file system may take any time, and the process is about to end.
		return publish.ErrStopped
	}
	if err != nil {
		g.logger.ErrorContext(ctx, "configuration refused, the previous one stays in use", slog.Any("error", err))
		g.loaded.Store(admin.Refused(g.loaded.Load(), time.Now(), err))
		return err
	}
	retired, err := g.publisher.Replace(ctx, next)
	if err != nil { // the gateway ends, and the started connectors end with it
		return publish.ErrStopped
	}
	if g.cluster != nil {
		g.cluster.Use(next.Config, next.Sealer)
	}
	g.loaded.Store(state())
	g.logger.InfoContext(ctx, "configuration reloaded", slog.Int("upstreams", len(next.Upstreams)),
		slog.Int("kept", len(before.Connectors)-retired), slog.Int("retired", retired))
	return nil
}

// load returns the next generation. Call state once the generation is in use: it logs the
// diagnostics, and returns the configuration's state for operators.
func (g *Gateway) load(
	before *snapshot.Generation,
) (next *snapshot.Generation, state func() *admin.ConfigurationState, err error) {
	if g.opts.Load == nil {
		return nil, nil, errNoLoad
	}
	cfg, kept, diagnostics := g.opts.Load(before.Config)
	for _, warning := range diagnostics.Warnings() {
		g.logger.Warn("configuration", slog.String("warning", warning))
	}
	if cfg == nil {
		return nil, nil, diagnostics.Err()
	}
	if names := changedFixed(before.Config, cfg); len(names) > 0 {
		return nil, nil, fmt.Errorf("%s changed, which needs a restart: restart the gateway, or undo that change",
			strings.Join(names, " and "))
	}
	next, err = g.publisher.NewGeneration(cfg)
	return next, func() *admin.ConfigurationState { return g.inUse(cfg, kept, diagnostics) }, err
}

// changedFixed returns the names of the changed settings that take effect only after a restart.
func changedFixed(before, after *config.Config) (names []string) {
	for _, setting := range []struct {
		name    string
		changed bool
	}{
		{"gateway.listen", before.Gateway.Listen != after.Gateway.Listen},
		{"gateway.path", before.Gateway.Path != after.Gateway.Path},
		{"gateway.state_dir", before.Gateway.StateDir != after.Gateway.StateDir},
		{"admin.listen", before.Admin.Listen != after.Admin.Listen},
		{"audit.path", auditPath(before) != auditPath(after)},
		{"audit.required", auditRequired(before) != auditRequired(after)},
		{"cluster", !reflect.DeepEqual(before.Cluster, after.Cluster)},
		{"gateway.tls", !sameTLS(before, after)},
	} {
		if setting.changed {
			names = append(names, setting.name)
		}
	}
	return names
}

func auditPath(cfg *config.Config) string {
	if cfg.Audit == nil {
		return ""
	}
	return cfg.Audit.Path
}

func auditRequired(cfg *config.Config) bool { return cfg.Audit != nil && cfg.Audit.Required }

// sameTLS reports whether the TLS settings of the endpoint are equal, including whether it requires
// client certificates.
func sameTLS(before, after *config.Config) bool {
	// Ignore the content of the certificate files, because the gateway reads it again while it
	// serves.
	was, is := before.Gateway.TLS, after.Gateway.TLS
	if was == nil || is == nil {
		return was == is
	}
	a, b := *was, *is
	for _, files := range []*config.ServerTLS{&a, &b} {
		files.Certificate, files.Key = config.Secret{}, config.Secret{}
	}
	return reflect.DeepEqual(a, b) &&
		before.Auth.RequiresClientCertificate() == after.Auth.RequiresClientCertificate()
}

// inUse returns the state of a new configuration for operators, and logs the team files that are
// not in use as written.
func (g *Gateway) inUse(
	cfg *config.Config, kept []config.Kept, diagnostics config.Diagnostics,
) *admin.ConfigurationState {
	now, err := time.Now(), diagnostics.Err()
	state := admin.Loaded(g.loaded.Load(), now, cfg, diagnostics)
	if err == nil {
		return state
	}
	state.Teams = map[string]string{}
	for _, k := range kept {
		became := "kept"
		if k.Out {
			became = "out"
			state.Out = append(state.Out, k.File)
		} else {
			state.LastGood = append(state.LastGood, k.File)
		}
		for _, team := range k.Teams {
			state.Teams[team] = became
		}
		for i := range state.Files {
			state.Files[i].Kept = state.Files[i].Kept || state.Files[i].Name == k.File
		}
	}
	g.logger.ErrorContext(context.Background(), "configuration in use, except for team files that have mistakes",
		slog.String("kept", strings.Join(state.LastGood, ", ")),
		slog.String("out", strings.Join(state.Out, ", ")), slog.Any("error", err))
	return admin.Refused(state, now, err)
}
