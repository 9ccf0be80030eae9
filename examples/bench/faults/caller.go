//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/promptweir/promptweir/upstream/wire"
)

// caller is a client of the gateway that gets one prompt at a rate, whether or not earlier gets have been answered.
type caller struct {
	endpoint, prompt string
	rate             int // gets per second
	client           *http.Client

	mu   sync.Mutex // guards gets
	gets []get
}

// get is what became of one get.
type get struct {
	begun, ended time.Time
	// code and reason are those of the error; the code is 0 for a result.
	code   int
	reason string
}

func (g get) took() time.Duration { return g.ended.Sub(g.begun) }

// answer is what the gateway answers, as far as callers and operators look at it.
type answer struct {
	Result *struct {
		Messages []json.RawMessage
		Prompts  []struct{ Name string }
		Meta     struct {
			Partial []struct{ Upstream string } `json:"promptweir/partial"`
		} `json:"_meta"`
	}
	Error *struct {
		Code int
		Data struct{ Reason string }
	}
}

// run makes gets until ctx ends, and waits for their answers.
func (c *caller) run(ctx context.Context) {
	ticker := time.NewTicker(time.Second / time.Duration(c.rate))
	defer ticker.Stop()
	var pending sync.WaitGroup
	defer pending.Wait()
	for {
		select {
		case <-ticker.C:
			pending.Go(func() { c.get(context.WithoutCancel(ctx)) })
		case <-ctx.Done():
			return
		}
	}
}

// get makes one get and notes what became of it.
func (c *caller) get(ctx context.Context) {
	g := get{begun: time.Now()}
	a, err := ask(ctx, c.client, c.endpoint, wire.PromptsGet, c.prompt)
	g.ended = time.Now()
	switch {
	case err != nil:
		g.code, g.reason = -1, err.Error()
	case a.Error != nil:
		g.code, g.reason = a.Error.Code, a.Error.Data.Reason
	case a.Result == nil || len(a.Result.Messages) == 0:
		g.code, g.reason = -1, "neither messages nor an error"
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gets = append(c.gets, g)
}

// since returns the gets that began at a time or later and have ended, in the order of their ends.
func (c *caller) since(begin time.Time) []get {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(c.gets), func(g get) bool { return g.begun.Before(begin) })
}

// ask makes a request of 2026-07-28. Name is the prompt's, or empty.
func ask(ctx context.Context, client *http.Client, endpoint, method, name string) (a answer, err error) {
	params := map[string]any{"_meta": map[string]any{
		wire.MetaProtocolVersion: wire.Rev20260728, wire.MetaClientCapabilities: struct{}{},
		wire.MetaClientInfo: map[string]string{"name": "faults", "version": "1"},
	}}
	if name != "" {
		params["name"] = name
		params["arguments"] = map[string]string{"code": "x"}
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return a, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, bytes.NewReader(body))
	if err != nil {
		return a, err
	}
	r.Header.Set("Content-Type", wire.ContentJSON)
	r.Header.Set("Accept", wire.ContentJSON+", "+wire.ContentSSE)
	r.Header.Set(wire.HeaderProtocolVersion, wire.Rev20260728)
	r.Header.Set(wire.HeaderMethod, method)
	if name != "" {
		r.Header.Set(wire.HeaderName, name)
	}
	response, err := client.Do(r)
	if err != nil {
		return a, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return a, err
	}
	if err := json.Unmarshal(text, &a); err != nil {
		return a, fmt.Errorf("%s: %.100s: %w", response.Status, text, err)
	}
	return a, nil
}
