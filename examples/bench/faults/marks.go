//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"

	"github.com/promptweir/promptweir/upstream/wire"
)

// Places where the gateway shows that an upstream is ill.
const (
	readyzPlace = "/readyz"
	pagePlace   = "console"
	metricPlace = "metric"
	listPlace   = "list"
)

// observation is what operators and clients see of an upstream at one moment.
type observation struct {
	// marked names the places that show it as ill.
	marked []string
	// prompts are its prompts in the list.
	prompts []string
}

var (
	pageRow = regexp.MustCompile(`<li class="card (\w+)" data-upstream="` + illName + `">`)
	metric  = regexp.MustCompile(`(?m)^promptweir_upstream_healthy\{[^}]*upstream="` + illName + `"[^}]*\} (\d)`)
	running = regexp.MustCompile(`(?m)^go_goroutines (\d+)`)
)

// observe looks at all places.
func (w *ward) observe(ctx context.Context) (o observation, err error) {
	var health struct {
		Upstreams []struct{ Name, Reason string }
	}
	text, err := w.operate(ctx, "/readyz")
	if err != nil {
		return o, err
	}
	if err := json.Unmarshal(text, &health); err != nil {
		return o, err
	}
	for _, u := range health.Upstreams {
		if u.Name == illName && u.Reason != "" {
			o.marked = append(o.marked, readyzPlace)
		}
	}
	if text, err = w.operate(ctx, "/upstreams"); err != nil {
		return o, err
	}
	row := pageRow.FindSubmatch(text)
	if row == nil {
		return o, fmt.Errorf("the console has no upstream %s", illName)
	}
	if string(row[1]) != "good" {
		o.marked = append(o.marked, pagePlace)
	}
	if text, err = w.operate(ctx, "/metrics"); err != nil {
		return o, err
	}
	value := metric.FindSubmatch(text)
	if value == nil {
		return o, fmt.Errorf("the metrics have no upstream %s", illName)
	}
	if bytes.Equal(value[1], []byte("0")) {
		o.marked = append(o.marked, metricPlace)
	}
	return o, w.observeList(ctx, &o)
}

func (w *ward) observeList(ctx context.Context, o *observation) error {
	a, err := ask(ctx, w.client, w.gateway.Endpoint, wire.PromptsList, "")
	if err != nil {
		return err
	}
	if a.Error != nil || a.Result == nil {
		return fmt.Errorf("the list was refused: %+v", a.Error)
	}
	for _, p := range a.Result.Prompts {
		o.prompts = append(o.prompts, p.Name)
	}
	for _, u := range a.Result.Meta.Partial {
		if u.Upstream == illName {
			o.marked = append(o.marked, listPlace)
		}
	}
	return nil
}

// operate returns a page of the admin listener.
func (w *ward) operate(ctx context.Context, path string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, w.gateway.Admin+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := w.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	return io.ReadAll(response.Body)
}

// usage is what the gateway has in use.
type usage struct {
	memory                  int64 // in bytes
	goroutines, descriptors int
}

func (w *ward) usage(ctx context.Context) (u usage, err error) {
	if _, u.memory, err = w.gateway.Usage(); err != nil {
		return u, err
	}
	if u.descriptors, err = w.gateway.Descriptors(); err != nil {
		return u, err
	}
	text, err := w.operate(ctx, "/metrics")
	if err != nil {
		return u, err
	}
	if match := running.FindSubmatch(text); match != nil {
		u.goroutines, err = strconv.Atoi(string(match[1]))
	}
	return u, err
}
