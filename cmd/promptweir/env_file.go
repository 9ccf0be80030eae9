package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/joho/godotenv"
	"github.com/spf13/cobra"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/config/safefile"
)

// maxEnvFile bounds the file of --env-file, in bytes.
const maxEnvFile = 1 << 20

// addEnvFile declares the flag --env-file. While the command runs, the file's variables override the variables of the
// process.
func addEnvFile(command *cobra.Command) {
	var path string
	command.Flags().StringVar(&path, "env-file", "", "read variables of the environment from `FILE`, in lines of NAME=VALUE")
	run := command.RunE
	command.RunE = func(cmd *cobra.Command, args []string) error {
		if path != "" {
			if err := setEnvironment(path); err != nil {
				return fmt.Errorf("--env-file: %w", err)
			}
		}
		return run(cmd, args)
	}
}

func setEnvironment(path string) error {
	content, err := readFileAtMost(path, maxEnvFile)
	if err != nil {
		return err
	}
	variables, err := godotenv.UnmarshalBytes(content)
	for name, value := range variables {
		if err == nil {
			err = os.Setenv(name, value)
		}
	}
	if err != nil { // the parser's error may quote secrets
		return fmt.Errorf("%s is not in lines of NAME=VALUE, with the value in quotes if it is not a word", path)
	}
	return nil
}

// writeEnvFile writes variables to a new file that only its owner can read.
func writeEnvFile(path string, variables map[string]config.Secret) error {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		fmt.Fprintf(&text, "%s=%s\n", name, quoteVariable(variables[name].Reveal()))
	}
	err := safefile.WriteNew(path, []byte(text.String()), 0o600, os.OpenFile)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("--env-file writes a new file, and %s exists; name another, or remove it", path)
	}
	return err
}

// quoteVariable quotes a value for shells, systemd and [godotenv]: in single quotes, or in double quotes if it
// has a single quote or a line break.
func quoteVariable(value string) string {
	if !strings.ContainsAny(value, "'\r\n") {
		return "'" + value + "'"
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`, "`", "\\`", "!", `\!`, "\n", `\n`, "\r", `\r`).Replace(value) + `"`
}
