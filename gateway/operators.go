package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"go.mau.fi/util/exslices"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/admin/console"
	"github.com/promptweir/promptweir/gateway/audit"
	"github.com/promptweir/promptweir/gateway/requests"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/wire"
)

// callAsOperator carries out a get or completion for an operator at the console.
func (g *Gateway) callAsOperator(
	ctx context.Context, o console.Operator, method string, params wire.Object,
) (jsontext.Value, error) {
	caller := requests.Local{Operator: &requests.Operator{Client: o.Client, As: o.As}}
	return g.requests.HandleLocal(ctx, caller, method, params)
}

// connectBound bounds the wait for an attempt to connect that an operator has requested. Most
// servers that are down refuse a connection at once.
const connectBound = 5 * time.Second

// connect makes an upstream attempt to connect now, and records this for the operator at the given
// address. It returns when the snapshot contains the result of the attempt, or after connectBound.
// The error for an unknown name suggests the nearest name.
func (g *Gateway) connect(client, name string) (err error) {
	line := audit.Line{Event: audit.Operator, Client: client, Act: "connect", Upstream: name}
	s := g.Snapshot()
	if i, known := s.Index(name); known {
		line.Team = s.Upstreams[i].Team
		before := s.Connector(name).State().Problem
		s.Connector(name).ConnectNow()
		g.awaitAttempt(name, before)
	} else {
		names := exslices.CastFunc(s.Upstreams, func(u config.Upstream) string { return u.Name })
		err = fmt.Errorf("the configuration has no such upstream: %q%s", name, config.Suggest(name, names))
	}
	records{g.opts.Audit}.result(line, err)
	return err
}

// awaitAttempt waits until the snapshot contains a problem of the upstream other than before, or the
// upstream has recovered. If before is nil, there was no problem, and awaitAttempt returns at once.
func (g *Gateway) awaitAttempt(name string, before *upstream.Problem) {
	bound := time.After(connectBound)
	for before != nil {
		s := g.Snapshot()
		i, known := s.Index(name)
		if !known {
			return
		}
		if now := s.Connector(name).State().Problem; now != before && now == s.States[i].Problem {
			return
		}
		select {
		case <-s.Superseded():
		case <-bound:
			return
		}
	}
}

// errAdminToken lets the log distinguish a refused operator's token from a refused client's token.
var errAdminToken = errors.New("not the token of the admin listener")

// records writes the audit lines about the gateway itself and its operators.
type records struct{ log *audit.Log }

// reload records a reload or its error.
func (r records) reload(err error) { r.result(audit.Line{Event: audit.Reload}, err) }

// act records an operator's action at the admin listener.
func (r records) act(client, act string, err error) {
	r.result(audit.Line{Event: audit.Operator, Client: client, Act: act}, err)
}

// result records a line with its outcome.
func (r records) result(line audit.Line, err error) {
	// If the line cannot be written, the operator's action goes on, because it may be the repair.
	// The log counts the lost line.
	line.Time, line.Outcome = time.Now(), audit.OK
	if err != nil {
		line.Outcome = audit.Failed
	}
	_ = r.log.Write(&line)
}
