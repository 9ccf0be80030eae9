package main

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/promptweir/promptweir/cmd/promptweir/internal/terminal"
	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/clientsetup"
)

// clientFlags are the flags of the command client.
type clientFlags struct {
	url, name string
	auth      bool
}

func clientCommand(a *app) *cobra.Command {
	names := clientsetup.Names()
	var f clientFlags
	command := &cobra.Command{
		Use:   "client " + strings.Join(names, "|"),
		Short: "Print what points a client at the gateway",
		Args:  wantArgs(1, 1, "a client's name"), ValidArgs: names,
		Long: `Print the command or the file that points a client at the gateway.

The endpoint and how it authenticates come from --config, or from --url and --auth. Nothing is
started or contacted.`,
		Example: "  promptweir client claude --url http://127.0.0.1:8080/mcp\n" +
			"  promptweir client vscode --config examples/quickstart >.vscode/mcp.json",
		RunE: func(_ *cobra.Command, args []string) error { return printClient(a, args[0], f) },
	}
	flags := command.Flags()
	flags.StringVar(&f.url, "url", "",
		"the gateway is at `URL`; by default where the configuration says")
	flags.StringVar(&f.name, "name", "prompts", "`NAME` of the server in the client")
	flags.BoolVar(&f.auth, "auth", false,
		"with --url: the gateway wants a token, which the client takes from PROMPTWEIR_TOKEN")
	return command
}

// printClient prints the text to standard output, and where it belongs to standard error.
func printClient(a *app, name string, f clientFlags) error {
	if names := clientsetup.Names(); !slices.Contains(names, name) {
		return &usageError{fmt.Sprintf("client %q: use %s", name, terminal.OrList(names))}
	}
	endpoint, access, err := endpointForClients(a, f)
	if err != nil {
		return err
	}
	all := clientsetup.For(endpoint, f.name, access)
	i := slices.IndexFunc(all, func(c clientsetup.Client) bool { return c.Name == name })
	fmt.Fprintf(a.err, "%s, %s. %s\n", all[i].Title, all[i].Where, all[i].Then)
	_, err = fmt.Fprintln(a.out, all[i].Text)
	return err
}

// endpointForClients returns where clients find the gateway, and what they need to be let in.
func endpointForClients(a *app, f clientFlags) (endpoint string, access clientsetup.Access, err error) {
	if f.url != "" {
		if f.auth {
			access = clientsetup.Token
		}
		_, err := parseURL("--url", f.url, config.DefaultListen+config.DefaultPath)
		return f.url, access, err
	}
	if a.config == "" {
		return "", 0, &usageError{"--url URL or --config PATH is required"}
	}
	cfg, err := a.load(config.Options{AllowUnsetEnv: true})
	if err != nil {
		return "", 0, err
	}
	endpoint, err = publicEndpoint(&cfg.Gateway)
	return endpoint, clientsetup.AccessOf(cfg.Auth), err
}

// publicEndpoint returns where clients find a gateway: at its public_url, else where it listens.
func publicEndpoint(g *config.Gateway) (string, error) {
	switch {
	case strings.HasSuffix(g.PublicURL, g.Path):
		return g.PublicURL, nil
	case g.PublicURL != "":
		return g.PublicURL + g.Path, nil
	}
	scheme := "http"
	if g.TLS != nil {
		scheme = "https"
	}
	u := url.URL{Scheme: scheme, Host: g.Listen, Path: g.Path}
	if host := u.Hostname(); host == "" || host == "0.0.0.0" || host == "::" {
		return "", errors.New("the gateway listens on all addresses: set public_url to the clients', or pass --url")
	}
	return u.String(), nil
}
