package main

import (
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/promptweir/promptweir/cmd/promptweir/internal/terminal"
	"github.com/promptweir/promptweir/config"
)

func tokenCommand(a *app) *cobra.Command {
	var t config.Token
	var output string
	var admin bool
	command := &cobra.Command{
		Use: "token LABEL", Short: "Make a bearer token, and the block that accepts it",
		Args: wantArgs(0, 1, "a label, or --admin"),
		Long: `Make a bearer token, and the block that accepts it: an auth block for the client
LABEL or, with --admin, an admin block for operators.

The token goes to standard error and is stored nowhere. The block, with its hash only, goes to
standard output.`,
		Example: "  promptweir token ci --group build\n" +
			"  promptweir token ci --group build -o json\n" +
			"  promptweir token --admin",
		RunE: func(_ *cobra.Command, args []string) error {
			t.Subject = strings.Join(args, "")
			switch {
			case admin && (t.Subject != "" || t.As != "" || t.Groups != nil):
				return &usageError{"--admin excludes LABEL, --group and --as: operators are not principals"}
			case !admin && len(args) == 0:
				return &usageError{"token needs a label, or --admin: promptweir token LABEL"}
			}
			return printToken(a, t, admin, output == formatJSON)
		},
	}
	flags := command.Flags()
	flags.StringArrayVar(&t.Groups, "group", nil,
		"`NAME` of a group of the caller; may be repeated")
	flags.StringVar(&t.As, "as", "",
		"`NAME` of the source of identity, a prefix of subject and groups; for several sources")
	flags.BoolVar(&admin, "admin", false, "make the token of operators, for the admin listener")
	addOutput(command, &output, formatText, formatJSON)
	return command
}

// tokenPrefix lets secret scanners recognise a leaked token.
const tokenPrefix = "promptweir_"

// printToken prints a new token, with at least 128 random bits, and the block that accepts it. As JSON, one
// object contains both.
func printToken(a *app, t config.Token, admin, asJSON bool) error {
	token := tokenPrefix + rand.Text()
	t.SHA256 = sha256.Sum256([]byte(token))
	block, err := fmt.Sprintf("admin {\n  token_sha256 = \"%x\"\n}\n", t.SHA256), error(nil)
	if !admin {
		block, err = config.TokenBlock(t)
	}
	if err != nil {
		return &usageError{"token: " + err.Error()}
	}
	if asJSON {
		return terminal.PrintJSON(a.out, struct {
			Token string `json:"token"`
			Block string `json:"block"`
		}{token, block})
	}
	// Use separate streams, so that the block can be redirected without the token.
	fmt.Fprintf(a.err, "Token, shown only once: %s\n", token)
	return a.printf("%s", block)
}
