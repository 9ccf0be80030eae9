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
	"github.com/promptweir/promptweir/gateway/inspect"
	"github.com/promptweir/promptweir/gateway/publish"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream/files"
)

type validateFlags struct {
	app *app

	output string
	strict bool
	live   bool
	// clients are the names of the clients whose losses are reported, for the principal in who.
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

// validation is the result of checking a configuration.
type validation struct {
	// diagnostics are about the configuration, then about prompt files.
	diagnostics []config.Diagnostics
	// onReload contains sentences about a gateway's fallbacks for team files with errors.
	onReload []string
	// The fields below are zero if the configuration has errors.
	teams, upstreams int
	// folders is the number of upstreams with prompts in files, prompts the number of their prompts.
	folders, prompts int
	// checks contains the results of --live and the losses of --clients, clients the details of the losses.
	checks  []liveCheck
	clients []clients.Loss
}

func (v *validateFlags) validate(ctx context.Context) error {
	cfg, diagnostics := config.Load(v.app.config, config.Options{AllowUnsetEnv: !v.live})
	found := &validation{diagnostics: []config.Diagnostics{diagnostics}}
	check := v.check
	if v.live {
		found.checks = []liveCheck{} // in JSON [], not null
		check = v.checkLive
	}
	if cfg == nil {
		found.onReload = v.reloaded()
	} else if err := check(ctx, cfg, found); err != nil {
		return err
	}
	if err := v.print(found); err != nil {
		return err
	}
	if !found.isValid(v.strict) {
		return errReported
	}
	return nil
}

// print prints the result in the format of --output. Except in JSON, a summary follows.
func (v *validateFlags) print(found *validation) (err error) {
	valid := found.isValid(v.strict)
	switch v.output {
	case formatJSON:
		return terminal.PrintJSON(v.app.out, found.json(valid, v.live))
	case formatGitHub:
		err = annotate(v.app.out, found)
	default:
		err = v.printAll(found)
	}
	switch {
	case err != nil:
	case v.live && len(found.checks) > 0:
		_, err = fmt.Fprintf(v.app.out, "%s: %s\n", v.app.config, summaryOf(found.checks))
	case v.live:
	case valid:
		_, err = fmt.Fprintf(v.app.out, "%s is valid: %s\n", v.app.config, found.summary())
	case v.output == formatText:
		errs, warnings := found.severities()
		fmt.Fprintf(v.app.err, "%s is not valid: %s, %s\n", v.app.config, terminal.Count(errs, "error"), terminal.Count(warnings, "warning"))
	}
	return err
}

func (v *validateFlags) printAll(found *validation) (err error) {
	for _, d := range found.diagnostics {
		err = errors.Join(err, v.app.printDiagnostics(d))
	}
	for _, sentence := range found.onReload {
		fmt.Fprintf(v.app.err, "On a reload: %s\n\n", sentence)
	}
	for i := range found.checks {
		_, writeErr := fmt.Fprintf(v.app.out, "%-7s  %s\n", found.checks[i].Status, found.checks[i].Text)
		err = errors.Join(err, writeErr)
	}
	return err
}

// check checks the prompt files of a configuration without starting or contacting servers.
func (v *validateFlags) check(ctx context.Context, cfg *config.Config, found *validation) error {
	locked, err := v.app.lockedLists(cfg, v.app.config)
	if err != nil {
		return err
	}
	s, err := publish.Evaluate(ctx, cfg, locked, publish.Options{})
	if err != nil {
		return err
	}
	found.diagnostics = append(found.diagnostics, config.NewDiagnostics(findingsIn(s)))
	found.count(s)
	return v.findLosses(s, found)
}

// count sets the numbers of teams, upstreams, folders and prompts.
func (f *validation) count(s *snapshot.Snapshot) {
	f.teams, f.upstreams = len(s.Config.Teams), len(s.Upstreams)
	for i, u := range s.Upstreams {
		if u.Files != nil {
			f.folders++
			f.prompts += len(s.Definitions(i))
		}
	}
}

// reloaded returns sentences about a gateway's fallbacks for team files with errors.
func (v *validateFlags) reloaded() (sentences []string) {
	_, kept, _ := config.LoadTolerant(v.app.config, config.Options{AllowUnsetEnv: true}, nil)
	for _, k := range kept {
		sentences = append(sentences, k.Mistaken()+": a running gateway keeps using its previous version, one that "+
			"starts leaves it out; all other changes take effect.")
	}
	return sentences
}

// all returns all diagnostics in one list.
func (f *validation) all() []config.Diagnostic {
	all := []config.Diagnostic{} // in JSON [], not null
	for _, d := range f.diagnostics {
		all = append(all, d.All()...)
	}
	return all
}

// annotations returns all diagnostics, and each failed check as a diagnostic.
func (f *validation) annotations() []config.Diagnostic {
	all := f.all()
	for i := range f.checks {
		if c := &f.checks[i]; c.Status != checkOK {
			all = append(all, c.diagnostic())
		}
	}
	return all
}

// isValid reports whether there are no errors. If strict is true, only warnings about unset variables are
// allowed.
func (f *validation) isValid(strict bool) bool {
	return !slices.ContainsFunc(f.annotations(), func(d config.Diagnostic) bool {
		return d.Severity == config.SeverityError || strict && !d.UnsetVariable
	})
}

// summary returns the numbers of teams, upstreams, prompts in files and warnings, for people.
func (f *validation) summary() string {
	text := terminal.Count(f.teams, "team") + ", " + terminal.Count(f.upstreams, "upstream")
	if f.folders > 0 {
		text += ", " + terminal.Count(f.prompts, "prompt") + " in files"
	}
	if _, warnings := f.severities(); warnings > 0 {
		text += "; " + terminal.Count(warnings, "warning")
	}
	return text
}

// severities counts errors and warnings.
func (f *validation) severities() (errs, warnings int) {
	all := f.annotations()
	for _, d := range all {
		if d.Severity == config.SeverityError {
			errs++
		}
	}
	return errs, len(all) - errs
}

// json returns the result in the form of terraform validate -json. With live, the checks are in a separate
// list; otherwise failed checks are among the diagnostics.
func (f *validation) json(valid, live bool) any {
	failed, warned := f.severities()
	diagnostics, checks := f.annotations(), []liveCheck(nil)
	if live {
		diagnostics, checks = f.all(), f.checks
	}
	return struct {
		Valid          bool                `json:"valid"`
		ErrorCount     int                 `json:"error_count"`
		WarningCount   int                 `json:"warning_count"`
		Diagnostics    []config.Diagnostic `json:"diagnostics"`
		OnReload       []string            `json:"on_reload,omitempty"`
		Checks         []liveCheck         `json:"checks,omitzero"`
		Teams          int                 `json:"teams"`
		Upstreams      int                 `json:"upstreams"`
		PromptsInFiles int                 `json:"prompts_in_files"`
		Clients        []clients.Loss      `json:"clients,omitempty"`
	}{valid, failed, warned, diagnostics, f.onReload, checks, f.teams, f.upstreams, f.prompts, f.clients}
}

// annotate prints workflow commands, with which GitHub Actions annotates the lines of a pull request.
func annotate(w io.Writer, found *validation) error {
	data := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	property := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	var text strings.Builder
	for _, d := range found.annotations() {
		text.WriteString("::" + d.Severity + " ")
		if at := d.Range; at != nil {
			fmt.Fprintf(&text, "file=%s,line=%d,endLine=%d,",
				property.Replace(inWorkspace(at.Filename)), at.Start.Line, at.End.Line)
			if at.Start.Line == at.End.Line && at.Start.Column > 0 { // GitHub refuses columns for several lines
				fmt.Fprintf(&text, "col=%d,endColumn=%d,", at.Start.Column, at.End.Column)
			}
		}
		fmt.Fprintf(&text, "title=%s::%s\n", property.Replace(d.Summary), data.Replace(d.Detail))
	}
	for _, sentence := range found.onReload {
		fmt.Fprintf(&text, "::notice title=On a reload::%s\n", data.Replace(sentence))
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// inWorkspace returns a path relative to GITHUB_WORKSPACE, as GitHub requires. Outside of the workspace, it
// returns the path unchanged.
func inWorkspace(path string) string {
	if workspace := os.Getenv("GITHUB_WORKSPACE"); workspace != "" {
		absolute, err := filepath.Abs(path)
		if relative, relErr := filepath.Rel(workspace, absolute); err == nil && relErr == nil && filepath.IsLocal(relative) {
			path = relative
		}
	}
	return filepath.ToSlash(path)
}

// findingsIn returns the problems of prompt files, and of the catalog.
func findingsIn(s *snapshot.Snapshot) (findings []config.Finding) {
	findings = fileFindings(s)
	for _, r := range catalog.Summarized(append(s.Reports(), publish.Unmatched(s)...)) {
		switch r.Kind {
		case catalog.BrokenFile, catalog.PartlyServed: // fileFindings has returned them
		case catalog.Drift:
			if len(s.Config.Lock) > 0 { // a missing lock file is reported elsewhere
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

// fileFindings returns the problems of files. Equal problems of several upstreams become one finding.
func fileFindings(s *snapshot.Snapshot) (findings []config.Finding) {
	blocks, first, also := map[string]bool{}, map[files.Problem]int{}, map[int][]string{}
	for _, u := range s.Upstreams {
		blocks[u.Place.String()] = true
	}
	for _, p := range s.FileProblems() {
		mistake, isBlock := p, blocks[p.Place()]
		if isBlock { // compare without the location: other upstreams may report the same folder or team
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

// drift returns the finding about a prompt that differs from the lock file.
func drift(s *snapshot.Snapshot, r catalog.Report) config.Finding {
	owner := r.Owners[0]
	at, _ := s.Index(owner.Upstream)
	u := &s.Upstreams[at]
	found := config.Finding{
		Line: 1, Summary: "Not approved", Detail: strings.ToUpper(r.Text[:1]) + r.Text[1:] + ".",
		IsWarning: s.Config.LockFor(u.Team).Mode != config.LockEnforce,
	}
	if found.Path = promptFile(s, owner); len(r.Owners) > 1 {
		found.Path, found.Line = u.Place.File, u.Place.Line
	}
	return found
}

// promptFile returns the path of the file of an owner's prompt, or "" if the prompt is not from a file.
func promptFile(s *snapshot.Snapshot, owner catalog.Owner) string {
	prompt := inspect.FilePrompt(s, owner)
	if prompt == nil {
		return ""
	}
	i, _ := s.Index(owner.Upstream)
	return filepath.Join(s.Upstreams[i].Files.Root, filepath.FromSlash(prompt.Path))
}
