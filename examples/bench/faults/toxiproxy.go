//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"github.com/promptweir/promptweir/examples/bench/internal/process"
)

// toxiproxy is a running Toxiproxy: https://github.com/Shopify/toxiproxy. It stands between the gateway and servers, and does with
// their connections what bad networks do.
type toxiproxy struct {
	process *process.Process
	api     string
}

// startToxiproxy starts the program in a directory. Stop must be called.
func startToxiproxy(ctx context.Context, bin string) (*toxiproxy, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address := listener.Addr().String()
	_, port, err := net.SplitHostPort(address)
	if err := errors.Join(err, listener.Close()); err != nil { // Toxiproxy cannot choose a port, nor say which one it has
		return nil, err
	}
	p, err := process.Start(ctx, filepath.Join(bin, "toxiproxy-server"), "-host", "127.0.0.1", "-port", port)
	if err != nil {
		return nil, err
	}
	t := &toxiproxy{p, "http://" + address}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if err = t.call(ctx, http.MethodGet, "/version", nil, nil); err == nil {
			return t, nil
		}
		if time.Now().After(deadline) {
			_ = t.process.Stop() // the error says more
			return nil, err
		}
	}
}

// proxy makes a proxy in front of an address and returns its own address.
func (t *toxiproxy) proxy(ctx context.Context, name, to string) (address string, err error) {
	var made struct{ Listen string }
	err = t.call(ctx, http.MethodPost, "/proxies", map[string]string{"name": name, "listen": "127.0.0.1:0", "upstream": to}, &made)
	return made.Listen, err
}

// enable lets a proxy accept connections or not. It closes those that are open.
func (t *toxiproxy) enable(ctx context.Context, name string, enabled bool) error {
	return t.call(ctx, http.MethodPost, "/proxies/"+name, map[string]bool{"enabled": enabled}, nil)
}

// toxic is something bad that a proxy does to one direction of its connections: "upstream" is towards the server.
type toxic struct {
	Name       string         `json:"name"`
	Type       string         `json:"type"`
	Stream     string         `json:"stream"`
	Attributes map[string]int `json:"attributes"`
}

func (t *toxiproxy) add(ctx context.Context, proxy string, toxics ...toxic) error {
	for i, bad := range toxics {
		bad.Name = fmt.Sprint("toxic", i)
		if err := t.call(ctx, http.MethodPost, "/proxies/"+proxy+"/toxics", bad, nil); err != nil {
			return err
		}
	}
	return nil
}

func (t *toxiproxy) remove(ctx context.Context, proxy string, toxics ...toxic) error {
	for i := range toxics {
		if err := t.call(ctx, http.MethodDelete, fmt.Sprintf("/proxies/%s/toxics/toxic%d", proxy, i), nil, nil); err != nil {
			return err
		}
	}
	return nil
}

func (t *toxiproxy) call(ctx context.Context, method, path string, body, result any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, method, t.api+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("toxiproxy: %s %s: %s: %s", method, path, response.Status, answer)
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(answer, result)
}
