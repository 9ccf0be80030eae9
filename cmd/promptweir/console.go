package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/promptweir/promptweir/gateway/admin"
)

// maxCode bounds the file that contains the code of the console's link, in bytes.
const maxCode = 100

func consoleCommand(a *app) *cobra.Command {
	var f adminFlags
	command := &cobra.Command{
		Use: "console", Short: "Print a link that opens the console of a running gateway",
		Args: wantArgs(0, 0, ""),
		Long: `Print a link that opens the console of a running gateway, and signs in: once, within ten minutes, from
this machine. Run it as the gateway's user. A gateway with admin.token_sha256 asks for that token
instead.`,
		Example: "  promptweir console\n" +
			"  promptweir console --config promptweir",
		SuggestFor: []string{"dashboard", "open", "ui"},
		RunE: func(cmd *cobra.Command, _ []string) error {
			base, err := a.adminURL(f.url)
			if err != nil {
				return err
			}
			_, text, err := callAdmin(cmd.Context(), healthTimeout, http.MethodPost, base, "/-/link", f.token)
			if err != nil {
				return err
			}
			return a.printLink(base, text)
		},
	}
	f.addTo(command.Flags())
	return command
}

// printLink prints the console's link. response names the file into which the gateway has written the link's
// code.
func (a *app) printLink(base string, response []byte) error {
	var link admin.Link
	err := json.Unmarshal(response, &link)
	// A response from another program must not choose the file to read and remove.
	if err != nil || filepath.Base(link.File) != link.File || !strings.HasPrefix(link.File, admin.LinkPrefix) {
		return errNoGateway(base)
	}
	if link.File == admin.LinkPrefix {
		a.warn("sign in there with the admin token")
		return a.printf("%s/\n", base)
	}
	path := filepath.Join(os.TempDir(), link.File)
	code, err := readFileAtMost(path, maxCode)
	if err != nil {
		return fmt.Errorf("the gateway has written the link for its own user, and this command cannot read it: %w; "+
			"run it as that user with the same temporary folder, or set token_sha256 in the admin block", err)
	}
	_ = os.Remove(path) // if this fails, the gateway removes the file later
	return a.printf("%s/sign-in?%s\n", base, url.Values{"code": {string(code)}}.Encode())
}
