package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/audit"
	"github.com/promptweir/promptweir/gateway/snapshot"
)

// setDrained takes an upstream out of service for the operator at an address, or lets it serve again, see
// [snapshot.Publisher.SetDrained]. The error's text suggests the name that was most likely meant.
func (g *Gateway) setDrained(ctx context.Context, client, name string, drained bool) (since time.Time, err error) {
	since, err = g.drainEverywhere(ctx, name, drained)
	line := audit.Line{Event: audit.Operator, Client: client, Act: "undrain", Upstream: name}
	if drained {
		line.Act = "drain"
	}
	var known []string
	for _, u := range g.Snapshot().Upstreams {
		if known = append(known, u.Name); u.Name == name {
			line.Team = u.Team
		}
	}
	g.auditResult(line, err)
	if errors.Is(err, snapshot.ErrUnknownUpstream) {
		return since, fmt.Errorf("%w: %q%s", err, name, config.Suggest(name, known))
	}
	return since, err
}
