package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/admin/console"
	"github.com/promptweir/promptweir/gateway/audit"
	"github.com/promptweir/promptweir/gateway/requests"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream/wire"
)

// operatorCalls returns the function that carries out gets and completions of operators at the
// console.
func operatorCalls(
	h *requests.Handler,
) func(context.Context, console.Operator, string, wire.Object, console.Reply) (jsontext.Value, error) {
	return func(
		ctx context.Context, o console.Operator, method string, params wire.Object, reply console.Reply,
	) (jsontext.Value, error) {
		caller := requests.Local{Operator: &requests.Operator{Client: o.Client, As: o.As}, Reply: reply}
		return h.HandleLocal(ctx, caller, method, params)
	}
}

// setDrained takes an upstream out of service for the operator at an address, or lets it serve
// again, see [snapshot.Publisher.SetDrained].
func (g *Gateway) setDrained(ctx context.Context, client, name string, drained bool) (since time.Time, err error) {
	since, err = g.publisher.SetDrained(ctx, name, drained)
	act := "undrain"
	if drained {
		act = "drain"
	}
	return since, g.recordAct(client, act, name, err)
}

// connect has the servers of an upstream that are waited for connected to at once, see
// [upstream.Connector.ConnectNow].
func (g *Gateway) connect(client, name string) error {
	c := g.Snapshot().Connector(name)
	if c == nil {
		return g.recordAct(client, "connect", name, snapshot.ErrUnknownUpstream)
	}
	c.ConnectNow()
	return g.recordAct(client, "connect", name, nil)
}

// recordAct records what an operator did with an upstream, and returns its error. The text suggests
// the name that was most likely meant.
func (g *Gateway) recordAct(client, act, name string, err error) error {
	line := audit.Line{Event: audit.Operator, Client: client, Act: act, Upstream: name}
	var known []string
	for _, u := range g.Snapshot().Upstreams {
		if known = append(known, u.Name); u.Name == name {
			line.Team = u.Team
		}
	}
	records{g.opts.Audit}.result(line, err)
	if errors.Is(err, snapshot.ErrUnknownUpstream) {
		return fmt.Errorf("%w: %q%s", err, name, config.Suggest(name, known))
	}
	return err
}

// errAdminToken tells a refused token of an operator from a client's in the log.
var errAdminToken = errors.New("not the token of the admin listener")

// records are the lines of the audit log about the gateway itself and its operators.
type records struct{ log *audit.Log }

// reload records that the configuration was loaded again, or why not.
func (r records) reload(err error) { r.result(audit.Line{Event: audit.Reload}, err) }

// act records what an operator did at the admin listener.
func (r records) act(client, act string, err error) {
	r.result(audit.Line{Event: audit.Operator, Client: client, Act: act}, err)
}

// result records a line with the outcome of what it is about.
func (r records) result(line audit.Line, err error) {
	// That it cannot be written holds up no operator, least of all the one who mends that; the log
	// counts it.
	line.Time, line.Outcome = time.Now(), audit.OK
	if err != nil {
		line.Outcome = audit.Failed
	}
	_ = r.log.Write(&line)
}
