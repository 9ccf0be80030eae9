package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream/files"
)

func (a *app) validateCommand() *cobra.Command {
	return &cobra.Command{
		Use: "validate", Short: "Check a configuration without starting or contacting anything", Args: takes(cobra.NoArgs),
		Long: "Check a configuration, and the files of its prompts, without starting or contacting anything.\n\n" +
			"All errors are reported in one run, each with its place and a remedy. Unset environment variables are warnings.",
		RunE: func(*cobra.Command, []string) error { return a.validate() },
	}
}

func (a *app) validate() error {
	cfg, err := a.load(true)
	if err != nil {
		return err
	}
	prompts, err := a.validateFiles(cfg)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.out, "%s is valid: %s, %s%s\n", a.config, count(len(cfg.Teams), "team"), count(len(cfg.Upstreams()), "upstream"), prompts)
	return err
}

// validateFiles checks the files of prompts, and says how many prompts there are in them.
func (a *app) validateFiles(cfg *config.Config) (prompts string, err error) {
	s, err := snapshot.Evaluate(cfg, nil, snapshot.Options{})
	if err != nil {
		return "", err
	}
	if err := a.printFindings(findingsIn(s)); err != nil {
		return "", err
	}
	inFiles := 0
	for i, u := range s.Upstreams {
		if u.Files == nil {
			continue
		}
		inFiles += len(s.Definitions(i))
		prompts = ", " + count(inFiles, "prompt") + " in files"
	}
	return prompts, nil
}

// findingsIn returns what is wrong with the files of prompts, and with the definitions in them.
func findingsIn(s *snapshot.Snapshot) (findings []config.Finding) {
	for _, p := range s.FileProblems() {
		findings = append(findings, config.Finding{
			Path: p.Path, Line: p.Line, Source: p.Source, Summary: p.Summary, Detail: p.Detail, IsWarning: p.Severity != files.Broken,
		})
	}
	for _, r := range s.Reports() {
		switch r.Kind {
		case catalog.BrokenFile, catalog.PartlyServed: // which are findings already
		case catalog.Drift: // which lock --diff shows
		default:
			findings = append(findings, config.Finding{
				Summary: "Reported prompt", Detail: sentence(r.Text), IsWarning: r.Kind != catalog.Unreadable,
			})
		}
	}
	return findings
}

// sentence makes a sentence of a report.
func sentence(text string) string { return strings.ToUpper(text[:1]) + text[1:] + "." }

// printFindings prints findings as diagnostics. The error is errReported if there are mistakes among them.
func (a *app) printFindings(findings []config.Finding) error {
	_, err := a.loadWith(func() (*config.Config, config.Diagnostics) { return nil, config.NewDiagnostics(findings) })
	return err
}
