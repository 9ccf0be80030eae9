package gateway

import (
	"context"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/promptweir/promptweir/gateway/audit"
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/cluster"
	"github.com/promptweir/promptweir/gateway/requests"
	"github.com/promptweir/promptweir/gateway/snapshot"
)

// Attributes of the gateway's own.
const (
	attrUpstream = attribute.Key("promptweir.upstream")
	attrTeam     = attribute.Key("promptweir.team")
	attrKind     = attribute.Key("promptweir.report.kind")
	attrReason   = attribute.Key("promptweir.reason")
	attrOutcome  = attribute.Key("promptweir.outcome")
	attrHash     = attribute.Key("promptweir.config.hash")
	attrPrompt   = attribute.Key("gen_ai.prompt.name")
)

// gauges are the metrics that are read from a running gateway when they are collected.
type gauges struct {
	entries, reports, healthy, problemSince, breaker, subscribers, loaded, loadedAt, lastGood,
	auditWritable, store, storeEvicts, unsettled, config metric.Int64ObservableGauge

	unsettledAge metric.Float64ObservableGauge
	// gets are those of each prompt, auditLines those of the audit log.
	gets, auditLines, storeOpened metric.Int64ObservableCounter
}

// observe declares a gateway's gauges, until stop is called.
func observe(g *Gateway) (stop func()) {
	meter := otel.Meter(requests.Scope)
	gauge := func(name, unit, description string) metric.Int64ObservableGauge {
		declared, err := meter.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(description))
		handle(err)
		return declared
	}
	all := gauges{
		entries:     gauge("promptweir.catalog.entries", "{entry}", "Prompts in the merged catalog."),
		reports:     gauge("promptweir.catalog.reports", "{report}", "Findings in the catalog that somebody should fix, by kind."),
		healthy:     gauge("promptweir.upstream.healthy", "{upstream}", "1 while an upstream's list is fresh and its gets do not all fail, else 0."),
		subscribers: gauge("promptweir.subscribers", "{stream}", "Open streams of clients that are told of changes."),
		loaded:      gauge("promptweir.config.loaded", "{configuration}", "1 while the configuration that was loaded last is in use, 0 while it was refused."),
		loadedAt:    gauge("promptweir.config.loaded.time", "s", "When the configuration in use was loaded, in seconds since 1970."),
	}
	all.problemSince = gauge("promptweir.upstream.problem.since", "s",
		"Since when an upstream has been in trouble, or not been listed yet, in seconds since 1970, by reason; nothing while it is healthy.")
	all.breaker = gauge("promptweir.breaker.state", "{state}",
		"State of an upstream's breaker: 0 closed, 1 half-open, 2 open; the highest of its endpoints.")
	all.lastGood = gauge("promptweir.config.last_good", "{file}",
		"Team files that are not in use as they are, because of a mistake.")
	all.auditWritable = gauge("promptweir.audit.writable", "{log}", "1 while the audit log can be written, else 0.")
	all.store = gauge("promptweir.cluster.connected", "{store}", "1 while the store that replicas share can be used, 0 while each works alone.")
	all.storeEvicts = gauge("promptweir.cluster.evicts", "{store}", "1 while the store drops limits when its memory is full.")
	all.unsettled = gauge("promptweir.cluster.unsettled", "{list}", "Lists that not all live replicas serve yet, though clients were told.")
	all.config = gauge("promptweir.config.info", "{configuration}", "1, by the hash of the configuration in use, to compare replicas.")
	var err error
	all.unsettledAge, err = meter.Float64ObservableGauge("promptweir.cluster.unsettled.age", metric.WithUnit("s"),
		metric.WithDescription("How long the oldest list has been unsettled; 0 without one."))
	handle(err)
	all.storeOpened, err = meter.Int64ObservableCounter("promptweir.cluster.disconnects", metric.WithUnit("{transition}"),
		metric.WithDescription("How often the store could not be used any more."))
	handle(err)
	all.auditLines, err = meter.Int64ObservableCounter("promptweir.audit.lines", metric.WithUnit("{line}"),
		metric.WithDescription("Lines of the audit log, by outcome: written or lost."))
	handle(err)
	all.gets, err = meter.Int64ObservableCounter("promptweir.prompt.gets", metric.WithUnit("{get}"),
		metric.WithDescription("Gets by prompt, of up to 1000 prompts, and by outcome; without a prompt where the caller sees none of that name."))
	handle(err)
	registration, err := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		all.read(o, g)
		return nil
	}, all.entries, all.reports, all.healthy, all.problemSince, all.breaker, all.subscribers, all.loaded, all.loadedAt, all.lastGood,
		all.gets, all.auditWritable, all.auditLines, all.store,
		all.storeEvicts, all.storeOpened, all.unsettled, all.unsettledAge, all.config)
	if err != nil {
		handle(err)
		return func() {}
	}
	return func() { handle(registration.Unregister()) }
}

// handle takes errors about instruments. They are about invalid names only, and the API returns a
// working no-op beside them.
func handle(err error) {
	if err != nil {
		otel.Handle(err)
	}
}

func (all *gauges) read(o metric.Observer, g *Gateway) {
	s := g.Snapshot()
	o.ObserveInt64(all.subscribers, int64(g.publisher.Subscriptions()))
	o.ObserveInt64(all.entries, int64(len(s.Catalog.Entries())))
	last, inUse := g.loaded.Load(), int64(1)
	if !last.IsInUse() {
		inUse = 0
	}
	o.ObserveInt64(all.loaded, inUse)
	o.ObserveInt64(all.loadedAt, last.Loaded.Unix())
	o.ObserveInt64(all.config, 1, metric.WithAttributes(attrHash.String(s.Config.Hash)))
	o.ObserveInt64(all.lastGood, int64(len(last.LastGood)+len(last.Out)))
	g.requests.PromptGets(func(prompt, outcome string, n int64) {
		labels := []attribute.KeyValue{attrOutcome.String(outcome)}
		if prompt != "" {
			labels = append(labels, attrPrompt.String(prompt))
		}
		o.ObserveInt64(all.gets, n, metric.WithAttributes(labels...))
	})
	if g.opts.Audit != nil {
		all.readAudit(o, g.opts.Audit.State())
	}
	if g.cluster != nil {
		all.readCluster(o, g.cluster)
	}
	kinds := map[catalog.Kind]int64{}
	for _, r := range s.Reports() {
		kinds[r.Kind]++
	}
	for kind, n := range kinds {
		o.ObserveInt64(all.reports, n, metric.WithAttributes(attrKind.String(string(kind))))
	}
	for i, state := range s.States {
		u, healthy := &s.Upstreams[i], int64(0)
		if state.Listed && state.Problem == nil {
			healthy = 1
		}
		common := []attribute.KeyValue{attrUpstream.String(u.Name), attrTeam.String(u.Team)}
		named := metric.WithAttributes(common...)
		o.ObserveInt64(all.healthy, healthy, named)
		o.ObserveInt64(all.breaker, int64(state.Breaker()), named)
		if healthy == 1 {
			continue
		}
		reason, since := snapshot.Starting, g.publisher.Started()
		if p := state.Problem; p != nil {
			reason, since = p.Reason, p.Since
		}
		o.ObserveInt64(all.problemSince, since.Unix(), metric.WithAttributes(append(common, attrReason.String(string(reason)))...))
	}
}

func (all *gauges) readCluster(o metric.Observer, replica *cluster.Replica) {
	state, connected, evicts := replica.State(), int64(0), int64(0)
	if state.Connected {
		connected = 1
	}
	if state.Evicts != "" {
		evicts = 1
	}
	o.ObserveInt64(all.store, connected)
	o.ObserveInt64(all.storeEvicts, evicts)
	o.ObserveInt64(all.storeOpened, int64(state.Opened))
	unsettled, since := replica.Peers.Unsettled()
	o.ObserveInt64(all.unsettled, int64(unsettled))
	age := 0.0
	if unsettled > 0 {
		age = time.Since(since).Seconds()
	}
	o.ObserveFloat64(all.unsettledAge, age)
}

func (all *gauges) readAudit(o metric.Observer, state audit.State) {
	writable := int64(1)
	if state.Problem != nil {
		writable = 0
	}
	o.ObserveInt64(all.auditWritable, writable)
	o.ObserveInt64(all.auditLines, int64(state.Written), metric.WithAttributes(attrOutcome.String("written")))
	o.ObserveInt64(all.auditLines, int64(state.Lost), metric.WithAttributes(attrOutcome.String("lost")))
}
