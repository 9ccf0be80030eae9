package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/promptweir/promptweir/examples/bench/internal/client"
	"github.com/promptweir/promptweir/examples/bench/internal/lean"
)

const (
	startupName      = "start with 1000 upstreams"
	startupUpstreams = 1000
	startupPrompts   = 100
	startupChanges   = 50
)

// startup measures how long a gateway takes to list a thousand upstreams, the memory that it then holds, and how soon a
// listening client is told of a change in one of them.
func startup(ctx context.Context, s settings) error {
	st := newStage(s)
	defer st.close()
	up, err := st.reference(ctx, "upstream", "-prompts", strconv.Itoa(startupPrompts))
	if err != nil {
		return err
	}
	var changing lean.Server
	offer := func(version int) { changing.Offer(lean.Prompt("moving", fmt.Sprint("version ", version))) }
	offer(0)
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: &changing, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }() // until Close
	defer server.Close()
	began := time.Now()
	gateway, err := st.gateway(ctx, settingsOf{upstream: fmt.Sprintf("url = \"http://%s/mcp\"", listener.Addr()), pageSize: 1000, more: manyUpstreams(up)})
	if err != nil {
		return err
	}
	took := time.Since(began)
	c := &client.Client{Endpoint: gateway.endpoint, Transport: http.DefaultTransport}
	listed := 0
	for cursor := ""; ; {
		prompts, next, err := c.Page(ctx, cursor)
		if err != nil {
			return err
		}
		if listed += len(prompts); next == "" {
			break
		}
		cursor = next
	}
	if want := startupUpstreams*startupPrompts + 1; listed != want {
		return fmt.Errorf("the gateway lists %d prompts, want %d\n%.2000s", listed, want, gateway.Log())
	}
	_, memory, err := gateway.Usage()
	if err != nil {
		return err
	}
	latencies, err := changes(ctx, c, offer)
	if err != nil {
		return err
	}
	fmt.Printf("\n%s of %d prompts: ready after %.2f s, %.0f MB RSS; a change reaches a listener after %.1f ms (p50), %.1f ms (p99 of %d).\n",
		startupName, startupPrompts, took.Seconds(), float64(memory)/1e6,
		float64(latencies[len(latencies)/2])/1e6, float64(latencies[len(latencies)*99/100])/1e6, len(latencies))
	return nil
}

// changes changes an upstream again and again, and returns the sorted latencies until a listening client was notified. The
// changes are far enough apart that no two share a refresh.
func changes(ctx context.Context, c *client.Client, offer func(version int)) ([]time.Duration, error) {
	stream, err := c.Listen(ctx)
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	heard := make(chan time.Time, 1)
	go func() { _ = client.Changes(stream, func() { heard <- time.Now() }) }() // until Close
	var latencies []time.Duration
	for i := range startupChanges {
		time.Sleep(300 * time.Millisecond)
		began := time.Now()
		offer(i + 1)
		select {
		case at := <-heard:
			latencies = append(latencies, at.Sub(began))
		case <-time.After(10 * time.Second):
			return nil, fmt.Errorf("no notification of change %d within 10 s", i+1)
		}
	}
	slices.Sort(latencies)
	return latencies, nil
}
