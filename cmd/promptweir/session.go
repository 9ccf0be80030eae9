package main

import (
	"fmt"
	"log/slog"
	"net/url"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/upstream/client"
)

// anyProtocol lets client and server agree on the newest revision that both speak.
const anyProtocol = "auto"

// serverAt returns the MCP server at an address. What names the flag or argument that has the address, for errors.
func serverAt(what, address, token string) (config.Upstream, error) {
	u, err := url.Parse(address)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return config.Upstream{}, &usageError{fmt.Sprintf("%s %q: use an http or https URL, for example http://%s%s",
			what, address, config.DefaultListen, config.DefaultPath)}
	}
	server := config.Upstream{
		Name: u.Redacted(), Transport: config.StreamableHTTP, URLs: []string{address}, Protocol: anyProtocol,
		Timeout: config.DefaultTimeout, Concurrency: config.DefaultConcurrency, MaxMessage: config.DefaultMaxMessage,
	}
	if token != "" {
		server.Headers = map[string]config.Secret{"Authorization": config.NewSecret("Bearer " + token)}
	}
	return server, nil
}

// connectError explains why the server at --url cannot be used.
func connectError(name string, err error) error {
	cause := client.CauseOf(err)
	switch cause.Kind {
	case client.CredentialMissing, client.CredentialRefused: // there is no block that could have a credential
		cause.Remedy = "pass a token that it accepts with --token, or in PROMPTWEIR_TOKEN"
	case client.UnexplainedFailure:
		return fmt.Errorf("%s: %w", name, err)
	}
	return fmt.Errorf("%s: %s", name, cause)
}

// clientOptions returns the options of an MCP client. A nil logger discards.
func clientOptions(logger *slog.Logger) client.Options {
	return client.Options{Logger: logger, Name: gateway.Name, Version: buildVersion()}
}
