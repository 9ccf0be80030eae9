package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
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
	// reloadTimeout and healthTimeout bound the requests of commands to the admin listener.
	reloadTimeout, healthTimeout = time.Minute, 2 * time.Second
	// maxAdminResponse bounds a response of the admin listener, in bytes.
	maxAdminResponse = 1 << 20
)

// healthcheckCommand is for container images, which have no shell and no HTTP client. It is hidden because
// people request /readyz instead.
func healthcheckCommand(a *app) *cobra.Command {
	var admin adminFlags
	command := &cobra.Command{
		Use: "healthcheck", Short: "Check that the configuration's gateway is alive",
		Hidden:  true,
		Example: "  promptweir healthcheck --admin http://127.0.0.1:8081",
		Args:    wantArgs(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			base, err := a.adminURL(admin.url)
			if err != nil {
				return err
			}
			_, _, err = callAdmin(cmd.Context(), healthTimeout, http.MethodGet, base, "/healthz", "")
			return err
		},
	}
	admin.addURL(command.Flags())
	return command
}

// adminFlags are the flags for the admin listener of a running gateway.
type adminFlags struct{ url, token string }

func (f *adminFlags) addURL(flags *pflag.FlagSet) {
	flags.StringVar(&f.url, "admin", "",
		"`URL` of the admin listener; by default from the configuration, or http://"+config.DefaultAdminListen)
}

func (f *adminFlags) addTo(flags *pflag.FlagSet) {
	f.addURL(flags)
	addSecret(flags, &f.token, "PROMPTWEIR_ADMIN_TOKEN",
		"the gateway's `ADMIN_TOKEN`, where one is set")
}

// adminURL returns the base URL of the admin listener from --admin or the configuration.
func (a *app) adminURL(flag string) (string, error) {
	if flag == "" {
		address, err := a.adminAddress()
		return "http://" + address, err
	}
	_, err := parseURL("--admin", flag, config.DefaultAdminListen)
	return strings.TrimSuffix(flag, "/"), err
}

// callAdmin sends a request to the admin listener at base, and returns the body of a response with status
// 200, or 422 for a refused configuration. Other responses are errors, with a remedy if one is known.
func callAdmin(
	ctx context.Context, within time.Duration, method, base, path, token string,
) (status int, text []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, base+path, http.NoBody)
	if err != nil {
		return 0, nil, &usageError{"--admin: " + err.Error()}
	}
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := http.DefaultClient.Do(r)
	if err == nil {
		defer response.Body.Close()
		text, err = io.ReadAll(io.LimitReader(response.Body, maxAdminResponse))
	}
	if err != nil {
		return 0, nil, fmt.Errorf("no gateway answers at %s: %s; start the gateway, or name its "+
			"configuration with --config or its admin listener with --admin", base, networkProblem(err))
	}
	message := terminal.OneLine(string(text))
	switch response.StatusCode {
	case http.StatusOK, http.StatusUnprocessableEntity:
		return response.StatusCode, text, nil
	case http.StatusForbidden:
		return 0, nil, fmt.Errorf("%s: %s; pass the token with --token, or in PROMPTWEIR_ADMIN_TOKEN",
			base, message)
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return 0, nil, fmt.Errorf("%s is not an admin listener (HTTP %d): name it with --admin, "+
			"for example http://%s", base, response.StatusCode, config.DefaultAdminListen)
	}
	return 0, nil, fmt.Errorf("%s answers HTTP %s: %s", base, response.Status, message)
}

// networkProblem returns the reason why a request got no response. It omits the address, because callers print
// the address themselves.
func networkProblem(err error) string {
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return "it timed out"
	}
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		err = inner
	}
	return err.Error()
}

// isAdminListener reports whether a gateway's admin listener answers at an address.
func isAdminListener(ctx context.Context, base string) bool {
	_, text, err := callAdmin(ctx, healthTimeout, http.MethodGet, base, "/healthz", "")
	// Compare the text, because many servers answer any path with 200.
	return err == nil && string(text) == "ok\n"
}

// adminAddress returns the address of the admin listener in the configuration at --config, or the default
// without --config. Errors in other blocks are ignored, because the running gateway may use an earlier
// configuration.
func (a *app) adminAddress() (string, error) {
	if a.config == "" {
		return config.DefaultAdminListen, nil
	}
	_, err := os.Stat(a.config)
	switch { // do not fall back to the default address: another gateway may use it
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("the configuration %s does not exist; correct --config, or name the "+
			"admin listener with --admin", a.config)
	case err != nil:
		return "", err
	}
	listen := config.AdminListen(a.config, config.Options{AllowUnsetEnv: true})
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "", fmt.Errorf("%q in the admin block of %s is not HOST:PORT; correct it, or name "+
			"the admin listener with --admin", listen, a.config)
	}
	if ip := net.ParseIP(host); host == "" || (ip != nil && ip.IsUnspecified()) {
		host = "127.0.0.1" // the listener is on all addresses
	}
	return net.JoinHostPort(host, port), nil
}
