package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/promptweir/promptweir/cmd/promptweir/internal/terminal"
	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/admin"
)

const (
	// drainTimeout and healthTimeout are how long commands wait for the admin listener.
	drainTimeout, healthTimeout = 10 * time.Second, 2 * time.Second
	// maxAdminResponse bounds a response of the admin listener that a command reads, in bytes.
	maxAdminResponse = 64 << 10
)

// drainFlags are the flags of the commands drain and undrain.
type drainFlags struct{ admin, token, output string }

func drainCommand(a *app) *cobra.Command {
	return newDrainCommand(a, true, &cobra.Command{
		Use: "drain NAME", Short: "Take an upstream of a running gateway out of service",
		Long: `Take an upstream of a running gateway out of service.

New gets and completions go to the other owners of the prompt, or are answered with the reason
draining; gets in flight finish. Its prompts stay listed unless its when_down says otherwise. That
lasts until promptweir undrain, or until the gateway restarts: of several replicas, all at once.`,
		Example: "  promptweir drain billing --config promptweir\n" +
			"  promptweir drain billing --admin http://127.0.0.1:8081",
	})
}

func undrainCommand(a *app) *cobra.Command {
	return newDrainCommand(a, false, &cobra.Command{
		Use: "undrain NAME", Short: "Let an upstream that was drained serve again",
		Example: "  promptweir undrain billing --config promptweir\n" +
			"  promptweir undrain billing --admin http://127.0.0.1:8081",
	})
}

func newDrainCommand(a *app, drained bool, command *cobra.Command) *cobra.Command {
	var f drainFlags
	command.Args = wantArgs(1, 1, "an upstream's name")
	command.ValidArgsFunction = a.completeUpstream
	command.RunE = func(cmd *cobra.Command, args []string) error {
		return setDrained(cmd.Context(), a, args[0], drained, f)
	}
	flags := command.Flags()
	addAdmin(flags, &f.admin)
	addSecret(flags, &f.token, "token", "PROMPTWEIR_ADMIN_TOKEN",
		"the gateway's `ADMIN_TOKEN`, where one is set")
	addOutput(command, &f.output, formatText, formatJSON)
	return command
}

// setDrained drains an upstream of a running gateway, or lets it serve again, and prints what holds
// then.
func setDrained(ctx context.Context, a *app, name string, drained bool, f drainFlags) error {
	base, err := a.adminURL(f.admin)
	if err != nil {
		return err
	}
	body, err := json.Marshal(admin.Drain{Upstream: name, Drained: &drained})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	response, err := callAdmin(ctx, http.MethodPost, base+"/api/drain", f.token, body)
	if err != nil {
		return err
	}
	var now admin.Drain
	if err := json.Unmarshal(response, &now); err != nil || now.Drained == nil {
		return fmt.Errorf("POST %s/api/drain: the response is not that of a gateway's admin listener", base)
	}
	if f.output == formatJSON {
		return terminal.PrintJSON(a.out, now)
	}
	if !drained {
		_, err = fmt.Fprintf(a.out, "%s serves again\n", name)
		return err
	}
	since := cmp.Or(now.Since, &time.Time{}).UTC().Format(time.RFC3339)
	_, err = fmt.Fprintf(a.out,
		"%s is drained since %s; promptweir undrain %s lets it serve again\n", name, since, name)
	return err
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

// completeUpstream completes the name of an upstream.
func (a *app) completeUpstream(_ *cobra.Command, args []string, _ string) (names []cobra.Completion, _ cobra.ShellCompDirective) {
	if cfg := a.completionConfig(); cfg != nil && len(args) == 0 {
		for _, u := range cfg.Upstreams() {
			names = append(names, u.Name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
