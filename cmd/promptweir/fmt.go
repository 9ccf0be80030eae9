package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/promptweir/promptweir/config"
)

func (a *app) fmtCommand() *cobra.Command {
	var check bool
	command := &cobra.Command{
		Use: "fmt [PATH]...", Short: "Format configuration files", Args: takes(cobra.ArbitraryArgs),
		Long: "Format configuration files in the canonical style, and print the names of those that changed. Comments are kept.\n\n" +
			"PATH is a file, or a folder of *.hcl files; the default is the path of --config. Lock files are not touched.",
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 && a.config != "" {
				args = []string{a.config}
			}
			if len(args) == 0 {
				return &usageError{"PATH or --config PATH is required"}
			}
			return a.format(args, check)
		},
	}
	command.Flags().BoolVar(&check, "check", false, "change nothing; fail if a file would change")
	return command
}

// format formats the files of all paths. One that cannot be parsed does not keep it from the others.
func (a *app) format(paths []string, check bool) error {
	failed := false
	for _, path := range paths {
		within := path
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			within = "" // whoever names a file means what it is a link to
		}
		files, diagnostics := config.Format(path)
		if err := a.printDiagnostics(diagnostics); err != nil {
			return err
		}
		failed = failed || diagnostics.HasErrors()
		for _, file := range files {
			if !file.Changed() {
				continue
			}
			if _, err := fmt.Fprintln(a.out, file.Path); err != nil {
				return err
			}
			failed = failed || check
			if check {
				continue
			}
			if err := replaceFile(within, file.Path, file.After); err != nil {
				return err
			}
		}
	}
	if failed {
		return errReported
	}
	return nil
}
