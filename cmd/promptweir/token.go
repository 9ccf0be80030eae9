package main

import (
	"crypto/rand"
	"crypto/sha256"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/promptweir/promptweir/config"
)

func (a *app) tokenCommand() *cobra.Command {
	var t config.Token
	command := &cobra.Command{
		Use: "token LABEL", Short: "Make a bearer token, and the auth block that accepts it", Args: takes(cobra.ExactArgs(1)),
		Long: "Make a bearer token, and the auth block that accepts it.\n\n" +
			"The token goes to standard error and is kept nowhere; the block, which has only its hash, goes to standard output.",
		RunE: func(_ *cobra.Command, args []string) error {
			t.Subject = args[0]
			return a.token(t)
		},
	}
	flags := command.Flags()
	flags.StringArrayVar(&t.Groups, "group", nil, "`NAME` of a group that the caller is in; may be repeated")
	flags.StringVar(&t.As, "as", "", "`NAME` in front of subject and groups, where there are several sources of identity")
	return command
}

// token prints a token once. It is 128 bits in letters and digits, after a few that tell what was found where it leaked to.
func (a *app) token(t config.Token) error {
	token := "promptweir_" + rand.Text()
	t.SHA256 = sha256.Sum256([]byte(token))
	block, err := config.TokenBlock(t)
	if err != nil {
		return &usageError{"token: " + err.Error()}
	}
	fmt.Fprintf(a.err, "The token, which is shown this once: %s\n", token)
	_, err = fmt.Fprint(a.out, block)
	return err
}
