package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func (a *app) validateCommand() *cobra.Command {
	return &cobra.Command{
		Use: "validate", Short: "Check a configuration without starting or contacting anything", Args: takes(cobra.NoArgs),
		Long: "Check a configuration without starting or contacting anything.\n\n" +
			"All errors are reported in one run, each with its place and a remedy. Unset environment variables are warnings.",
		RunE: func(*cobra.Command, []string) error {
			cfg, err := a.load(true)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.out, "%s is valid: %s, %s\n", a.config, count(len(cfg.Teams), "team"), count(len(cfg.Upstreams()), "upstream"))
			return err
		},
	}
}
