package gateway

import (
	"net"
	"time"

	"github.com/promptweir/promptweir/gateway/audit"
)

// auditReload records that the configuration was loaded again, or why not.
func (g *Gateway) auditReload(err error) { g.auditResult(audit.Line{Event: audit.Reload}, err) }

// auditAct records what an operator did at the admin listener.
func (g *Gateway) auditAct(client, act string, err error) {
	g.auditResult(audit.Line{Event: audit.Operator, Client: hostOf(client), Act: act}, err)
}

// auditOperator records a token that the admin listener refused.
func (g *Gateway) auditOperator(client string) {
	_ = g.opts.Audit.Write(&audit.Line{
		Time: time.Now(), Event: audit.Credential, Client: hostOf(client), Act: "admin", Outcome: audit.Refused, Reason: "bad",
	})
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

// hostOf returns the host of a network address.
func hostOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return host
}
