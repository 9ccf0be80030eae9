package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/clients"
	"github.com/promptweir/promptweir/gateway/clientsetup"
)

type clientFlags struct {
	url, name          string
	auth, install, yes bool
}

func clientCommand(a *app) *cobra.Command {
	names := clientsetup.Names()
	var f clientFlags
	command := &cobra.Command{
		Use:   "client NAME",
		Short: "Connect a client to the gateway: print or install its settings",
		Args:  wantArgs(1, 1, "a client's name"), ValidArgs: names,
		Long: "Print the command or file that connects a client to the gateway.\n\n" +
			"NAME is " + config.OrList(names) + `.

The endpoint and its authentication come from --config, or from --url and --auth. The command
starts and contacts nothing.

With --install, show the change of the client's file, ask, and write it. The rest of the file
stays, a copy of the previous file is kept beside it, and links are not followed.`,
		Example: "  promptweir client claude --url http://127.0.0.1:8080/mcp\n" +
			"  promptweir client vscode --config examples/quickstart >.vscode/mcp.json\n" +
			"  promptweir client cursor --url http://127.0.0.1:8080/mcp --install",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := chooseClient(a, args[0], f)
			switch {
			case err != nil:
				return err
			case c.Cannot != "":
				return fmt.Errorf("%s %s", c.Title, c.Cannot)
			case f.install:
				return installClient(cmd.Context(), a, c, f.yes)
			case f.yes:
				return &usageError{"--yes requires --install"}
			}
			return printClient(a, c)
		},
	}
	flags := command.Flags()
	flags.StringVar(&f.url, "url", "",
		"`URL` of the gateway (default: PROMPTWEIR_URL, else from the configuration)")
	flags.StringVar(&f.name, "name", "prompts", "`NAME` of the server in the client")
	flags.BoolVar(&f.auth, "auth", false,
		"with --url: the client sends the token in PROMPTWEIR_TOKEN")
	flags.BoolVar(&f.install, "install", false, "show the change, ask, and write the client's file")
	flags.BoolVar(&f.yes, "yes", false, "with --install, write without asking")
	return command
}

// chooseClient returns the client whose first or second name is name, with its settings for the gateway that
// the flags choose.
func chooseClient(a *app, name string, f clientFlags) (clientsetup.Client, error) {
	if c := clients.Find(name); c != nil {
		name = c.Name
	}
	if names := clientsetup.Names(); !slices.Contains(names, name) {
		return clientsetup.Client{}, &usageError{fmt.Sprintf("client %q: use %s%s", name, config.OrList(names),
			config.Suggest(name, names))}
	}
	all, err := clientsFor(a, f)
	if err != nil {
		return clientsetup.Client{}, err
	}
	return all[slices.IndexFunc(all, func(c clientsetup.Client) bool { return c.Name == name })], nil
}

// printClient prints the settings to standard output, and the instructions to standard error.
func printClient(a *app, c clientsetup.Client) error {
	fmt.Fprintf(a.err, "%s, %s. %s\n", c.Title, c.Where, c.Then)
	if c.Link != "" {
		fmt.Fprintf(a.err, "Or open %s\n", c.Link)
	}
	return a.printf("%s\n", c.Text)
}

// clientsFor returns all clients with their settings for the gateway at --url or of the configuration. Only a
// configuration tells the kind of credential and the variants.
func clientsFor(a *app, f clientFlags) ([]clientsetup.Client, error) {
	if a.config == "" {
		f.url = cmp.Or(f.url, os.Getenv("PROMPTWEIR_URL"))
	}
	if f.url != "" {
		access := clientsetup.Open
		if f.auth {
			access = clientsetup.Token
		}
		u, err := parseURL("--url", f.url, config.DefaultListen+config.DefaultPath)
		if err == nil && strings.Trim(u.Path, "/") == "" {
			a.warn("--url has no path, and a gateway's endpoint usually is at %s", u.JoinPath(config.DefaultPath).Redacted())
		}
		return clientsetup.For(f.url, f.name, access, clientsetup.Registration{}), err
	}
	if a.config == "" && configHere() == "" {
		return nil, &usageError{"--url URL or --config PATH is required"}
	}
	cfg, err := a.load(config.Options{AllowUnsetEnv: true})
	if err != nil {
		return nil, err
	}
	u := cfg.Gateway.Endpoint("")
	if u.Hostname() == "" {
		return nil, errors.New("the gateway listens on all addresses: set public_url to " +
			"the one clients use, or pass --url")
	}
	return clientsetup.For(u.String(), f.name, clientsetup.AccessOf(cfg.Auth), clientsetup.RegistrationOf(cfg.Auth), cfg.Gateway.Variants...), nil
}
