//go:build unix

// Package toxiproxy runs Toxiproxy, https://github.com/Shopify/toxiproxy, which stands between the gateway and servers and does with their
// connections what bad networks do.
package toxiproxy

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

// Server is a running Toxiproxy.
type Server struct {
	process *process.Process
	api     string
}

// Start starts the program in a directory. [Server.Stop] must be called.
func Start(ctx context.Context, bin string) (*Server, error) {
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
	t := &Server{p, "http://" + address}
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

// Stop ends the program.
func (t *Server) Stop() { _ = t.process.Kill() } // it has nothing to finish

// Proxy makes a proxy in front of an address and returns its own address.
func (t *Server) Proxy(ctx context.Context, name, to string) (address string, err error) {
	var made struct{ Listen string }
	err = t.call(ctx, http.MethodPost, "/proxies", map[string]string{"name": name, "listen": "127.0.0.1:0", "upstream": to}, &made)
	return made.Listen, err
}

// Enable lets a proxy accept connections or not. It closes those that are open.
func (t *Server) Enable(ctx context.Context, name string, enabled bool) error {
	return t.call(ctx, http.MethodPost, "/proxies/"+name, map[string]bool{"enabled": enabled}, nil)
}

// Toxic is something bad that a proxy does to one direction of its connections: "upstream" is towards the server.
type Toxic struct {
	Name       string         `json:"name"`
	Type       string         `json:"type"`
	Stream     string         `json:"stream"`
	Attributes map[string]int `json:"attributes"`
}

// Add has a proxy do these things.
func (t *Server) Add(ctx context.Context, proxy string, toxics ...Toxic) error {
	for i, bad := range toxics {
		bad.Name = fmt.Sprint("toxic", i)
		if err := t.call(ctx, http.MethodPost, "/proxies/"+proxy+"/toxics", bad, nil); err != nil {
			return err
		}
	}
	return nil
}

// Remove ends what [Server.Add] has begun with as many.
func (t *Server) Remove(ctx context.Context, proxy string, toxics ...Toxic) error {
	for i := range toxics {
		if err := t.call(ctx, http.MethodDelete, fmt.Sprintf("/proxies/%s/toxics/toxic%d", proxy, i), nil, nil); err != nil {
			return err
		}
	}
	return nil
}

func (t *Server) call(ctx context.Context, method, path string, body, result any) error {
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
