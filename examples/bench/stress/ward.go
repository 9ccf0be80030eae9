package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/promptweir/promptweir/examples/bench/internal/rig"
)

const (
	// illName is the upstream that a fault befalls, the others are neighbours.
	illName = "ill"
	// promptName is the prompt that is got, otherPromptName one that only another list has.
	promptName      = "first"
	otherPromptName = "changed"

	// callTimeout is the timeout of each upstream.
	callTimeout = 3 * time.Second
	// before is how long callers are watched before the fault begins, least how long it lasts in any case.
	before = 2 * time.Second
	least  = 5 * time.Second
	// afterSign is how long the fault lasts after the first error, or until it is seen everywhere.
	afterSign = 4 * time.Second
	// longest and longestIdle bound how long a fault lasts.
	longest     = 10 * time.Second
	longestIdle = 38 * time.Second
	// convalescence bounds how long is waited until the server is well again.
	convalescence = 25 * time.Second
	// subsiding bounds how long is waited until the gateway has no more in use than before.
	subsiding = 8 * time.Second
	// interval is how often operators and clients look.
	interval = 50 * time.Millisecond
	// getTimeout bounds a get, longer than any fault lasts.
	getTimeout = time.Minute
)

// Gets per second of each caller.
const (
	neighbourRate = 50
	illRate       = 20
)

// outcome is what was seen of a fault.
type outcome struct {
	fault *fault
	// gets are those of the ill server while the fault lasted, and until it had healed.
	gets []rig.Got
	// seen is when each place marked the fault, after its first sign or, if no get showed it, after it began.
	seen map[string]time.Duration
	// healed is how long after the end of the fault all was well again; negative if it was not.
	healed time.Duration
	// relisted says that the new list was seen.
	relisted bool
	// neighbours are the gets of the other servers. P99Before is the 99th percentile of those before the fault, and p99Control that
	// of a gateway to which nothing happened meanwhile.
	neighbours            []rig.Got
	p99Before, p99Control time.Duration
	// memory is how much more memory than before the gateway had in use at most, in bytes; left is what it still has in use of
	// goroutines and descriptors.
	memory int64
	left   usage
	// err is why the fault could not be brought about or watched.
	err error
}

// usage is what a gateway has in use.
type usage struct {
	memory                  int64 // in bytes
	goroutines, descriptors int
}

func usageOf(ctx context.Context, g *rig.Gateway) (u usage, err error) {
	_, u.memory, err = g.Usage()
	descriptors, errDescriptors := g.Descriptors()
	text, errMetrics := rig.Fetch(ctx, http.MethodGet, g.Admin+"/metrics")
	if err := errors.Join(err, errDescriptors, errMetrics); err != nil {
		return u, err
	}
	goroutines, err := rig.Metric(text, "go_goroutines")
	u.descriptors, u.goroutines = descriptors, int(goroutines)
	return u, err
}

// runFaults runs all faults, some at a time, each with a gateway of its own, and prints what was seen.
func runFaults(ctx context.Context, s *settings) error {
	t, err := rig.StartToxiproxy(ctx, s.bin)
	if err != nil {
		return err
	}
	defer t.Stop()
	control := newWard() // in which nothing happens: what the machine does slows it as it slows the others
	defer control.close()
	if err := control.open(ctx, s, nil, &fault{}, 0); err != nil {
		return err
	}
	control.call(ctx, false)
	var (
		outcomes []*outcome
		group    errgroup.Group
		broken   error
	)
	begun := time.Now()
	group.SetLimit(s.wards)
	all := faults()
	for i := range all {
		if s.only.MatchString(all[i].name) {
			o := &outcome{fault: &all[i], seen: map[string]time.Duration{}, healed: -1}
			outcomes = append(outcomes, o)
			group.Go(func() error {
				o.watch(ctx, s, t, control, i)
				fmt.Fprintf(os.Stderr, "%s: %v\n", o.fault.name, append(o.broken(s.busy), "done"))
				return nil
			})
		}
	}
	_ = group.Wait() // what failed is in the outcomes
	fmt.Print(table(outcomes))
	for _, o := range outcomes {
		if all := o.broken(s.busy); len(all) > 0 {
			broken = errors.Join(broken, fmt.Errorf("%s: %s", o.fault.name, strings.Join(all, "; ")))
		}
	}
	fmt.Printf("\n%d faults in %v\n", len(outcomes), time.Since(begun).Round(time.Second))
	if s.write != "" {
		broken = errors.Join(broken, writeTable(s.write, table(outcomes)))
	}
	return broken
}

// ward is a gateway in front of a server that falls ill, and two neighbours.
type ward struct {
	dir        string
	gateway    *rig.Gateway
	patient    *patient
	neighbours []*rig.Process
	client     rig.Client
	// callers get prompts: the first of the ill server, the others of its neighbours.
	callers []*rig.Paced
}

func newWard() *ward {
	transport := &http.Transport{MaxIdleConnsPerHost: 512, IdleConnTimeout: time.Minute}
	return &ward{client: rig.Client{Transport: transport}}
}

func (o *outcome) watch(ctx context.Context, s *settings, t *rig.Toxiproxy, control *ward, id int) {
	w := newWard()
	defer w.close()
	if o.err = w.open(ctx, s, t, o.fault, id); o.err == nil {
		o.err = w.run(ctx, o, control)
	}
	if o.err != nil && w.gateway != nil && s.verbose {
		fmt.Fprintln(os.Stderr, w.gateway.Log())
	}
}

func (w *ward) open(ctx context.Context, s *settings, t *rig.Toxiproxy, f *fault, id int) (err error) {
	if w.dir, err = os.MkdirTemp("", "ward"); err != nil {
		return err
	}
	if w.patient, err = admit(ctx, t, w.dir, f, id); err != nil {
		return err
	}
	upstreams := map[string]string{illName: w.patient.block}
	for name, era := range map[string]string{"neighbour1": "-modern=false", "neighbour2": "-modern=true"} {
		neighbour, err := startServer(ctx, era)
		if err != nil {
			return err
		}
		w.neighbours = append(w.neighbours, neighbour)
		upstreams[name] = fmt.Sprintf("url = %q", neighbour.Endpoint)
	}
	var text strings.Builder
	text.WriteString("gateway { listen = \"127.0.0.1:0\" }\nadmin { listen = \"127.0.0.1:0\" }\nteam \"ward\" {\n")
	for name, body := range upstreams {
		fmt.Fprintf(&text, "  upstream %q {\n    %s\n    timeout = %q\n  }\n", name, body, callTimeout)
	}
	text.WriteString("}\n")
	w.gateway, err = rig.StartGateway(ctx, text.String(), nil, w.patient.command(s.promptweir())...)
	if err == nil {
		w.client.Endpoint = w.gateway.Endpoint
	}
	return err
}

// call begins gets, of the ill server unless it is idle, and of its neighbours.
func (w *ward) call(ctx context.Context, idle bool) {
	for name, perSecond := range map[string]int{"neighbour1": neighbourRate, "neighbour2": neighbourRate} {
		w.callers = append(w.callers, rig.Pace(ctx, perSecond, w.get(name)))
	}
	perSecond := illRate
	if idle {
		perSecond = 1 // it is stopped at once
	}
	ill := rig.Pace(ctx, perSecond, w.get(illName))
	if idle {
		ill.Stop()
	}
	w.callers = append([]*rig.Paced{ill}, w.callers...)
}

func (w *ward) get(upstream string) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, getTimeout)
		defer cancel()
		return w.client.Get(ctx, upstream+"."+promptName)
	}
}

func (w *ward) close() {
	for _, c := range w.callers {
		c.Stop()
	}
	if w.gateway != nil {
		w.gateway.Stop()
	}
	if w.patient != nil {
		w.patient.close()
	}
	for _, neighbour := range w.neighbours {
		_ = neighbour.Kill() // it has served its purpose
	}
	w.disconnect()
	_ = os.RemoveAll(w.dir) // a temporary folder
}

func (w *ward) disconnect() {
	if t, ok := w.client.Transport.(*http.Transport); ok {
		t.CloseIdleConnections()
	}
}

func (w *ward) run(ctx context.Context, o *outcome, control *ward) error {
	w.call(ctx, o.fault.idle)
	started := time.Now()
	if err := rig.Eventually(convalescence, func() error {
		marked, prompts, err := w.observe(ctx)
		if err == nil && (len(marked) > 0 || !slices.Contains(prompts, illName+"."+promptName)) {
			err = fmt.Errorf("not well at the start: marked in %v, lists %v", marked, prompts)
		}
		return err
	}); err != nil {
		return err
	}
	if err := rig.Pause(ctx, before); err != nil {
		return err
	}
	o.p99Before = rig.QuantileOf(w.ofNeighbours(started.Add(before/4)), 99)
	was, err := usageOf(ctx, w.gateway)
	if err != nil {
		return err
	}
	begun := time.Now()
	if err := o.fault.begin(ctx, w.patient); err != nil {
		return fmt.Errorf("begin the fault: %w", err)
	}
	if err := w.watchIllness(ctx, o, begun, was); err != nil {
		return err
	}
	ended := time.Now()
	if err := o.fault.end(ctx, w.patient); err != nil {
		return fmt.Errorf("end the fault: %w", err)
	}
	if err := w.watchRecovery(ctx, o, ended, was); err != nil {
		return err
	}
	o.gets = w.callers[0].Since(begun)
	o.neighbours, o.p99Control = w.ofNeighbours(begun), rig.QuantileOf(control.ofNeighbours(begun), 99)
	for _, c := range w.callers {
		c.Stop()
	}
	w.disconnect() // which the gateway has open, too
	for deadline := time.Now().Add(subsiding); ; {
		now, err := usageOf(ctx, w.gateway)
		if err != nil {
			return err
		}
		o.left = usage{goroutines: now.goroutines - was.goroutines, descriptors: now.descriptors - was.descriptors}
		if !o.left.tooMuch() || time.Now().After(deadline) {
			return nil
		}
		if err := rig.Pause(ctx, interval); err != nil {
			return err
		}
	}
}

func (w *ward) ofNeighbours(begin time.Time) []rig.Got {
	return slices.Concat(w.callers[1].Since(begin), w.callers[2].Since(begin))
}

// watchIllness watches until the fault has lasted long enough, and notes when each place shows it.
func (w *ward) watchIllness(ctx context.Context, o *outcome, begun time.Time, was usage) error {
	bound := longest
	if o.fault.idle {
		bound = longestIdle
	}
	shown, sign := map[string]time.Time{}, time.Time{}
	for time.Since(begun) < bound {
		marked, _, err := w.observe(ctx)
		if err != nil {
			return err
		}
		for _, place := range marked {
			if shown[place].IsZero() {
				shown[place] = time.Now()
			}
		}
		if err := w.weigh(o, was); err != nil {
			return err
		}
		if failed := failures(w.callers[0].Since(begun)); len(failed) > 0 {
			sign = failed[0].Began.Add(failed[0].Took)
		}
		everywhere := len(shown) == len(places()) || o.fault.unmarked
		if time.Since(begun) > least && (everywhere && (o.fault.idle || !sign.IsZero() || o.fault.unmarked) || !sign.IsZero() && time.Since(sign) > afterSign) {
			break
		}
		if err := rig.Pause(ctx, interval); err != nil {
			return err
		}
	}
	if sign.IsZero() {
		sign = begun
	}
	for place, at := range shown {
		o.seen[place] = max(at.Sub(sign), 0)
	}
	return nil
}

func (w *ward) weigh(o *outcome, was usage) error {
	_, memory, err := w.gateway.Usage()
	o.memory = max(o.memory, memory-was.memory)
	return err
}

// watchRecovery waits until the server is well, everywhere, and for long enough that it is not by chance.
func (w *ward) watchRecovery(ctx context.Context, o *outcome, ended time.Time, was usage) error {
	wanted := illName + "." + promptName
	if o.fault.relisted {
		wanted = illName + "." + otherPromptName
	}
	well := time.Time{}
	for time.Since(ended) < convalescence {
		var last error // of the get of the ill server that ended last
		if o.fault.idle {
			last = w.get(illName)(ctx)
		} else if gets := w.callers[0].Since(time.Time{}); len(gets) > 0 {
			last = gets[len(gets)-1].Err
		}
		marked, prompts, err := w.observe(ctx)
		if err := errors.Join(err, w.weigh(o, was)); err != nil {
			return err
		}
		now := time.Now()
		o.relisted = slices.Contains(prompts, wanted)
		switch {
		case len(marked) > 0 || !o.relisted || last != nil:
			well = time.Time{}
		case well.IsZero():
			well = now
		case now.Sub(well) > time.Second:
			o.healed = well.Sub(ended)
			return nil
		}
		if err := rig.Pause(ctx, interval); err != nil {
			return err
		}
	}
	return nil
}

// Places where the gateway shows that an upstream is ill.
const (
	readyzPlace = "/readyz"
	pagePlace   = "console"
	metricPlace = "metric"
	listPlace   = "list"
)

func places() []string { return []string{readyzPlace, pagePlace, metricPlace, listPlace} }

var (
	pageRow = regexp.MustCompile(`<li class="card (\w+)" data-upstream="` + illName + `">`)
	metric  = regexp.MustCompile(`(?m)^promptweir_upstream_healthy\{[^}]*upstream="` + illName + `"[^}]*\} (\d)`)
)

// observe returns the places that show the upstream as ill, to operators and clients, and its prompts in the list.
func (w *ward) observe(ctx context.Context) (marked, prompts []string, err error) {
	var health struct {
		Upstreams []struct{ Name, Reason string }
	}
	text, err := w.page(ctx, "/readyz")
	if err == nil {
		err = json.Unmarshal(text, &health)
	}
	for _, u := range health.Upstreams {
		if u.Name == illName && u.Reason != "" {
			marked = append(marked, readyzPlace)
		}
	}
	console, errConsole := w.page(ctx, "/upstreams")
	metrics, errMetrics := w.page(ctx, "/metrics")
	list, errList := w.client.Page(ctx, "")
	if err := errors.Join(err, errConsole, errMetrics, errList); err != nil {
		return nil, nil, err
	}
	row, value := pageRow.FindSubmatch(console), metric.FindSubmatch(metrics)
	if row == nil || value == nil {
		return nil, nil, fmt.Errorf("the console or the metrics have no upstream %s", illName)
	}
	if string(row[1]) != "good" {
		marked = append(marked, pagePlace)
	}
	if bytes.Equal(value[1], []byte("0")) {
		marked = append(marked, metricPlace)
	}
	for _, p := range list.Prompts {
		prompts = append(prompts, p.Name)
	}
	for _, u := range list.Meta.Partial {
		if u.Upstream == illName {
			marked = append(marked, listPlace)
		}
	}
	return marked, prompts, nil
}

// page returns a page of the admin listener, whatever its status.
func (w *ward) page(ctx context.Context, path string) ([]byte, error) {
	response, err := w.client.Send(ctx, http.MethodGet, w.gateway.Admin+path, "")
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	return io.ReadAll(response.Body)
}
