package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/snapshot"
)

// remedy says how a command can know what a configuration's upstreams offer.
const remedy = "--state PATH looks in saved lists, --live asks the upstreams"

// origin is where a command that reads a configuration has the upstreams' lists from. Nothing is started or contacted
// unless that was asked for, as list does without --as: the configuration may be somebody else's, to be reviewed.
type origin struct {
	*app

	state string
	live  bool
}

func (o *origin) flags(command *cobra.Command) {
	command.Flags().StringVar(&o.state, "state", "", "read the upstreams' lists from `PATH`: a state_dir, or what list -o json printed")
	command.Flags().BoolVar(&o.live, "live", false, "connect to the upstreams, and start those that are commands, for their lists")
}

// known reports whether lists were asked for at all.
func (o *origin) known() bool { return o.live || o.state != "" }

func (o *origin) check() error {
	if o.live && o.state != "" {
		return &usageError{"--live and --state exclude each other"}
	}
	return nil
}

// evaluate passes what the configuration makes of the upstreams' lists to use: of their present lists with --live, and else
// of saved ones, or none.
func (o *origin) evaluate(ctx context.Context, cfg *config.Config, use func(*snapshot.Snapshot) error) error {
	if o.live {
		return o.running(ctx, cfg, func(g *gateway.Gateway) error { return use(g.Snapshot()) })
	}
	lists, err := o.saved(cfg)
	if err != nil {
		return err
	}
	s, err := snapshot.Evaluate(cfg, lists, snapshot.Options{})
	if err != nil {
		return err
	}
	return use(s)
}

// saved returns the lists of --state, or none without it. It says which of them cannot be used.
func (o *origin) saved(cfg *config.Config) (snapshot.Lists, error) {
	if o.state == "" {
		return snapshot.Lists{}, nil
	}
	lists, problems, err := snapshot.ReadLists(cfg, o.state)
	for _, problem := range problems {
		fmt.Fprintln(o.err, "promptweir:", oneLine(problem, maxReport))
	}
	return lists, err
}

// running connects to the upstreams for as long as use runs.
func (a *app) running(ctx context.Context, cfg *config.Config, use func(*gateway.Gateway) error) error {
	logger, err := a.quietLogger()
	if err != nil {
		return err
	}
	return withGateway(ctx, cfg, gateway.Options{Logger: logger, Version: buildVersion()}, func(g *gateway.Gateway) error {
		if err := a.settle(ctx, g); err != nil {
			return err
		}
		return use(g)
	})
}
