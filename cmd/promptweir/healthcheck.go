package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/promptweir/promptweir/cmd/promptweir/internal/terminal"
	"github.com/promptweir/promptweir/config"
)

const (
	// drainTimeout and healthTimeout are how long commands wait for the admin listener.
	drainTimeout, healthTimeout = 10 * time.Second, 2 * time.Second
	// maxAdminResponse bounds a response of the admin listener that a command reads, in bytes.
	maxAdminResponse = 64 << 10
)

// healthcheckCommand is for container images, which have no shell and no HTTP client. It is hidden
// because people use /readyz.
func healthcheckCommand(a *app) *cobra.Command {
	var admin string
	command := &cobra.Command{
		Use: "healthcheck", Short: "Check that the gateway of the configuration is alive",
		Hidden:  true,
		Example: "  promptweir healthcheck --admin http://127.0.0.1:8081",
		Args:    wantArgs(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			base, err := a.adminURL(admin)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), healthTimeout)
			defer cancel()
			_, err = callAdmin(ctx, http.MethodGet, base+"/healthz", "", nil)
			return err
		},
	}
	addAdmin(command.Flags(), &admin)
	return command
}

func addAdmin(flags *pflag.FlagSet, admin *string) {
	flags.StringVar(admin, "admin", "",
		"`URL` of the admin listener; by default from the configuration, or http://"+config.DefaultAdminListen)
}

// adminURL returns the base of the admin listener: that of --admin, or else of the configuration.
func (a *app) adminURL(flag string) (string, error) {
	if flag == "" {
		address, err := a.adminAddress()
		return "http://" + address, err
	}
	_, err := parseURL("--admin", flag, config.DefaultAdminListen)
	return strings.TrimSuffix(flag, "/"), err
}

// callAdmin makes a request of an operator, and returns the body of a response with the status 200.
// The error of any other has the gateway's own words.
func callAdmin(ctx context.Context, method, url, token string, body []byte) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, &usageError{"--admin: " + err.Error()}
	}
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, fmt.Errorf("%w; start the gateway, or name its admin listener with --admin",
			err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAdminResponse))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s %s: %w", method, url, err)
	case response.StatusCode == http.StatusForbidden:
		return nil, fmt.Errorf("%s %s: %s; pass the token with --token, or in PROMPTWEIR_ADMIN_TOKEN",
			method, url, terminal.OneLine(string(text)))
	case response.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s %s: %s: %s", method, url, response.Status,
			terminal.OneLine(string(text)))
	}
	return text, nil
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
