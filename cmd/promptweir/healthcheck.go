package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/promptweir/promptweir/config"
)

// healthBound is how long a healthcheck waits for the response.
const healthBound = 2 * time.Second

// healthcheckCommand is for container images, which have no shell and no HTTP client. It is hidden
// because people use /readyz.
func healthcheckCommand(a *app) *cobra.Command {
	var admin string
	command := &cobra.Command{
		Use: "healthcheck", Short: "Check that the gateway of the configuration is alive",
		Hidden:  true,
		Example: "  promptweir healthcheck --admin http://127.0.0.1:8081",
		Args:    takes(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if admin == "" {
				address, err := a.adminAddress()
				if err != nil {
					return err
				}
				admin = "http://" + address
			}
			return checkHealth(cmd.Context(), admin+"/healthz")
		},
	}
	command.Flags().StringVar(&admin, "admin", "",
		"`URL` of the admin listener; by default from the configuration, or http://"+config.DefaultAdminListen)
	return command
}

func checkHealth(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, healthBound)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return &usageError{"--admin: " + err.Error()}
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", url, response.Status)
	}
	return nil
}

// adminAddress returns the address at which the gateway of --config has its admin listener. It
// reads no more of the configuration than it needs, because a running gateway is not affected by
// later errors in its files.
func (a *app) adminAddress() (string, error) {
	if a.config == "" {
		return config.DefaultAdminListen, nil
	}
	if _, err := os.Stat(a.config); err != nil { // the default address could be another gateway's
		return "", err
	}
	host, port, err := net.SplitHostPort(config.AdminListen(a.config,
		config.Options{AllowUnsetEnv: true}))
	if err != nil {
		return "", err
	}
	if ip := net.ParseIP(host); host == "" || (ip != nil && ip.IsUnspecified()) {
		host = "127.0.0.1" // it listens on all addresses
	}
	return net.JoinHostPort(host, port), nil
}
