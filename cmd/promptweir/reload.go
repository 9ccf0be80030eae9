package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/promptweir/promptweir/cmd/promptweir/internal/terminal"
	"github.com/promptweir/promptweir/gateway/admin"
)

func reloadCommand(a *app) *cobra.Command {
	var f adminFlags
	var output string
	command := &cobra.Command{
		Use: "reload", Short: "Make a running gateway reload its configuration",
		Args: wantArgs(0, 0, ""),
		Long: `Make a running gateway reload its configuration, and print the outcome.

The gateway also reloads by itself when a file of the configuration changes; reload is for scripts
that need the outcome. The exit code is 1 if the gateway refuses the configuration, or leaves out a
team's file. The outcome does not cover prompt files, which the gateway reads by itself within a
second: validate finds those with errors.`,
		Example: "  promptweir reload --config promptweir\n" +
			"  promptweir reload --admin http://127.0.0.1:8081",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return reloadGateway(cmd.Context(), a, f, output)
		},
	}
	f.addTo(command.Flags())
	addOutput(command, &output, formatText, formatJSON)
	return command
}

// reloadGateway makes a running gateway reload, and prints the outcome. It returns errReported if the gateway
// refuses the configuration or leaves out a team's file.
func reloadGateway(ctx context.Context, a *app, f adminFlags, output string) error {
	base, err := a.adminURL(f.url)
	if err != nil {
		return err
	}
	status, response, err := callAdmin(ctx, reloadTimeout, http.MethodPost, base, "/-/reload", f.token)
	if err != nil {
		return err
	}
	var state admin.ConfigurationState
	if err := json.Unmarshal(response, &state); err != nil || state.Loaded.IsZero() {
		return errNoGateway(base)
	}
	excluded := append(state.LastGood, state.Out...)
	switch {
	case output == formatJSON:
		err = terminal.PrintJSON(a.out, state)
	case status != http.StatusOK:
		a.warn("the gateway refuses the configuration, and keeps the previous one")
	case len(excluded) > 0:
		a.warn("the configuration is in use, except for %s", strings.Join(excluded, ", "))
	default:
		_, err = fmt.Fprintln(a.out, "the configuration is in use")
	}
	if output != formatJSON {
		for _, problem := range append(state.Problems, state.Warnings...) {
			a.warn("%s", problem)
		}
	}
	if err == nil && (status != http.StatusOK || len(excluded) > 0) {
		err = errReported
	}
	return err
}

// errNoGateway returns the error for a response that is not from an admin listener.
func errNoGateway(base string) error {
	return fmt.Errorf("%s answers, but not like a gateway's admin listener: name that with --admin", base)
}
