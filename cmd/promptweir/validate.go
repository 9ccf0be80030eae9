package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/promptweir/promptweir/cmd/promptweir/internal/terminal"
	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/clients"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream/files"
)

// validateFlags are the flags of validate.
type validateFlags struct {
	app *app

	output string
	strict bool
	live   bool
	// clients are the names of clients; their losses are found for who.
	clients []string
	who     principalFlags
}

func validateCommand(a *app) *cobra.Command {
	v := &validateFlags{app: a}
	command := &cobra.Command{
		Use: "validate [PATH]", Short: "Check a configuration and, with --live, its upstreams",
		Args: wantArgs(0, 1, "a configuration"),
		Long: `Check a configuration and its prompt files, without starting or contacting anything.

One run reports all errors, each with source location and remedy; those of prompt files, once the
configuration loads. Unset environment variables are warnings. With --strict, other warnings fail
too.

PATH is the configuration (` + whichConfig + `).

With --live, connect to the upstreams, start those with a command, and print a checklist: each
upstream's transport and prompts, rules and blocks without effect, URIs in the texts of skills that
clients do not find, and the gateway's addresses.

With --clients, report what each client hides, cuts or garbles of the prompts that --as sees
(default: of all prompts), and the remedy. Without --live, this covers prompts in files only. The
messages of servers' prompts are unknown.

-o json prints each diagnostic with its range; -o github annotates a pull request with diagnostics
and failed checks.`,
		Example: "  promptweir validate\n" +
			"  promptweir validate promptweir --live\n" +
			"  promptweir validate --clients claude-code,gemini,zed\n" +
			"  promptweir validate --config promptweir --live --strict -o github",
		SuggestFor: []string{"check", "lint", "doctor", "test", "verify"}, ValidArgsFunction: aFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.setConfig("validate", args); err != nil {
				return err
			}
			if err := v.checkClients(); err != nil {
				return err
			}
			if v.live {
				return v.validateLive(cmd.Context())
			}
			return v.validate(cmd.Context())
		},
	}
	command.Flags().BoolVar(&v.strict, "strict", false,
		"fail on warnings, except about unset environment variables")
	command.Flags().BoolVar(&v.live, "live", false,
		"connect to the upstreams, and print a checklist; starts those with a command")
	v.addClients(command)
	addOutput(command, &v.output, formatText, formatJSON, formatGitHub)
	addEnvFile(command)
	return command
}

// validation is what a check of a configuration found.
type validation struct {
	// diagnostics are those of the configuration, and then those of the files that hold prompts.
	diagnostics []config.Diagnostics
	// kept says of each team's file with mistakes what a gateway would do with it.
	kept []string
	// The rest is known where the configuration has no errors.
	teams, upstreams int
	// folders is how many of the upstreams have their prompts in files, and prompts how many
	// prompts these are.
	folders, prompts int
	// checks are those of --live, and the losses of --clients, which clients has one by one.
	checks  []liveCheck
	clients []clients.Loss
}

func (v *validateFlags) validate(ctx context.Context) error {
	found, err := v.check(ctx)
	if err != nil {
		return err
	}
	valid := found.isValid(v.strict)
	switch v.output {
	case formatJSON:
		err = terminal.PrintJSON(v.app.out, found.json(valid))
	case formatGitHub:
		err = annotate(v.app.out, found)
	default:
		err = v.printAll(found)
	}
	switch {
	case err != nil:
		return err
	case !valid && v.output == formatText:
		fmt.Fprintf(v.app.err, "%s is not valid: %s\n", v.app.config, found.counted())
		return errReported
	case !valid:
		return errReported
	case v.output == formatJSON:
		return nil
	}
	_, err = fmt.Fprintf(v.app.out, "%s is valid: %s\n", v.app.config, found.summary())
	return err
}

func (v *validateFlags) printAll(found *validation) (err error) {
	for _, d := range found.diagnostics {
		err = errors.Join(err, v.app.printDiagnostics(d))
	}
	for _, sentence := range found.kept {
		fmt.Fprintf(v.app.err, "On a reload: %s\n\n", sentence)
	}
	return errors.Join(err, printChecks(v.app.out, found.checks))
}

// check finds out what is wrong with the configuration and, if it loads, with the files that hold
// prompts.
func (v *validateFlags) check(ctx context.Context) (*validation, error) {
	cfg, diagnostics := config.Load(v.app.config, config.Options{AllowUnsetEnv: true})
	found := &validation{diagnostics: []config.Diagnostics{diagnostics}}
	if cfg == nil {
		found.kept = v.reloaded()
		return found, nil
	}
	locked, err := v.app.lockedLists(cfg, v.app.config)
	if err != nil {
		return nil, err
	}
	s, err := snapshot.Evaluate(ctx, cfg, locked, snapshot.Options{})
	if err != nil {
		return nil, err
	}
	found.diagnostics = append(found.diagnostics, config.NewDiagnostics(findingsIn(s)))
	found.teams, found.upstreams = len(cfg.Teams), len(s.Upstreams)
	for i, u := range s.Upstreams {
		if u.Files != nil {
			found.folders++
			found.prompts += len(s.Definitions(i))
		}
	}
	return found, v.findLosses(s, found)
}

// reloaded says what a gateway would do with teams' files that have mistakes.
func (v *validateFlags) reloaded() (sentences []string) {
	_, kept, _ := config.LoadTolerant(v.app.config, config.Options{AllowUnsetEnv: true}, nil)
	for _, k := range kept {
		sentences = append(sentences, k.Mistaken()+": a running gateway keeps using its previous version, one that "+
			"starts leaves it out; all other changes take effect.")
	}
	return sentences
}

// all returns each diagnostic.
func (f *validation) all() []config.Diagnostic {
	all := []config.Diagnostic{} // in JSON [], not null
	for _, d := range f.diagnostics {
		all = append(all, d.All()...)
	}
	return all
}

// annotations returns each diagnostic, and each check that is not ok as one.
func (f *validation) annotations() []config.Diagnostic {
	all := f.all()
	for i := range f.checks {
		if c := &f.checks[i]; c.Status != checkOK {
			all = append(all, c.diagnostic())
		}
	}
	return all
}

// isValid reports whether the configuration can be used; if strict, whether there is nothing to
// correct in it.
func (f *validation) isValid(strict bool) bool {
	for _, d := range f.all() {
		if d.Severity == config.SeverityError || strict && !d.UnsetVariable {
			return false
		}
	}
	return !slices.ContainsFunc(f.checks, func(c liveCheck) bool {
		return c.Status == checkError || strict && c.Status == checkWarning
	})
}

// summary says what the configuration has.
func (f *validation) summary() string {
	text := terminal.Count(f.teams, "team") + ", " + terminal.Count(f.upstreams, "upstream")
	if f.folders > 0 {
		text += ", " + terminal.Count(f.prompts, "prompt") + " in files"
	}
	if _, warnings := f.count(); warnings > 0 {
		text += "; " + terminal.Count(warnings, "warning")
	}
	return text
}

// count counts errors and warnings.
func (f *validation) count() (errs, warnings int) {
	all := f.annotations()
	for _, d := range all {
		if d.Severity == config.SeverityError {
			errs++
		}
	}
	return errs, len(all) - errs
}

// counted says how many mistakes there are.
func (f *validation) counted() string {
	errs, warnings := f.count()
	return terminal.Count(errs, "error") + ", " + terminal.Count(warnings, "warning")
}

// json returns the result for programs, in the form of terraform validate.
func (f *validation) json(valid bool) any {
	failed, warned := f.count()
	return struct {
		Valid          bool                `json:"valid"`
		ErrorCount     int                 `json:"error_count"`
		WarningCount   int                 `json:"warning_count"`
		Diagnostics    []config.Diagnostic `json:"diagnostics"`
		OnReload       []string            `json:"on_reload,omitempty"`
		Teams          int                 `json:"teams"`
		Upstreams      int                 `json:"upstreams"`
		PromptsInFiles int                 `json:"prompts_in_files"`
		Clients        []clients.Loss      `json:"clients,omitempty"`
	}{valid, failed, warned, f.annotations(), f.kept, f.teams, f.upstreams, f.prompts, f.clients}
}

// annotate prints what was found as commands by which GitHub Actions annotates the lines of a pull
// request.
func annotate(w io.Writer, found *validation) error {
	data := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	property := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	var text strings.Builder
	for _, d := range found.annotations() {
		text.WriteString("::" + d.Severity + " ")
		if at := d.Range; at != nil {
			fmt.Fprintf(&text, "file=%s,line=%d,endLine=%d,",
				property.Replace(inWorkspace(at.Filename)), at.Start.Line, at.End.Line)
			if at.Start.Line == at.End.Line && at.Start.Column > 0 { // columns of several lines are refused
				fmt.Fprintf(&text, "col=%d,endColumn=%d,", at.Start.Column, at.End.Column)
			}
		}
		fmt.Fprintf(&text, "title=%s::%s\n", property.Replace(d.Summary), data.Replace(d.Detail))
	}
	for _, sentence := range found.kept {
		fmt.Fprintf(&text, "::notice title=On a reload::%s\n", data.Replace(sentence))
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// inWorkspace returns a path as GitHub knows it: from the root of the repository, wherever the step
// of the workflow runs.
func inWorkspace(path string) string {
	if workspace := os.Getenv("GITHUB_WORKSPACE"); workspace != "" {
		absolute, err := filepath.Abs(path)
		if relative, relErr := filepath.Rel(workspace, absolute); err == nil && relErr == nil && filepath.IsLocal(relative) {
			path = relative
		}
	}
	return filepath.ToSlash(path)
}

// findingsIn returns what is wrong with the files of prompts, and with the definitions in them.
func findingsIn(s *snapshot.Snapshot) (findings []config.Finding) {
	findings = fileFindings(s)
	for _, r := range catalog.Summarized(append(s.Reports(), snapshot.Unmatched(s)...)) {
		switch r.Kind {
		case catalog.BrokenFile, catalog.PartlyServed: // which are findings already
		case catalog.Drift:
			if len(s.Config.Lock) > 0 { // else there is no lock file, which was reported
				findings = append(findings, drift(s, r))
			}
		default:
			text := strings.ToUpper(r.Text[:1]) + r.Text[1:] + "."
			findings = append(findings, config.Finding{
				Summary: "Problem with a prompt", Detail: text, IsWarning: r.Kind != catalog.Unreadable,
			})
		}
	}
	return findings
}

// fileFindings returns the problems of files. What several upstreams have in common is one finding.
func fileFindings(s *snapshot.Snapshot) (findings []config.Finding) {
	blocks, first, also := map[string]bool{}, map[files.Problem]int{}, map[int][]string{}
	for _, u := range s.Upstreams {
		blocks[u.Place.String()] = true
	}
	for _, p := range s.FileProblems() {
		mistake, isBlock := p, blocks[p.Place()]
		if isBlock { // which says it in the same words for the same folder or team
			mistake.Path, mistake.Line = "", 0
		}
		at, known := first[mistake]
		switch {
		case !known:
			first[mistake] = len(findings)
			findings = append(findings, config.Finding{
				Path: p.Path, Line: p.Line, Source: p.Source, Summary: p.Summary, Detail: p.Detail,
				IsWarning: p.Severity != files.Broken,
			})
		case isBlock:
			also[at] = append(also[at], p.Place())
		}
	}
	for at, places := range also {
		findings[at].Detail += " The same goes for " + strings.Join(places, ", ") + "."
	}
	return findings
}

// drift says that a prompt's file is not as the lock file approves it.
func drift(s *snapshot.Snapshot, r catalog.Report) config.Finding {
	owner := r.Owners[0]
	at, _ := s.Index(owner.Upstream)
	u := &s.Upstreams[at]
	found := config.Finding{
		Line: 1, Summary: "Not approved", Detail: strings.ToUpper(r.Text[:1]) + r.Text[1:] + ".",
		IsWarning: s.Config.LockFor(u.Team).Mode != config.LockEnforce,
	}
	if len(r.Owners) > 1 {
		found.Path, found.Line = u.Place.File, u.Place.Line
	} else if prompt := s.FilePrompt(u.Name, owner.Name); prompt != nil {
		found.Path = filepath.Join(u.Files.Root, filepath.FromSlash(prompt.Path))
	}
	return found
}
