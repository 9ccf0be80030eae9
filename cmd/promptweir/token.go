package main

import (
	"crypto/rand"
	"crypto/sha256"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/promptweir/promptweir/cmd/promptweir/internal/terminal"
	"github.com/promptweir/promptweir/config"
)

func tokenCommand(a *app) *cobra.Command {
	var t config.Token
	var output string
	command := &cobra.Command{
		Use: "token LABEL", Short: "Make a bearer token, and the auth block that accepts it",
		Args: wantArgs(1, 1, "a label"),
		Long: `Make a bearer token, and the auth block that accepts it.

The token is printed to standard error and not stored anywhere. The block, which has only its
hash, is printed to standard output.`,
		Example: "  promptweir token ci --group build\n" +
			"  promptweir token ci --group build -o json",
		RunE: func(_ *cobra.Command, args []string) error {
			t.Subject = args[0]
			return printToken(a, t, output == formatJSON)
		},
	}
	flags := command.Flags()
	flags.StringArrayVar(&t.Groups, "group", nil,
		"`NAME` of a group of the caller; may be repeated")
	flags.StringVar(&t.As, "as", "",
		"`NAME` of the source of identity, in front of subject and groups; for several sources")
	addOutput(command, &output, formatText, formatJSON)
	return command
}

// tokenPrefix lets secret scanners recognise a leaked token.
const tokenPrefix = "promptweir_"

// printToken prints a new token, of at least 128 random bits in letters and digits, and its block.
// As JSON, both are in the result.
func printToken(a *app, t config.Token, asJSON bool) error {
	token := tokenPrefix + rand.Text()
	t.SHA256 = sha256.Sum256([]byte(token))
	block, err := config.TokenBlock(t)
	if err != nil {
		return &usageError{"token: " + err.Error()}
	}
	if asJSON {
		return terminal.PrintJSON(a.out, struct {
			Token string `json:"token"`
			Block string `json:"block"`
		}{token, block})
	}
	fmt.Fprintf(a.err, "Token, shown only once: %s\n", token)
	_, err = fmt.Fprint(a.out, block)
	return err
}
