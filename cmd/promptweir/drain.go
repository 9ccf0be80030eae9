package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/promptweir/promptweir/cmd/promptweir/internal/terminal"
	"github.com/promptweir/promptweir/gateway/admin"
)

// drainFlags are the flags of the commands drain and undrain.
type drainFlags struct {
	admin  adminFlags
	output string
}

func drainCommand(a *app) *cobra.Command {
	return newDrainCommand(a, true, &cobra.Command{
		Use: "drain NAME", Short: "Take an upstream of a running gateway out of service",
		Long: `Take an upstream of a running gateway out of service.

New gets and completions go to other owners of the prompt, or fail with the reason draining; gets
in flight finish. Its prompts stay listed, unless when_down hides them. The drain ends with
promptweir undrain, or when the gateway and all its replicas restart.`,
		Example: "  promptweir drain billing --config promptweir\n" +
			"  promptweir drain billing --admin http://127.0.0.1:8081",
	})
}

func undrainCommand(a *app) *cobra.Command {
	return newDrainCommand(a, false, &cobra.Command{
		Use: "undrain NAME", Short: "Let a drained upstream serve again",
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
	f.admin.addTo(command.Flags())
	addOutput(command, &f.output, formatText, formatJSON)
	return command
}

// setDrained drains an upstream of a running gateway, or lets it serve again, and prints what holds
// then.
func setDrained(ctx context.Context, a *app, name string, drained bool, f drainFlags) error {
	base, err := a.adminURL(f.admin.url)
	if err != nil {
		return err
	}
	body, err := json.Marshal(admin.Drain{Upstream: name, Drained: &drained})
	if err != nil {
		return err
	}
	_, response, err := callAdmin(ctx, drainTimeout, http.MethodPost, base, "/api/drain", f.admin.token, body)
	if err != nil {
		return err
	}
	var now admin.Drain
	if err := json.Unmarshal(response, &now); err != nil || now.Drained == nil {
		return errNoGateway(base)
	}
	if f.output == formatJSON {
		return terminal.PrintJSON(a.out, now)
	}
	if !drained {
		_, err = fmt.Fprintf(a.out, "%s is not drained\n", name)
		return err
	}
	since := cmp.Or(now.Since, &time.Time{}).UTC().Format(time.RFC3339)
	_, err = fmt.Fprintf(a.out,
		"%s has been drained since %s; promptweir undrain %s lets it serve again\n", name, since, name)
	return err
}

// completeUpstream completes the name of an upstream.
func (a *app) completeUpstream(
	_ *cobra.Command, args []string, _ string,
) (names []cobra.Completion, _ cobra.ShellCompDirective) {
	if cfg := a.completionConfig(); cfg != nil && len(args) == 0 {
		for _, u := range cfg.Upstreams() {
			names = append(names, u.Name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
