package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/promptweir/promptweir/cmd/promptweir/internal/terminal"
	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/clients"
	"github.com/promptweir/promptweir/gateway/inspect"
	"github.com/promptweir/promptweir/gateway/snapshot"
)

// allClients is the value of --clients for every known client.
const allClients = "all"

func (v *validateFlags) addClients(command *cobra.Command) {
	command.Flags().StringSliceVar(&v.clients, "clients", nil,
		"report what `CLIENTS` lose of prompts: all, or names separated by commas, for example claude-code,gemini,zed")
	completeFlag(command, "clients",
		cobra.FixedCompletions(append(clients.Names(), allClients), cobra.ShellCompDirectiveNoFileComp))
	v.who.addTo(command, v.app, "with --clients, the prompts of `PRINCIPAL`, for example user:alice,group:payments")
}

// checkClients returns a usage error for unknown clients, and for --as and --claims without an effect.
func (v *validateFlags) checkClients() error {
	if v.who != (principalFlags{}) && len(v.clients) == 0 {
		return &usageError{"--as requires --clients: a configuration is valid for everybody"}
	}
	for _, name := range v.clients {
		if known := append(clients.Names(), allClients); name != allClients && clients.Find(name) == nil {
			return &usageError{fmt.Sprintf("--clients %q: use %s%s", name, config.OrList(known),
				config.Suggest(name, known))}
		}
	}
	return nil
}

// findLosses adds the losses of the clients in --clients.
func (v *validateFlags) findLosses(s *snapshot.Snapshot, found *validation) error {
	if len(v.clients) == 0 {
		return nil
	}
	principal, err := v.who.principal(s.Config)
	if err != nil {
		return err
	}
	if unlisted := s.Unlisted(); len(unlisted) > 0 {
		remedy := "use --live"
		if v.live {
			remedy = "see its check"
		}
		v.app.warn("--clients knows no prompts of %s: %s", strings.Join(unlisted, ", "), remedy)
	}
	of := clients.All()
	if !slices.Contains(v.clients, allClients) {
		of = slices.DeleteFunc(of, func(c clients.Client) bool { return !slices.ContainsFunc(v.clients, c.Is) })
	}
	found.clients = inspect.ClientLosses(s, principal, "", of)
	found.checks = append(found.checks, lossChecks(s, found.clients)...)
	return nil
}

// maxExamples bounds the prompts that a line names.
const maxExamples = 3

// lossChecks returns a line for each loss. Losses that concern all prompts come first. If more than maxExamples
// prompts have the same loss in the same clients, they share a line.
func lossChecks(s *snapshot.Snapshot, losses []clients.Loss) (checks []liveCheck) {
	type group struct{ clients, kind, reason string }
	groupOf := func(l clients.SharedLoss) group {
		reason, _, _ := strings.Cut(l.Reason, ": ") // without the detail about this prompt
		return group{strings.Join(l.Titles, ", "), string(l.Kind), reason}
	}
	joined, prompts := clients.Join(losses), map[group][]string{}
	for _, shared := range joined {
		prompts[groupOf(shared)] = append(prompts[groupOf(shared)], shared.Prompt)
	}
	for _, shared := range joined {
		subject, location := "each prompt", ""
		if shared.Prompt != "" {
			owner := s.Catalog.Lookup(shared.Prompt).Owners[0]
			location = cmp.Or(promptFile(s, owner), owner.Place)
			subject = fmt.Sprintf("%s (%s)", shared.Prompt, location)
		}
		if all := prompts[groupOf(shared)]; len(all) > maxExamples {
			if all[0] != shared.Prompt {
				continue
			}
			subject = fmt.Sprintf("each of %d prompts, such as %s,", len(all), strings.Join(all[:maxExamples], ", "))
			shared.Reason = groupOf(shared).reason
		}
		checks = append(checks, checked("client", checkWarning, location, "%s",
			terminal.OneLine(fmt.Sprintf("%s is %s; %s", subject, shared.What(), shared.Remedy))))
	}
	return checks
}
