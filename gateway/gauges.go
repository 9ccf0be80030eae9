package gateway

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/promptweir/promptweir/gateway/audit"
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/cluster"
	"github.com/promptweir/promptweir/gateway/requests"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream"
)

// The gateway's own attributes.
const (
	attrKind    = attribute.Key("promptweir.report.kind")
	attrOutcome = attribute.Key("promptweir.outcome")
	attrHash    = attribute.Key("promptweir.config.hash")
)

// CertificateExpiry is the name of the gauge for the expiry of certificates, in seconds since 1970:
// the endpoint's certificate, which the process observes, and client certificates for upstreams.
const (
	CertificateExpiry     = "promptweir.certificate.expiry.timestamp"
	CertificateExpiryHelp = "Expiry of certificates, in seconds since 1970: the endpoint's, " +
		"and those for upstreams."
)

// gaugeTable and counterTable contain the name, unit and description of each metric that is read
// from a running gateway at collection.
//
//nolint:gochecknoglobals // constant tables
var (
	gaugeTable = [][3]string{
		{"promptweir.catalog.entries", "{entry}", "Prompts in the merged catalog."},
		{"promptweir.catalog.reports", "{report}", "Findings in the catalog, by kind."},
		{"promptweir.upstream.healthy", "{upstream}", "1 while an upstream's list is fresh " +
			"and its gets do not all fail, else 0."},
		{"promptweir.upstream.problem.timestamp", "s", "Start of an upstream's trouble, in " +
			"seconds since 1970, by reason; absent while it is healthy."},
		{"promptweir.breaker.state", "{state}", "State of an upstream's breaker: " +
			"0 closed, 1 half-open, 2 open; the highest of its endpoints."},
		{"promptweir.subscribers", "{stream}", "Open streams of clients for notifications of changes."},
		{"promptweir.config.loaded", "{configuration}", "1 while the newest configuration is " +
			"in use, 0 while it is refused."},
		{"promptweir.config.loaded.timestamp", "s", "Load time of the configuration in use, in " +
			"seconds since 1970."},
		{"promptweir.config.last_good", "{file}", "Team files with mistakes, which are not in " +
			"use as written."},
		{"promptweir.config.info", "{configuration}", "1, by the hash of the configuration in use, " +
			"to compare replicas."},
		{CertificateExpiry, "s", CertificateExpiryHelp},
		{"promptweir.audit.writable", "{log}", "1 while the audit log can be written, else 0."},
		{"promptweir.cluster.connected", "{store}", "1 while the store that replicas share can be used, " +
			"0 while each counts limits alone."},
		{"promptweir.cluster.evicts", "{store}", "1 while the store drops limits when its memory is full."},
	}
	counterTable = [][3]string{
		{"promptweir.prompt.gets", "{get}", "Gets by prompt (up to 1000) and outcome; without " +
			"a prompt if the caller sees none of that name."},
		{"promptweir.audit.lines", "{line}", "Lines of the audit log, by outcome: written or lost."},
		{"promptweir.cluster.disconnects", "{transition}", "Losses of the store."},
	}
)

// readings observes the values of a gateway's metrics during one collection.
type readings struct {
	metric.Observer

	instruments map[string]metric.Int64Observable
}

// set sets the value of a metric for the given attributes.
func (r *readings) set(name string, value int64, attributes ...attribute.KeyValue) {
	r.ObserveInt64(r.instruments[name], value, metric.WithAttributes(attributes...))
}

// setIf sets a metric to 1 if the condition is true, and otherwise to 0.
func (r *readings) setIf(name string, is bool, attributes ...attribute.KeyValue) {
	value := int64(0)
	if is {
		value = 1
	}
	r.set(name, value, attributes...)
}

// observe registers a gateway's metrics until stop is called. The API returns an error only for an
// invalid name, together with a no-op instrument.
func observe(g *Gateway) (stop func()) {
	handle := func(err error) {
		if err != nil {
			otel.Handle(err)
		}
	}
	meter, r := otel.Meter(requests.InstrumentationScope), readings{instruments: map[string]metric.Int64Observable{}}
	var all []metric.Observable
	for _, row := range gaugeTable {
		gauge, err := meter.Int64ObservableGauge(row[0], metric.WithUnit(row[1]), metric.WithDescription(row[2]))
		handle(err)
		r.instruments[row[0]], all = gauge, append(all, gauge)
	}
	for _, row := range counterTable {
		counter, err := meter.Int64ObservableCounter(row[0], metric.WithUnit(row[1]), metric.WithDescription(row[2]))
		handle(err)
		r.instruments[row[0]], all = counter, append(all, counter)
	}
	registration, err := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		// Copy r, because several readers may collect at the same time.
		now := r
		now.Observer = o
		now.read(g)
		return nil
	}, all...)
	if err != nil {
		handle(err)
		return func() {}
	}
	return func() { handle(registration.Unregister()) }
}

func (r *readings) read(g *Gateway) {
	s, last := g.Snapshot(), g.loaded.Load()
	r.set("promptweir.subscribers", int64(g.publisher.Subscriptions()))
	r.set("promptweir.catalog.entries", int64(len(s.Catalog.Entries())))
	r.setIf("promptweir.config.loaded", last.IsInUse())
	r.set("promptweir.config.loaded.timestamp", last.Loaded.Unix())
	r.set("promptweir.config.info", 1, attrHash.String(s.Config.Hash))
	r.set("promptweir.config.last_good", int64(len(last.LastGood)+len(last.Out)))
	g.requests.PromptGets(func(prompt, outcome string, n int64) {
		labels := []attribute.KeyValue{attrOutcome.String(outcome)}
		if prompt != "" {
			labels = append(labels, upstream.AttrPrompt.String(prompt))
		}
		r.set("promptweir.prompt.gets", n, labels...)
	})
	if g.opts.Audit != nil {
		r.readAudit(g.opts.Audit.State())
	}
	if g.cluster != nil {
		r.readCluster(g.cluster)
	}
	kinds := map[catalog.Kind]int64{}
	for _, report := range s.Reports() {
		kinds[report.Kind]++
	}
	for kind, n := range kinds {
		r.set("promptweir.catalog.reports", n, attrKind.String(string(kind)))
	}
	for i, state := range s.States {
		healthy := state.Listed && state.Problem == nil
		named := []attribute.KeyValue{
			upstream.AttrUpstream.String(s.Upstreams[i].Name), upstream.AttrTeam.String(s.Upstreams[i].Team),
		}
		r.setIf("promptweir.upstream.healthy", healthy, named...)
		r.set("promptweir.breaker.state", int64(state.Breaker), named...)
		if expires := s.Upstreams[i].TLS.Expires(); !expires.IsZero() {
			r.set(CertificateExpiry, expires.Unix(), named...)
		}
		if healthy {
			continue
		}
		reason, since := snapshot.Starting, g.publisher.Started()
		if p := state.Problem; p != nil {
			reason, since = p.Reason, p.Since
		}
		named = append(named, upstream.AttrReason.String(string(reason)))
		r.set("promptweir.upstream.problem.timestamp", since.Unix(), named...)
	}
}

func (r *readings) readCluster(replica *cluster.Replica) {
	state := replica.State()
	r.setIf("promptweir.cluster.connected", state.Connected)
	r.setIf("promptweir.cluster.evicts", state.Evicts != "")
	r.set("promptweir.cluster.disconnects", int64(state.Opened))
}

func (r *readings) readAudit(state audit.State) {
	r.setIf("promptweir.audit.writable", state.Problem == nil)
	r.set("promptweir.audit.lines", int64(state.Written), attrOutcome.String("written"))
	r.set("promptweir.audit.lines", int64(state.Lost), attrOutcome.String("lost"))
}
