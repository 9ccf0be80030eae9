package rig

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
)

// Toxiproxy is a running https://github.com/Shopify/toxiproxy, which stands between the gateway and servers and does with their
// connections what bad networks do.
type Toxiproxy struct {
	process *Process
	api     string
}

// StartToxiproxy starts the program in a directory. [Toxiproxy.Stop] must be called.
func StartToxiproxy(ctx context.Context, bin string) (*Toxiproxy, error) {
	address, err := FreeAddress(ctx) // it cannot choose a port, nor say which one it has
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(address) // it was made of both
	p, err := Start(ctx, filepath.Join(bin, "toxiproxy-server"), "-host", "127.0.0.1", "-port", port)
	if err != nil {
		return nil, err
	}
	t := &Toxiproxy{p, "http://" + address}
	if err = Eventually(startup, func() error { return t.call(ctx, http.MethodGet, "/version", nil, nil) }); err != nil {
		t.Stop()
		return nil, err
	}
	return t, nil
}

// Stop ends the program.
func (t *Toxiproxy) Stop() { _ = t.process.Kill() } // it has nothing to finish

// Proxy makes a proxy in front of an address and returns its own address.
func (t *Toxiproxy) Proxy(ctx context.Context, name, to string) (address string, err error) {
	var made struct{ Listen string }
	err = t.call(ctx, http.MethodPost, "/proxies", map[string]string{"name": name, "listen": "127.0.0.1:0", "upstream": to}, &made)
	return made.Listen, err
}

// Enable lets a proxy accept connections or not. It closes those that are open.
func (t *Toxiproxy) Enable(ctx context.Context, name string, enabled bool) error {
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
func (t *Toxiproxy) Add(ctx context.Context, proxy string, toxics ...Toxic) error {
	for i, bad := range toxics {
		bad.Name = fmt.Sprint("toxic", i)
		if err := t.call(ctx, http.MethodPost, "/proxies/"+proxy+"/toxics", bad, nil); err != nil {
			return err
		}
	}
	return nil
}

// Remove ends what [Toxiproxy.Add] has begun with as many.
func (t *Toxiproxy) Remove(ctx context.Context, proxy string, toxics ...Toxic) error {
	for i := range toxics {
		if err := t.call(ctx, http.MethodDelete, fmt.Sprintf("/proxies/%s/toxics/toxic%d", proxy, i), nil, nil); err != nil {
			return err
		}
	}
	return nil
}

func (t *Toxiproxy) call(ctx context.Context, method, path string, body, result any) error {
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
