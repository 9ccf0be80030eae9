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
	"github.com/promptweir/promptweir/gateway/snapshot"
)

// errNoLoad means that [Options] has no Load.
var errNoLoad = errors.New("the gateway cannot reload: it was started without a way to load its configuration")

// Reload loads the configuration again and puts it into use. Files of teams with mistakes do not
// hold up the rest: what is in use in their place is in [Gateway.Ready]. An error means that
// nothing has changed: its text says what is wrong with the configuration, and holds nothing
// sensitive. To be called while [Gateway.Run] runs; reloads happen one after another.
//
// Connectors whose upstream block is unchanged stay, with their sessions and calls. The others are
// replaced, or end, once their calls in flight are over.
func (g *Gateway) Reload(ctx context.Context) error {
	// With room, so that the supervisor does not wait for a caller that has left.
	done := make(chan error, 1)
	select {
	case g.reloads <- done:
	case <-g.publisher.Stopped():
		return snapshot.ErrStopped
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	// From here on the reload is carried out, even if ctx ends first.
	case err := <-done:
		return err
	case <-g.publisher.Stopped():
		return snapshot.ErrStopped
	case <-ctx.Done():
		return ctx.Err()
	}
}

// load returns the generation that is to replace another one, and what is to be said about its
// configuration once it is in use.
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

// changedFixed names the settings that differ and that a running gateway cannot change.
func changedFixed(before, after *config.Config) (names []string) {
	for _, setting := range []struct{ name, before, after string }{
		{"gateway.listen", before.Gateway.Listen, after.Gateway.Listen},
		{"gateway.path", before.Gateway.Path, after.Gateway.Path},
		{"gateway.state_dir", before.Gateway.StateDir, after.Gateway.StateDir},
		{"admin.listen", before.Admin.Listen, after.Admin.Listen},
		{"audit.path", auditPath(before), auditPath(after)},
	} {
		if setting.before != setting.after {
			names = append(names, setting.name)
		}
	}
	if auditRequired(before) != auditRequired(after) {
		names = append(names, "audit.required")
	}
	if !reflect.DeepEqual(before.Cluster, after.Cluster) {
		names = append(names, "cluster")
	}
	if !sameTLS(before, after) {
		names = append(names, "gateway.tls")
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

// sameTLS reports whether the endpoint's connections would be set up in the same way.
func sameTLS(before, after *config.Config) bool {
	// The content of the certificate's files does not count: it is read again while the gateway
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

// inUse says what became of a configuration that is in use from now on, and logs what of it is not.
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
