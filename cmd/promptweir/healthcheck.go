package main

import (
	"context"
	"net"
	"net/http"
	"os"

	"github.com/spf13/cobra"

	"github.com/promptweir/promptweir/config"
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
