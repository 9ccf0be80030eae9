package gateway

import (
	"time"

	"github.com/promptweir/promptweir/gateway/audit"
)

// auditReload records that the configuration was loaded again, or why not.
func (g *Gateway) auditReload(err error) { g.auditResult(audit.Line{Event: audit.Reload}, err) }

// auditAct records what an operator did at the admin listener.
func (g *Gateway) auditAct(client, act string, err error) {
	g.auditResult(audit.Line{Event: audit.Operator, Client: client, Act: act}, err)
}

// refusedOperator counts a token that the admin listener refused, and records it if it is more than one of many.
func (g *Gateway) refusedOperator(client, reason string, news bool) {
	g.transport.CountRefused(reason)
	if news {
		_ = g.opts.Audit.Write(&audit.Line{
			Time: time.Now(), Event: audit.Credential, Client: client, Act: "admin", Outcome: audit.Refused, Reason: reason,
		})
	}
}

// auditResult records a line with the outcome of what it is about. That it cannot be written holds up no operator, least of all
// the one who mends that; the log counts it.
func (g *Gateway) auditResult(line audit.Line, err error) {
	line.Time, line.Outcome = time.Now(), audit.OK
	if err != nil {
		line.Outcome = audit.Failed
	}
	_ = g.opts.Audit.Write(&line)
}
