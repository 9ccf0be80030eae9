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

	"github.com/promptweir/promptweir/upstream/upstreamtest"

	"golang.org/x/sync/errgroup"

	"github.com/promptweir/promptweir/config"
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
	// before is how long callers are watched before the fault begins, least how long it lasts in any
	// case.
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
	// faultsAtOnce is how many faults run at the same time.
	faultsAtOnce = 3
)

// Gets per second of each caller.
const (
	neighbourRate = 50
	illRate       = 20
)

// runFaults runs all faults, some at a time, each with a gateway of its own, and prints what was seen.
func (s *settings) runFaults(ctx context.Context) (broken error) {
	err := rig.Run(ctx, func(st *rig.Stage) {
		// A run without a fault: a busy machine slows it as it slows the others.
		control := open(st, s, &fault{})
		control.call(false)
		var outcomes []*outcome
		var group errgroup.Group
		begun := time.Now()
		group.SetLimit(faultsAtOnce)
		all := faults()
		for i := range all {
			if s.only.MatchString(all[i].name) {
				o := &outcome{fault: &all[i], seen: map[string]time.Duration{}, healed: -1}
				outcomes = append(outcomes, o)
				group.Go(func() error {
					o.err = rig.Run(ctx, func(st *rig.Stage) { open(st, s, o.fault).run(o, control) })
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
			writeTable(s.write, table(outcomes))
		}
	})
	return errors.Join(err, broken)
}

// faultRun is a gateway in front of a server that falls ill, and two neighbours.
type faultRun struct {
	st           *rig.Stage
	gateway      *rig.Gateway
	faultyServer *faultyServer
	transport    *http.Transport
	client       upstreamtest.Client
	// callers get prompts: the first of the ill server, the others of its neighbours.
	callers []*rig.Paced
}

func open(st *rig.Stage, s *settings, f *fault) *faultRun {
	w := &faultRun{
		st: st, faultyServer: admit(st, f),
		transport: &http.Transport{MaxIdleConnsPerHost: 8192, IdleConnTimeout: time.Minute},
	}
	timeout := callTimeout
	if f.workers > 0 {
		timeout = config.DefaultTimeout
	}
	var text strings.Builder
	text.WriteString("gateway { listen = \"127.0.0.1:0\" }\nadmin { listen = \"127.0.0.1:0\" }\nteam \"rig\" {\n")
	for name, body := range map[string]string{
		illName:      w.faultyServer.block,
		"neighbour1": fmt.Sprintf("url = %q", st.Serve(newNeighbour(true))),
		"neighbour2": fmt.Sprintf("url = %q", st.Serve(newNeighbour(false))),
	} {
		fmt.Fprintf(&text, "  upstream %q {\n    %s\n    timeout = %q\n  }\n", name, body, timeout)
	}
	text.WriteString("}\n")
	w.gateway = st.Gateway(text.String(), s.build)
	w.client = upstreamtest.Client{Transport: w.transport, Endpoint: w.gateway.Endpoint}
	st.Defer(w.transport.CloseIdleConnections)
	return w
}

func newNeighbour(legacy bool) *upstreamtest.Peer {
	return upstreamtest.NewLoadPeer(legacy, 300, upstreamtest.Prompt(promptName, "A prompt of a server that is well"))
}

// call begins gets, of the ill server unless it is idle, and of its neighbours.
func (w *faultRun) call(idle bool) {
	for name, perSecond := range map[string]float64{"neighbour1": neighbourRate, "neighbour2": neighbourRate} {
		w.callers = append(w.callers, rig.Pace(w.st.Context(), perSecond, w.get(name)))
	}
	ill := rig.Pace(w.st.Context(), illRate, w.get(illName))
	if idle {
		ill.Stop()
	}
	w.callers = append([]*rig.Paced{ill}, w.callers...)
	w.st.Defer(w.stop)
}

func (w *faultRun) stop() {
	for _, c := range w.callers {
		c.Stop()
	}
}

func (w *faultRun) get(upstream string) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, getTimeout)
		defer cancel()
		return w.client.Get(ctx, upstream+"."+promptName)
	}
}

// run has the fault of an outcome begin and end, and notes what is seen of it.
func (w *faultRun) run(o *outcome, control *faultRun) {
	w.call(o.fault.idle)
	started := time.Now()
	rig.Check(rig.Eventually(convalescence, func() error {
		marked, prompts := w.observe()
		if len(marked) > 0 || !slices.Contains(prompts, illName+"."+promptName) {
			return fmt.Errorf("not well at the start: marked in %v, lists %v", marked, prompts)
		}
		return nil
	}))
	w.st.Pause(before)
	o.p99Before = w.ofNeighbours(started.Add(before / 4)).Quantile(99)
	was := w.usage()
	begun := time.Now()
	o.fault.begin(w.faultyServer)
	w.watchIllness(o, begun, was)
	ended := time.Now()
	o.fault.end(w.faultyServer)
	w.watchRecovery(o, ended, was)
	o.gets, o.neighbours = w.callers[0].Since(begun), w.ofNeighbours(begun)
	o.p99Control = control.ofNeighbours(begun).Quantile(99)
	w.stop()
	o.left = w.left(was, maxLeft)
}

// usage is what a gateway has in use.
type usage struct {
	memory                  int64 // in bytes
	goroutines, descriptors int
}

func (w *faultRun) usage() (u usage) {
	_, u.memory = w.gateway.Usage()
	text := rig.Must(rig.Fetch(w.st.Context(), http.MethodGet, w.gateway.Admin+"/metrics"))
	u.descriptors, u.goroutines = w.gateway.Descriptors(), int(rig.Must(rig.Metric(text, "go_goroutines")))
	return u
}

// left returns what the gateway still has in use beyond what it had, once that is little or a while has
// passed.
func (w *faultRun) left(was usage, connections int) (more usage) {
	w.transport.CloseIdleConnections()           // which the gateway has open, too
	_ = rig.Eventually(subsiding, func() error { // what is left says whether it was in vain
		now := w.usage()
		more = usage{goroutines: now.goroutines - was.goroutines, descriptors: now.descriptors - was.descriptors}
		if more.tooMuch(connections) {
			return errors.New("too much is in use")
		}
		return nil
	})
	return more
}

func (w *faultRun) ofNeighbours(begin time.Time) rig.Gots {
	return slices.Concat(w.callers[1].Since(begin), w.callers[2].Since(begin))
}

// watchIllness watches until the fault has lasted long enough, and notes when each of the showers shows
// it.
func (w *faultRun) watchIllness(o *outcome, begun time.Time, was usage) {
	bound := longest
	if o.fault.idle {
		bound = longestIdle
	}
	shown, sign := map[string]time.Time{}, time.Time{}
	for ; time.Since(begun) < bound; w.st.Pause(interval) {
		marked, _ := w.observe()
		for _, where := range marked {
			if shown[where].IsZero() {
				shown[where] = time.Now()
			}
		}
		w.weigh(o, was)
		if failed := w.callers[0].Since(begun).Failed(); len(failed) > 0 {
			sign = failed[0].Began.Add(failed[0].Took)
		}
		everywhere := len(shown) == len(showers()) || o.fault.unmarked
		signed := !sign.IsZero()
		if time.Since(begun) > least && (everywhere && (o.fault.idle || signed || o.fault.unmarked) ||
			signed && time.Since(sign) > afterSign) {
			break
		}
	}
	if sign.IsZero() {
		sign = begun
	}
	for where, at := range shown {
		o.seen[where] = max(at.Sub(sign), 0)
	}
}

func (w *faultRun) weigh(o *outcome, was usage) {
	_, memory := w.gateway.Usage()
	o.memory = max(o.memory, memory-was.memory)
}

// watchRecovery waits until the server is well, everywhere, and for long enough that it is not by chance.
func (w *faultRun) watchRecovery(o *outcome, ended time.Time, was usage) {
	wanted := illName + "." + promptName
	if o.fault.relisted {
		wanted = illName + "." + otherPromptName
	}
	well := time.Time{}
	for ; time.Since(ended) < convalescence; w.st.Pause(interval) {
		var last error // of the get of the ill server that ended last
		if o.fault.idle {
			last = w.get(illName)(w.st.Context())
		} else if gets := w.callers[0].Since(time.Time{}); len(gets) > 0 {
			last = gets[len(gets)-1].Err
		}
		marked, prompts := w.observe()
		w.weigh(o, was)
		now := time.Now()
		o.relisted = slices.Contains(prompts, wanted)
		switch {
		case len(marked) > 0 || !o.relisted || last != nil:
			well = time.Time{}
		case well.IsZero():
			well = now
		case now.Sub(well) > time.Second:
			o.healed = well.Sub(ended)
			return
		}
	}
}

// showers are where the gateway shows that an upstream is ill.
func showers() []string { return []string{"/readyz", "console", "metric", "list"} }

var (
	pageRow = regexp.MustCompile(`<li class="card (\w+)" data-upstream="` + illName + `">`)
	metric  = regexp.MustCompile(`(?m)^promptweir_upstream_healthy\{[^}]*upstream="` + illName + `"[^}]*\} (\d)`)
)

// observe returns which of the showers show the upstream as ill, to operators and clients, and its
// prompts in the list.
func (w *faultRun) observe() (marked, prompts []string) {
	var health struct {
		Upstreams []struct{ Name, Reason string }
	}
	rig.Check(json.Unmarshal(w.page("/readyz"), &health))
	row, value := pageRow.FindSubmatch(w.page("/upstreams")), metric.FindSubmatch(w.page("/metrics"))
	if row == nil || value == nil {
		rig.Check(fmt.Errorf("the console or the metrics have no upstream %s", illName))
	}
	list := rig.Must(w.client.Page(w.st.Context(), ""))
	for _, p := range list.Prompts {
		prompts = append(prompts, p.Name)
	}
	shows := []bool{false, string(row[1]) != "good", bytes.Equal(value[1], []byte("0")), false}
	for _, u := range health.Upstreams {
		shows[0] = shows[0] || u.Name == illName && u.Reason != ""
	}
	for _, u := range list.Meta.Partial {
		shows[3] = shows[3] || u.Upstream == illName
	}
	for i, where := range showers() {
		if shows[i] {
			marked = append(marked, where)
		}
	}
	return marked, prompts
}

// page returns a page of the admin listener, whatever its status.
func (w *faultRun) page(path string) []byte {
	response, err := w.client.Send(w.st.Context(), http.MethodGet, w.gateway.Admin+path, "")
	rig.Check(err)
	defer response.Body.Close()
	return rig.Must(io.ReadAll(response.Body))
}
