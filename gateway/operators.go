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
	"github.com/promptweir/promptweir/upstream/wire"
)

// operatorCalls returns the function that carries out gets and completions of operators at the
// console.
func operatorCalls(
	h *requests.Handler,
) func(context.Context, console.Operator, string, wire.Object) (jsontext.Value, error) {
	return func(
		ctx context.Context, o console.Operator, method string, params wire.Object,
	) (jsontext.Value, error) {
		caller := requests.Local{Operator: &requests.Operator{Client: o.Client, As: o.As}}
		return h.HandleLocal(ctx, caller, method, params)
	}
}

// connect ends an upstream's wait for the next attempt to connect, for the operator at an address, and
// records that. The error's text suggests the name that was most likely meant.
func (g *Gateway) connect(client, name string) (err error) {
	line := audit.Line{Event: audit.Operator, Client: client, Act: "connect", Upstream: name}
	s := g.Snapshot()
	if i, known := s.Index(name); known {
		line.Team = s.Upstreams[i].Team
		s.Connector(name).ConnectNow()
	} else {
		var names []string
		for _, u := range s.Upstreams {
			names = append(names, u.Name)
		}
		err = fmt.Errorf("the configuration has no such upstream: %q%s", name, config.Suggest(name, names))
	}
	records{g.opts.Audit}.result(line, err)
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
