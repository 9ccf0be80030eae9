package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/promptweir/promptweir/config"
)

func (a *app) fmtCommand() *cobra.Command {
	var check bool
	command := &cobra.Command{
		Use: "fmt [PATH]...", Short: "Lay configuration files out in the canonical way, comments kept", Args: takes(cobra.ArbitraryArgs),
		Long: "Lay configuration files out in the canonical way, comments kept, and print the names of those that changed.\n\n" +
			"PATH is a file, or a folder of *.hcl files; without one it is that of --config. Lock files are left alone.",
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 && a.config != "" {
				args = []string{a.config}
			}
			if len(args) == 0 {
				return &usageError{"say what to format: PATH or --config PATH"}
			}
			return a.format(args, check)
		},
	}
	command.Flags().BoolVar(&check, "check", false, "change nothing; fail if a file would change")
	return command
}

// format goes through all paths, whatever it finds on the way.
func (a *app) format(paths []string, check bool) error {
	failed := false
	for _, path := range paths {
		files, diagnostics := config.Format(path)
		width, color := terminal(a.err)
		if err := diagnostics.Write(a.err, width, color); err != nil {
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
			if err := replaceFile(file.Path, file.After); err != nil {
				return err
			}
		}
	}
	if failed {
		return errReported
	}
	return nil
}

// newFile is the mode of a file that was not there before, with what the process masks.
const newFile = 0o644

// replaceFile gives the file that a path leads to another content, and makes it where it is not there. At any moment there
// is the old one or the new one, never a part.
func replaceFile(path string, content []byte) error {
	actual, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		return os.WriteFile(path, content, newFile)
	}
	if err != nil {
		return err
	}
	info, err := os.Stat(actual)
	if err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(actual), "."+filepath.Base(actual)+".*.tmp")
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	err = errors.Join(err, file.Chmod(info.Mode().Perm()), file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), actual)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return nil
}
