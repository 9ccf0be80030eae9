//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/promptweir/promptweir/examples/bench/internal/process"
	"github.com/promptweir/promptweir/examples/bench/internal/toxiproxy"
)

const (
	// illName is the upstream that a fault befalls, neighbourNames are the others.
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
	gets []get
	// seen is when each place marked the fault, after its first sign or, if no get showed it, after it began.
	seen map[string]time.Duration
	// healed is how long after the end of the fault all was well again; negative if it was not.
	healed time.Duration
	// relisted says that the new list was seen.
	relisted bool
	// neighbours are the gets of the other servers. P99Before is the 99th percentile of those before the fault, and p99Control that
	// of a gateway to which nothing happened meanwhile.
	neighbours            []get
	p99Before, p99Control time.Duration
	// memory is how much more memory than before the gateway had in use at most, in bytes; left is what it still has in use of
	// goroutines and descriptors.
	memory int64
	left   usage
	// err is why the fault could not be brought about or watched.
	err error
}

// ward is a gateway in front of a server that falls ill, and two neighbours.
type ward struct {
	gateway    *process.Gateway
	patient    *patient
	neighbours []*process.Process
	client     *http.Client
	// callers get prompts: the first of the ill server, the others of its neighbours.
	callers []*caller
}

// watch runs one fault from beginning to end.
func watch(ctx context.Context, s settings, t *toxiproxy.Server, control *ward, f *fault, id int) *outcome {
	o := &outcome{fault: f, seen: map[string]time.Duration{}, healed: -1}
	dir, err := os.MkdirTemp("", "ward")
	if err != nil {
		o.err = err
		return o
	}
	defer os.RemoveAll(dir)
	w := newWard()
	defer w.close()
	if o.err = w.open(ctx, s, t, dir, f, id); o.err == nil {
		o.err = w.run(ctx, o, control)
	}
	if o.err != nil && w.gateway != nil && s.verbose {
		fmt.Fprintln(os.Stderr, w.gateway.Log())
	}
	return o
}

func newWard() *ward {
	return &ward{client: &http.Client{
		Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 512, IdleConnTimeout: time.Minute},
	}}
}

// watchNothing opens a ward in which nothing happens, and calls its servers until stop is called. What the machine does slows it as it
// slows the others.
func watchNothing(ctx context.Context, s settings) (control *ward, stop func(), err error) {
	dir, err := os.MkdirTemp("", "ward")
	if err != nil {
		return nil, nil, err
	}
	w := newWard()
	ctx, cancel := context.WithCancel(ctx)
	var pending sync.WaitGroup
	stop = func() {
		cancel()
		pending.Wait()
		w.close()
		_ = os.RemoveAll(dir) // a temporary folder
	}
	if err := w.open(ctx, s, nil, dir, &fault{}, 0); err != nil {
		stop()
		return nil, nil, err
	}
	for _, c := range w.callers[1:] {
		pending.Go(func() { c.run(ctx) })
	}
	return w, stop, nil
}

func (w *ward) open(ctx context.Context, s settings, t *toxiproxy.Server, dir string, f *fault, id int) error {
	var err error
	if w.patient, err = admit(ctx, t, dir, f, id); err != nil {
		return err
	}
	block := func(name, body string) string {
		return fmt.Sprintf("  upstream %q {\n    %s\n    timeout = %q\n  }\n", name, body, callTimeout)
	}
	blocks := []string{block(illName, w.patient.block)}
	names := []string{illName}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	for i, era := range []string{"-modern=false", "-modern=true"} {
		neighbour, err := process.Start(ctx, program, "server", "-mode", filepath.Join(dir, "none"), era)
		if err != nil {
			return err
		}
		w.neighbours = append(w.neighbours, neighbour)
		endpoint, err := neighbour.Attr("endpoint")
		if err != nil {
			return err
		}
		name := fmt.Sprint("neighbour", i+1)
		names = append(names, name)
		blocks = append(blocks, block(name, fmt.Sprintf("url = %q", endpoint)))
	}
	configuration := "gateway { listen = \"127.0.0.1:0\" }\nadmin { listen = \"127.0.0.1:0\" }\nteam \"ward\" {\n" + strings.Join(blocks, "") + "}\n"
	command := w.patient.command(filepath.Join(s.bin, "promptweir"))
	if s.build != "" {
		command[len(command)-1] = s.build
	}
	if w.gateway, err = process.StartGateway(ctx, configuration, command...); err != nil {
		return err
	}
	for i, name := range names {
		rate := neighbourRate
		if i == 0 {
			rate = illRate
		}
		w.callers = append(w.callers, &caller{endpoint: w.gateway.Endpoint, prompt: name + "." + promptName, rate: rate, client: w.client})
	}
	return nil
}

func (w *ward) close() {
	if w.gateway != nil {
		w.gateway.Stop()
	}
	if w.patient != nil {
		w.patient.close()
	}
	for _, neighbour := range w.neighbours {
		_ = neighbour.Kill() // it has served its purpose
	}
	w.client.CloseIdleConnections()
}

func (w *ward) run(ctx context.Context, o *outcome, control *ward) error {
	calling, stop := context.WithCancel(ctx)
	var pending sync.WaitGroup
	defer pending.Wait()
	defer stop()
	for i, c := range w.callers {
		if i > 0 || !o.fault.idle {
			pending.Go(func() { c.run(calling) })
		}
	}
	started := time.Now()
	if err := w.awaitHealth(ctx); err != nil {
		return err
	}
	if err := pause(ctx, before); err != nil {
		return err
	}
	o.p99Before = p99(w.ofNeighbours(started.Add(before / 4)))
	was, err := w.usage(ctx)
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
	o.gets = w.callers[0].since(begun)
	o.neighbours, o.p99Control = w.ofNeighbours(begun), p99(control.ofNeighbours(begun))
	stop()
	pending.Wait()
	w.client.CloseIdleConnections() // which the gateway has open, too
	return w.watchSubsiding(ctx, o, was)
}

// ofNeighbours returns the gets of the neighbours that began at a time or later.
func (w *ward) ofNeighbours(begin time.Time) []get {
	return slices.Concat(w.callers[1].since(begin), w.callers[2].since(begin))
}

func pause(ctx context.Context, length time.Duration) error {
	select {
	case <-time.After(length):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// awaitHealth waits until nothing is marked and the server has been listed.
func (w *ward) awaitHealth(ctx context.Context) error {
	for deadline := time.Now().Add(convalescence); ; {
		o, err := w.observe(ctx)
		if err == nil && len(o.marked) == 0 && slices.Contains(o.prompts, illName+"."+promptName) {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not well at the start: %+v, %w", o, err)
		}
		if err := pause(ctx, interval); err != nil {
			return err
		}
	}
}

// watchIllness watches until the fault has lasted long enough, and notes when each place shows it.
func (w *ward) watchIllness(ctx context.Context, o *outcome, begun time.Time, was usage) error {
	bound := longest
	if o.fault.idle {
		bound = longestIdle
	}
	shown := map[string]time.Time{}
	for time.Since(begun) < bound {
		seen, err := w.observe(ctx)
		if err != nil {
			return err
		}
		for _, place := range seen.marked {
			if shown[place].IsZero() {
				shown[place] = time.Now()
			}
		}
		if err := w.weigh(o, was); err != nil {
			return err
		}
		sign := w.firstSign(begun)
		everywhere := len(shown) == len(places()) || o.fault.unmarked
		if time.Since(begun) > least && (everywhere && (o.fault.idle || !sign.IsZero() || o.fault.unmarked) || !sign.IsZero() && time.Since(sign) > afterSign) {
			break
		}
		if err := pause(ctx, interval); err != nil {
			return err
		}
	}
	from := w.firstSign(begun)
	if from.IsZero() {
		from = begun
	}
	for place, at := range shown {
		o.seen[place] = max(at.Sub(from), 0)
	}
	return nil
}

func places() []string { return []string{readyzPlace, pagePlace, metricPlace, listPlace} }

// firstSign returns when the first get of the ill server failed; zero if none has.
func (w *ward) firstSign(begun time.Time) time.Time {
	for _, g := range w.callers[0].since(begun) {
		if g.code != 0 {
			return g.ended
		}
	}
	return time.Time{}
}

// weigh notes how much more memory the gateway has in use than before.
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
		if o.fault.idle {
			w.callers[0].get(ctx)
		}
		seen, err := w.observe(ctx)
		if err != nil {
			return err
		}
		if err := w.weigh(o, was); err != nil {
			return err
		}
		now := time.Now()
		o.relisted = slices.Contains(seen.prompts, wanted)
		switch {
		case len(seen.marked) > 0 || !o.relisted || w.failing():
			well = time.Time{}
		case well.IsZero():
			well = now
		case now.Sub(well) > time.Second:
			o.healed = well.Sub(ended)
			return nil
		}
		if err := pause(ctx, interval); err != nil {
			return err
		}
	}
	return nil
}

// failing reports whether the get of the ill server that ended last failed, or there was none.
func (w *ward) failing() bool {
	c := w.callers[0]
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.gets) == 0 || c.gets[len(c.gets)-1].code != 0
}

// watchSubsiding waits until the gateway has no more in use than before the fault.
func (w *ward) watchSubsiding(ctx context.Context, o *outcome, was usage) error {
	for deadline := time.Now().Add(subsiding); ; {
		now, err := w.usage(ctx)
		if err != nil {
			return err
		}
		o.left = usage{goroutines: now.goroutines - was.goroutines, descriptors: now.descriptors - was.descriptors}
		if o.left.goroutines <= maxLeftGoroutines && o.left.descriptors <= maxLeftDescriptors || time.Now().After(deadline) {
			return nil
		}
		if err := pause(ctx, interval); err != nil {
			return err
		}
	}
}

// p99 returns the 99th percentile of how long gets took.
func p99(gets []get) time.Duration {
	if len(gets) == 0 {
		return 0
	}
	took := make([]time.Duration, len(gets))
	for i, g := range gets {
		took[i] = g.took()
	}
	slices.Sort(took)
	return took[len(took)*99/100]
}

// errBroken joins the promises that were not kept, each as an error.
func errBroken(broken []string) error {
	if len(broken) == 0 {
		return nil
	}
	return errors.New(strings.Join(broken, "; "))
}
