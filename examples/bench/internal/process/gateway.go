package process

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// settled bounds how long a gateway may take to be ready.
const settled = time.Minute

// Gateway is a running promptweir.
type Gateway struct {
	*Process

	// Endpoint and Admin are URLs, that of the admin listener without a path.
	Endpoint, Admin string

	dir string
}

// StartGateway starts a gateway with a configuration and waits until it is ready. Command is the program, with what goes in front
// of it, such as taskset. The caller must call [Gateway.Stop].
func StartGateway(ctx context.Context, configuration string, command ...string) (*Gateway, error) {
	dir, err := os.MkdirTemp("", "gateway")
	if err != nil {
		return nil, err
	}
	g := &Gateway{dir: dir}
	if err := g.start(ctx, configuration, command); err != nil {
		g.Stop()
		return nil, err
	}
	return g, nil
}

func (g *Gateway) start(ctx context.Context, configuration string, command []string) error {
	path := filepath.Join(g.dir, "gateway.hcl")
	err := os.WriteFile(path, []byte(configuration), 0o600)
	if err != nil {
		return err
	}
	command = append(slices.Clip(command), "serve", "--config", path)
	if g.Process, err = Start(ctx, command[0], command[1:]...); err != nil {
		return err
	}
	if g.Endpoint, err = g.Attr("endpoint"); err != nil {
		return err
	}
	if g.Admin, err = g.Attr("admin"); err != nil {
		return err
	}
	return g.AwaitReady(ctx, g.Admin)
}

// AwaitReady waits until the process, a gateway with an admin listener at this URL, is ready.
func (p *Process) AwaitReady(ctx context.Context, admin string) error {
	for deadline := time.Now().Add(settled); !ready(ctx, admin); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("the gateway is not ready after %s:\n%s", settled, p.Log())
		}
	}
	return nil
}

func ready(ctx context.Context, admin string) bool {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, admin+"/readyz", nil)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// Reload replaces the configuration, and waits until the gateway has loaded the new one.
func (g *Gateway) Reload(ctx context.Context, configuration string) error {
	path := filepath.Join(g.dir, "gateway.hcl")
	if err := os.WriteFile(path+".next", []byte(configuration), 0o600); err != nil {
		return err
	}
	if err := os.Rename(path+".next", path); err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, g.Admin+"/-/reload", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("reload: %s: %s", response.Status, answer)
	}
	return err
}

// Stop ends the gateway and removes its configuration.
func (g *Gateway) Stop() {
	if g.Process != nil {
		_ = g.Process.Stop() // what it says was of interest while it ran
	}
	_ = os.RemoveAll(g.dir)
}
