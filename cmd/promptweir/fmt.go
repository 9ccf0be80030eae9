package main

import (
	"fmt"
	"os"
	"slices"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"github.com/promptweir/promptweir/cmd/promptweir/internal/terminal"
	"github.com/promptweir/promptweir/config"
)

const (
	// standardInput is the PATH that stands for standard input.
	standardInput = "-"
	// maxInput bounds standard input, in bytes.
	maxInput = 1 << 20
)

type fmtFlags struct {
	app *app

	check, diff bool
	output      string
}

func fmtCommand(a *app) *cobra.Command {
	f := &fmtFlags{app: a}
	command := &cobra.Command{
		Use: "fmt [PATH]...", Short: "Format configuration files", Args: cobra.ArbitraryArgs,
		Long: `Format configuration files in the canonical style, and print the names of changed
files. Comments stay.

PATH is a file, or a folder of *.hcl files (` + whichConfig + `).
Lock files stay as they are. If PATH is -, fmt formats standard input and prints it.`,
		Example: "  promptweir fmt --config promptweir\n" +
			"  promptweir fmt --check teams/payments.hcl\n" +
			"  promptweir fmt --diff teams\n" +
			"  promptweir fmt - <teams/payments.hcl",
		SuggestFor: []string{"format"},
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 || a.configGiven() {
				if err := a.setConfig("fmt", args); err != nil {
					return err
				}
				args = []string{a.config}
			}
			if slices.Contains(args, standardInput) {
				return f.formatInput(args)
			}
			return f.format(args)
		},
	}
	command.Flags().BoolVar(&f.check, "check", false, "change nothing; fail if a file would change")
	command.Flags().BoolVar(&f.diff, "diff", false,
		"change nothing; print the differences of each file")
	command.ValidArgsFunction = aFile
	addOutput(command, &f.output, formatText, formatJSON)
	return command
}

// format formats the files of all paths. It continues after a file that does not parse.
func (f *fmtFlags) format(paths []string) error {
	failed, changed := false, []string{}
	for _, path := range paths {
		within := path
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			within = "" // a link that the user names may lead anywhere
		}
		files, diagnostics := config.Format(path)
		if err := f.app.printDiagnostics(diagnostics); err != nil {
			return err
		}
		failed = failed || diagnostics.HasErrors()
		for _, file := range files {
			if !file.Changed() {
				continue
			}
			changed = append(changed, file.Path)
			if err := f.change(within, file); err != nil {
				return err
			}
		}
	}
	if f.output == formatJSON {
		if err := terminal.PrintJSON(f.app.out, map[string][]string{"changed": changed}); err != nil {
			return err
		}
	}
	if failed || f.check && len(changed) > 0 {
		return errReported
	}
	return nil
}

// change prints a file's name or, with --diff, the lines that formatting changes. Unless --check or --diff is
// set, it writes the file in canonical form.
func (f *fmtFlags) change(within string, file config.Formatted) (err error) {
	switch {
	case f.output == formatJSON:
	case f.diff:
		err = f.printDiff(file)
	default:
		_, err = fmt.Fprintln(f.app.out, file.Path)
	}
	if err != nil || f.check || f.diff {
		return err
	}
	return replaceFile(within, file.Path, file.After)
}

func (f *fmtFlags) printDiff(file config.Formatted) error {
	_, err := f.app.out.Write(diff.Diff(file.Path, file.Before, file.Path+" (formatted)",
		file.After))
	return err
}

// formatInput formats standard input, for editors. Without --check and --diff, it prints the text even if
// nothing changes.
func (f *fmtFlags) formatInput(args []string) error {
	if len(args) > 1 || f.output == formatJSON {
		return &usageError{"fmt -: formats standard input alone, and prints it as text"}
	}
	content, err := readAtMost(f.app.in, "standard input", maxInput)
	if err != nil {
		return err
	}
	file, diagnostics := config.FormatText("standard input", content)
	if err := f.app.report(diagnostics); err != nil {
		return err
	}
	switch {
	case f.diff:
		err = f.printDiff(file)
	case !f.check:
		// Write to the raw stream: an editor would save the replaced characters.
		_, err = f.app.raw.out.Write(file.After)
	}
	if err == nil && f.check && file.Changed() {
		return errReported
	}
	return err
}
