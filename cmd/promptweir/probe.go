package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// placeholder is what a probe gives as each required argument.
	placeholder = "placeholder"
	// maxProbedPages bounds the list that a probe reads: a server may never end it.
	maxProbedPages = 1000
	// anyProtocol agrees with the server on the newest revision that both speak.
	anyProtocol = "auto"
)

func (a *app) probeCommand() *cobra.Command {
	var token, protocol string
	var client oauthClient
	command := &cobra.Command{
		Use: "probe URL", Short: "See what an MCP server does: connect, list all its prompts, get each of them",
		Args: takes(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			server, err := probed(args[0], token, protocol)
			if err != nil {
				return err
			}
			if server.OAuth, err = client.oauth(token); err != nil {
				return err
			}
			return a.probe(cmd.Context(), server)
		},
	}
	flags := command.Flags()
	flags.StringVar(&token, "token", os.Getenv("PROMPTWEIR_TOKEN"), "bearer `TOKEN` for the server (PROMPTWEIR_TOKEN)")
	flags.Lookup("token").DefValue = ""
	flags.StringVar(&client.id, "client-id", "", "get a token as this OAuth `CLIENT`, from the authorization server that the server names")
	flags.StringVar(&client.secret, "client-secret", os.Getenv("PROMPTWEIR_CLIENT_SECRET"), "`SECRET` of the client (PROMPTWEIR_CLIENT_SECRET)")
	flags.Lookup("client-secret").DefValue = ""
	flags.StringVar(&client.keyFile, "private-key", "", "PEM `FILE` of a key that signs for the client instead of a secret")
	flags.StringVar(&protocol, "protocol", anyProtocol, "speak only this `REVISION` of the protocol")
	return command
}

// oauthClient is who asks for a token, as it was given.
type oauthClient struct{ id, secret, keyFile string }

// oauth is the client's half of an oauth block; nil where there is no client.
func (c oauthClient) oauth(token string) (*config.OAuth, error) {
	switch {
	case c.id == "" && c.keyFile == "":
		return nil, nil //nolint:nilnil // an upstream has none either
	case c.id == "":
		return nil, &usageError{"--private-key signs for a client: say which with --client-id"}
	case token != "":
		return nil, &usageError{"--token and --client-id are two credentials: use one"}
	case (c.secret == "") == (c.keyFile == ""):
		return nil, &usageError{"--client-id needs either --client-secret (PROMPTWEIR_CLIENT_SECRET) or --private-key"}
	}
	o := &config.OAuth{ClientID: c.id, ClientSecret: config.NewSecret(c.secret)}
	if c.keyFile == "" {
		return o, nil
	}
	key, err := os.ReadFile(c.keyFile)
	if err != nil {
		return nil, fmt.Errorf("--private-key: %w", err)
	}
	o.ClientSecret, o.PrivateKey = config.Secret{}, config.NewSecret(string(key))
	if _, err := o.Signer(); err != nil {
		return nil, fmt.Errorf("--private-key: %s %w", c.keyFile, err)
	}
	return o, nil
}

// authorize completes an oauth block with what the server says of who authorizes its clients.
func (a *app) authorize(ctx context.Context, server config.Upstream, options client.Options) error {
	found, err := client.DiscoverAuthorization(ctx, server, options)
	if err != nil {
		return fmt.Errorf("%s: %w", server.Name, err)
	}
	o := server.OAuth
	o.TokenURL, o.Issuer, o.Scopes, o.Resource = found.TokenURL, found.Issuer, found.Scopes, found.Resource
	_, err = fmt.Fprintf(a.out, "authorization server: %s\n", oneLine(found.Issuer, maxReport))
	return err
}

// probed is the server at an address as an upstream.
func probed(address, token, protocol string) (config.Upstream, error) {
	u, err := url.Parse(address)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return config.Upstream{}, &usageError{fmt.Sprintf("probe %q: use an http or https URL, for example http://%s%s",
			address, config.DefaultListen, config.DefaultPath)}
	}
	if protocol != anyProtocol && !slices.Contains(wire.Revisions(), protocol) {
		return config.Upstream{}, &usageError{fmt.Sprintf("--protocol %q: use %s or one of %s",
			protocol, anyProtocol, strings.Join(wire.Revisions(), ", "))}
	}
	server := config.Upstream{
		Name: u.Redacted(), Transport: config.StreamableHTTP, URLs: []string{address}, Protocol: protocol,
		Timeout: config.DefaultTimeout, Concurrency: config.DefaultConcurrency, MaxMessage: config.DefaultMaxMessage,
	}
	if token != "" {
		server.Headers = map[string]config.Secret{"Authorization": config.NewSecret("Bearer " + token)}
	}
	return server, nil
}

// probe goes through a session with a server and prints a line for each step. What failed is said as it happens; that
// something did is an error.
func (a *app) probe(ctx context.Context, server config.Upstream) error {
	logger, err := a.quietLogger()
	if err != nil {
		return err
	}
	options := client.Options{Logger: logger, Name: gateway.Name, Version: buildVersion()}
	if server.OAuth != nil {
		if err := a.authorize(ctx, server, options); err != nil {
			return err
		}
	}
	session, err := client.Connect(ctx, server, options)
	if err != nil {
		return fmt.Errorf("%s: %w", server.Name, err)
	}
	defer session.Close()
	fmt.Fprintf(a.out, "connected: revision %s over %s\n", session.Revision, session.Transport())
	fmt.Fprintf(a.out, "capabilities: %s\n", oneLine(string(session.Capabilities()), maxReport))

	p := prober{session: session, timeout: server.Timeout, out: a.out}
	definitions, err := p.list(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", server.Name, err)
	}
	failed := 0
	for _, definition := range definitions {
		if err := p.get(ctx, definition); err != nil {
			failed++
		}
	}
	session.Close()
	fmt.Fprintln(a.out, "closed")
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case failed > 0:
		return fmt.Errorf("%s: %d of %d prompts failed", server.Name, failed, len(definitions))
	}
	return nil
}

// A prober asks a server one thing after the other and prints what came of it.
type prober struct {
	session *client.Session
	timeout time.Duration
	out     io.Writer
}

func (p *prober) call(ctx context.Context, method, name string, params wire.Object) (wire.Object, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	result, err := p.session.Call(ctx, &client.Request{Method: method, Name: name, Params: params}, nil)
	if err != nil {
		return nil, err
	}
	return wire.ParseObject(result.JSON)
}

// list reads all pages. It asks also where the server has not declared prompts: to see what it does is the point.
func (p *prober) list(ctx context.Context) (definitions []jsontext.Value, err error) {
	var params wire.Object
	cursors := map[string]bool{}
	for number := range maxProbedPages {
		result, err := p.call(ctx, wire.PromptsList, "", params)
		if err != nil {
			return nil, fmt.Errorf("%s: page %d: %w", wire.PromptsList, number+1, err)
		}
		page, said, err := promptsOf(result)
		if err != nil {
			return nil, fmt.Errorf("%s: page %d: %w", wire.PromptsList, number+1, err)
		}
		fmt.Fprintf(p.out, "%s: page %d, %s\n", wire.PromptsList, number+1, said)
		definitions = append(definitions, page...)
		next, more := result.Text("nextCursor")
		switch {
		case !more, next == "" && !wire.Modern(p.session.Revision): // before 2026-07-28 an empty cursor is none
			return definitions, nil
		case cursors[next]:
			return nil, fmt.Errorf("%s: page %d repeats a cursor: the list would never end", wire.PromptsList, number+1)
		}
		cursors[next] = true
		params = wire.Object{}.With("cursor", wire.Quote(next))
	}
	return nil, fmt.Errorf("%s: more than %d pages", wire.PromptsList, maxProbedPages)
}

// promptsOf returns the definitions of a page, and says what was found. A server that has not declared prompts owes them
// to nobody, so that there are none is no error.
func promptsOf(page wire.Object) (definitions []jsontext.Value, said string, err error) {
	prompts := page.Get("prompts")
	if prompts == nil {
		return nil, "an answer without prompts", nil
	}
	definitions, err = wire.ParseArray(prompts)
	if err != nil {
		return nil, "", errors.New("prompts is not an array")
	}
	return definitions, count(len(definitions), "prompt"), nil
}

// get gets one prompt with its required arguments filled in, and prints what came back or what is wrong.
func (p *prober) get(ctx context.Context, definition jsontext.Value) error {
	var prompt struct {
		Name      string
		Arguments []struct {
			Name     string
			Required bool
		}
	}
	if err := json.Unmarshal(definition, &prompt); err != nil {
		return p.sayFailed(wire.PromptsGet, fmt.Errorf("definition: %w", err))
	}
	params := wire.Object{}.With("name", wire.Quote(prompt.Name))
	var arguments wire.Object
	for _, argument := range prompt.Arguments {
		if argument.Required {
			arguments = arguments.With(argument.Name, wire.Quote(placeholder))
		}
	}
	if arguments != nil {
		params = params.With("arguments", arguments.JSON())
	}
	step := wire.PromptsGet + " " + oneLine(prompt.Name, len(prompt.Name))
	result, err := p.call(ctx, wire.PromptsGet, prompt.Name, params)
	if err != nil {
		return p.sayFailed(step, err)
	}
	found, err := describeResult(result)
	if err != nil {
		return p.sayFailed(step, err)
	}
	fmt.Fprintf(p.out, "%s: %s\n", step, found)
	return nil
}

func (p *prober) sayFailed(step string, err error) error {
	fmt.Fprintf(p.out, "%s: failed: %s\n", step, oneLine(err.Error(), maxReport))
	return err
}

// describeResult says in a few words what a prompts/get brought.
func describeResult(result wire.Object) (string, error) {
	if kind, _ := result.Text("resultType"); kind == wire.ResultInputRequired {
		return "asks for input, which a probe does not give", nil
	}
	messages, err := wire.ParseArray(result.Get("messages"))
	if err != nil {
		return "", errors.New("the result has no messages")
	}
	return count(len(messages), "message"), nil
}

// count says how many of a thing there are.
func count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}
