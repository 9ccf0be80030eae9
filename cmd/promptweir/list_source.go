package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/promptweir/promptweir/cmd/promptweir/internal/terminal"
	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/snapshot"
)

// chooseSource ends messages about lists of upstreams that are needed, or would say more.
const chooseSource = "use --state PATH to read saved lists, or --live to connect to the upstreams"

// listSource are the flags that say where a command gets the upstreams' lists from. Without them there are only the prompts in
// files: the configuration may be an untrusted pull request, so nothing is started or contacted unless a flag says so.
type listSource struct {
	*app

	state string
	live  bool
}

func (l *listSource) addTo(command *cobra.Command) {
	command.Flags().StringVar(&l.state, "state", "", "read the upstreams' lists from `PATH`: a state_dir, or the output of list -o json")
	completeFlag(command, "state", aFile)
	command.Flags().BoolVar(&l.live, "live", false, "connect to the upstreams for their lists; starts those with a command")
}

// given reports whether the flags name a source.
func (l *listSource) given() bool { return l.live || l.state != "" }

// suffices reports whether the lists of a configuration are known: by the flags, or because all prompts are in files.
func (l *listSource) suffices(cfg *config.Config) bool {
	return l.given() || !slices.ContainsFunc(cfg.Upstreams(), func(u config.Upstream) bool { return u.Files == nil })
}

func (l *listSource) check() error {
	if l.live && l.state != "" {
		return &usageError{"--live and --state are mutually exclusive"}
	}
	return nil
}

// evaluate calls use with a snapshot of the configuration and the lists of the source, if there are any.
func (l *listSource) evaluate(ctx context.Context, cfg *config.Config, use func(*snapshot.Snapshot) error) error {
	if l.live {
		return l.withUpstreams(ctx, cfg, func(g *gateway.Gateway) error { return use(g.Snapshot()) })
	}
	lists, err := l.savedLists(cfg)
	if err != nil {
		return err
	}
	s, err := snapshot.Evaluate(cfg, lists, snapshot.Options{})
	if err != nil {
		return err
	}
	return use(s)
}

// savedLists returns the lists of --state, or none without it. It prints which of them cannot be used.
func (l *listSource) savedLists(cfg *config.Config) (snapshot.Lists, error) {
	if l.state == "" {
		return snapshot.Lists{}, nil
	}
	lists, problems, err := snapshot.ReadLists(cfg, l.state)
	for _, problem := range problems {
		fmt.Fprintln(l.err, "promptweir:", terminal.OneLine(problem, terminal.MaxReport))
	}
	return lists, err
}
