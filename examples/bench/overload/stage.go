package main

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"sync"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/examples/bench/internal/load"
	"github.com/promptweir/promptweir/examples/bench/internal/process"
	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// soonEnough is what the 99th percentile of the latency must not exceed at the capacity.
	soonEnough = 100 * time.Millisecond
	// nearlyAll is the share of requests that must be answered with a result at the capacity.
	nearlyAll = 0.999
	// probeLength is how long each rate is tried in the search for the capacity, and halvings how often the interval is halved.
	probeLength = 2 * time.Second
	halvings    = 4
	// patience is how long a client waits for a response.
	patience = 15 * time.Second
	// calm is how many goroutines a gateway without load has at most: two for each connection to the server that is kept alive. And calmBound how long it may take to get there.
	calm      = 2*config.DefaultConcurrency + 100
	calmBound = 60 * time.Second
)

// stage is a gateway with a server behind it.
type stage struct {
	server  *process.Process
	gateway *process.Gateway
	get     load.Open
}

func newStage(ctx context.Context, s settings, b bound, build string) (*stage, error) {
	server, err := process.Start(ctx, filepath.Join(s.bin, "reference"), append([]string{"upstream"}, b.server...)...)
	if err != nil {
		return nil, err
	}
	st := &stage{server: server}
	endpoint, err := server.Attr("endpoint")
	if err != nil {
		st.close()
		return nil, err
	}
	configuration := fmt.Sprintf("gateway { listen = \"127.0.0.1:0\" }\nadmin { listen = \"127.0.0.1:0\" }\n"+
		"team \"bench\" {\n  upstream \"up\" { url = %q }\n}\n", endpoint)
	st.gateway, err = process.StartGateway(ctx, configuration, "taskset", "-c", s.core, "env", "GOMAXPROCS=1", build)
	if err != nil {
		st.close()
		return nil, err
	}
	u, err := url.Parse(st.gateway.Endpoint)
	if err != nil {
		st.close()
		return nil, err
	}
	st.get = load.Open{Address: u.Host, Patience: patience, Raw: get(u.Host, u.Path, "up.p00000")}
	return st, nil
}

// get returns the bytes of a request for a prompt, of 2026-07-28.
func get(address, path, name string) []byte {
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{"name":%q,"_meta":{%q:%q,%q:{},%q:{"name":"bench","version":"1"}}}}`,
		wire.PromptsGet, name, wire.MetaProtocolVersion, wire.Rev20260728, wire.MetaClientCapabilities, wire.MetaClientInfo)
	return load.Post(address, path, body, wire.HeaderProtocolVersion+": "+wire.Rev20260728,
		wire.HeaderMethod+": "+wire.PromptsGet, wire.HeaderName+": "+name)
}

func (st *stage) close() {
	if st.gateway != nil {
		st.gateway.Stop()
	}
	_ = st.server.Stop() // it has served its purpose
}

// capacity returns the highest rate at which clients are answered soon enough.
func (st *stage) capacity(ctx context.Context, first float64) (float64, error) {
	holds := func(rate float64) (bool, error) {
		sample, err := st.offer(ctx, rate, probeLength)
		return err == nil && sample.P99 < soonEnough && sample.GoodShare() >= nearlyAll, err
	}
	low, high := 0.0, first
	for {
		ok, err := holds(high)
		if err != nil {
			return 0, err
		}
		if !ok {
			break
		}
		low, high = high, 2*high
	}
	for range halvings {
		middle := (low + high) / 2
		ok, err := holds(middle)
		if err != nil {
			return 0, err
		}
		if ok {
			low = middle
		} else {
			high = middle
		}
	}
	if low == 0 {
		return 0, fmt.Errorf("at %.0f a second, results take longer than %v, or do not come", high, soonEnough)
	}
	return low, nil
}

// sample is what happened under one load.
type sample struct {
	load.Outcome

	seen

	// memory is the most that the gateway had.
	memory int64
}

// offer puts a load on the gateway, watches it, and waits until it has calmed down.
func (st *stage) offer(ctx context.Context, rate float64, length time.Duration) (s sample, err error) {
	operator, err := startOperator(ctx, st.gateway.Admin)
	if err != nil {
		return s, err
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	var (
		failed error
		watch  sync.WaitGroup
	)
	watch.Go(func() { failed = st.watchMemory(watching, &s) })
	get := st.get
	get.Rate = rate
	s.Outcome = get.Run(ctx, length)
	stop()
	watch.Wait()
	if s.seen, err = operator.end(); err != nil {
		return s, err
	}
	if failed != nil {
		return s, failed
	}
	return s, st.calmDown(ctx)
}

// watchMemory looks at the gateway's memory until ctx ends.
func (st *stage) watchMemory(ctx context.Context, s *sample) error {
	for ctx.Err() == nil {
		_, memory, err := st.gateway.Usage()
		if err != nil {
			return err
		}
		s.memory = max(s.memory, memory)
		select {
		case <-time.After(lookInterval):
		case <-ctx.Done():
		}
	}
	return nil
}

// calmDown waits until the gateway has as many goroutines as without load.
func (st *stage) calmDown(ctx context.Context) error {
	for deadline := time.Now().Add(calmBound); ; time.Sleep(100 * time.Millisecond) {
		text, err := look(ctx, st.gateway.Admin+"/metrics", false)
		if err != nil {
			return err
		}
		if goroutines(text) < calm {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d goroutines %s after the load", goroutines(text), calmBound)
		}
	}
}
