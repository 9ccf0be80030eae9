package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/inspect"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/wire"
)

// settleBound is how long a command waits for the upstreams of a configuration to be heard of.
const settleBound = 30 * time.Second

// question is what list and get have in common: whom to ask, as whom, and how to print.
type question struct {
	origin
	somebody

	url, token, output string
}

func (q *question) flags(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&q.url, "url", "", "ask the running gateway, or any MCP server, at `URL`")
	flags.StringVar(&q.token, "token", os.Getenv("PROMPTWEIR_TOKEN"), "bearer `TOKEN` for --url (PROMPTWEIR_TOKEN)")
	flags.Lookup("token").DefValue = ""
	q.somebody.flags(command, "with --config, see what `PRINCIPAL` sees, for example user:alice,group:payments")
	flags.StringVarP(&q.output, "output", "o", "table", "`FORMAT` of the result: table or json")
}

func (q *question) check() error {
	switch {
	case q.output != "table" && q.output != "json":
		return &usageError{fmt.Sprintf("-o %q: use table or json", q.output)}
	case q.url == "" && q.config == "":
		return &usageError{"say what to ask: --config PATH or --url URL"}
	case q.url != "" && q.configGiven():
		return &usageError{"--config and --url exclude each other: ask the configuration's upstreams or a running gateway"}
	case q.url != "" && q.as != "":
		return &usageError{"--as goes with --config: a running gateway decides by --token who asks"}
	case q.claims != "" && q.as == "":
		return errClaims
	case q.url != "" && q.known():
		return &usageError{"--state and --live go with --config: a running gateway has lists of its own"}
	}
	return q.origin.check()
}

func (a *app) listCommand() *cobra.Command {
	q := &question{origin: origin{app: a}}
	command := &cobra.Command{
		Use: "list", Short: "List the prompts of a configuration or of a running gateway", Args: takes(cobra.NoArgs),
		Long: "List the prompts of a configuration or of a running gateway.\n\n" +
			"With --config alone, connects to the upstreams, prints what they list, and leaves. With --as, what that principal sees: by --state, or with --live by asking the upstreams.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := q.check(); err != nil {
				return err
			}
			if q.url == "" && !q.known() {
				if q.as != "" { // the question of a reviewer, on whose machine nothing is to be started unasked
					return &usageError{"say where the lists of the configuration's upstreams come from: " + remedy}
				}
				q.live = true
			}
			definitions, err := q.list(cmd.Context())
			if err != nil {
				return err
			}
			return q.printList(definitions)
		},
	}
	q.flags(command)
	q.origin.flags(command)
	return command
}

func (a *app) getCommand() *cobra.Command {
	q := &question{origin: origin{app: a}}
	command := &cobra.Command{
		Use: "get NAME [ARG=VALUE|ARG:=JSON]...", Short: "Get one prompt with its arguments", Args: takes(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			q.live = q.url == "" // there is nobody else to answer
			if err := q.check(); err != nil {
				return err
			}
			params, err := getParams(args[0], args[1:])
			if err != nil {
				return err
			}
			result, err := q.get(cmd.Context(), args[0], params)
			if err != nil {
				return err
			}
			return q.printResult(result)
		},
	}
	q.flags(command)
	return command
}

// getParams are the params of prompts/get. Without arguments the member is left out. ARG=VALUE is a string, ARG:=JSON
// whatever the JSON is.
func getParams(name string, args []string) (wire.Object, error) {
	params := wire.Object{}.With("name", wire.Quote(name))
	var arguments wire.Object
	for _, arg := range args {
		key, value, ok := strings.Cut(arg, "=")
		key, typed := strings.CutSuffix(key, ":")
		if !ok || key == "" {
			return nil, &usageError{fmt.Sprintf("argument %q: write ARG=VALUE, or ARG:=JSON", arg)}
		}
		given := wire.Quote(value)
		if typed {
			given = jsontext.Value(value)
		}
		if !given.IsValid() {
			return nil, &usageError{fmt.Sprintf("argument %q: what follows := is not JSON", arg)}
		}
		arguments = arguments.With(key, given)
	}
	if arguments != nil {
		params = params.With("arguments", arguments.JSON())
	}
	return params, nil
}

// list returns the definitions under their exposed names.
func (q *question) list(ctx context.Context) (definitions []jsontext.Value, err error) {
	if q.url != "" {
		err = q.askURL(ctx, func(s *client.Session) error {
			list, err := s.List(ctx, maxListed)
			definitions = list.Definitions
			return err
		})
		return definitions, err
	}
	cfg, who, err := q.loadConfig()
	if err != nil {
		return nil, err
	}
	err = q.evaluate(ctx, cfg, func(s *snapshot.Snapshot) error {
		for _, entry := range inspect.Entries(s, who) {
			definitions = append(definitions, entry.JSON)
		}
		for _, report := range s.Reports() {
			fmt.Fprintln(q.err, "promptweir:", oneLine(report.Text, maxReport))
		}
		return nil
	})
	return definitions, err
}

// maxListed bounds the prompts that list takes from a server.
const maxListed = 1_000_000

func (q *question) get(ctx context.Context, name string, params wire.Object) (result jsontext.Value, err error) {
	if q.url != "" {
		err = q.askURL(ctx, func(s *client.Session) error {
			got, err := s.Call(ctx, &client.Request{Method: wire.PromptsGet, Name: name, Params: params}, nil)
			result = got.JSON
			return err
		})
		return result, err
	}
	cfg, who, err := q.loadConfig()
	if err != nil {
		return nil, err
	}
	err = q.running(ctx, cfg, func(g *gateway.Gateway) error {
		result, err = g.Get(ctx, who, params)
		return err
	})
	return result, err
}

// askURL opens a session with a running gateway, or any other MCP server.
func (q *question) askURL(ctx context.Context, use func(*client.Session) error) error {
	u, err := url.Parse(q.url)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return &usageError{fmt.Sprintf("--url %q: use an http or https URL, for example http://%s%s",
			q.url, config.DefaultListen, config.DefaultPath)}
	}
	server := config.Upstream{
		Name: u.Host, Transport: config.StreamableHTTP, URLs: []string{q.url}, Protocol: "auto",
		Timeout: config.DefaultTimeout, Concurrency: config.DefaultConcurrency, MaxMessage: config.DefaultMaxMessage,
	}
	if q.token != "" {
		server.Headers = map[string]config.Secret{"Authorization": config.NewSecret("Bearer " + q.token)}
	}
	session, err := client.Connect(ctx, server, client.Options{Name: gateway.Name, Version: buildVersion()})
	if err != nil {
		return fmt.Errorf("%s: %w", q.url, err)
	}
	defer session.Close()
	return use(session)
}

// loadConfig returns the configuration, and the principal of --as or, without it, nil: one who sees everything.
func (q *question) loadConfig() (*config.Config, *policy.Principal, error) {
	cfg, err := q.load(!q.live)
	if err != nil || q.as == "" {
		return cfg, nil, err
	}
	principal, err := q.principal(cfg)
	if err != nil {
		return nil, nil, err
	}
	if principal.ClaimsUnknown && cfg.ReadsClaims() {
		fmt.Fprintln(q.err, "promptweir: claims are unknown here, so nothing is shown where a when reads principal.claims; give them with --claims")
	}
	return cfg, &principal, nil
}

// settle waits for the upstreams and says which did not answer. That none did is an error.
func (a *app) settle(ctx context.Context, g *gateway.Gateway) error {
	bound, cancel := context.WithTimeout(ctx, settleBound)
	defer cancel()
	g.Settle(bound)
	if err := ctx.Err(); err != nil {
		return err
	}
	problems := inspect.Problems(g.Snapshot())
	for _, name := range slices.Sorted(maps.Keys(problems)) {
		fmt.Fprintf(a.err, "promptweir: upstream %s has no fresh list: %s\n", name, problems[name])
	}
	if !g.Ready().Ready {
		return errors.New("no upstream has answered")
	}
	return nil
}

// quietLogger leaves progress out unless --log-level asks for it: the result is what counts.
func (a *app) quietLogger() (*slog.Logger, error) {
	if !a.flags.Changed("log-level") {
		a.logLevel = "error"
	}
	return a.logger()
}

const (
	maxDescription = 70
	maxReport      = 500
)

func (q *question) printList(definitions []jsontext.Value) error {
	if q.output == "json" {
		return printJSON(q.out, map[string]any{"prompts": asRaw(definitions)})
	}
	table := tabwriter.NewWriter(q.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tARGUMENTS\tDESCRIPTION")
	for _, definition := range definitions {
		var p struct {
			Name, Title, Description string
			Arguments                []struct {
				Name     string
				Required bool
			}
		}
		if err := json.Unmarshal(definition, &p); err != nil {
			// Any server may be asked, so a definition may be anything: what could be read of it is shown.
			p.Description = "(not a valid definition: " + err.Error() + ")"
		}
		var arguments []string
		for _, argument := range p.Arguments {
			name := argument.Name
			if argument.Required {
				name += "*"
			}
			arguments = append(arguments, oneLine(name, maxDescription))
		}
		text := p.Description
		if text == "" {
			text = p.Title
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", oneLine(p.Name, len(p.Name)), strings.Join(arguments, " "), oneLine(text, maxDescription))
	}
	return table.Flush()
}

func asRaw(values []jsontext.Value) []json.RawMessage {
	raw := make([]json.RawMessage, 0, len(values))
	for _, value := range values {
		raw = append(raw, json.RawMessage(value))
	}
	return raw
}

// printJSON prints values indented; raw JSON in them keeps its numbers and strings.
func printJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}

// printResult prints the messages of a prompt.
func (q *question) printResult(result jsontext.Value) error {
	if q.output == "json" {
		return printJSON(q.out, json.RawMessage(result))
	}
	var got struct {
		Messages []struct {
			Role    string
			Content json.RawMessage
		}
	}
	if err := json.Unmarshal(result, &got); err != nil {
		return fmt.Errorf("prompts/get result: %w", err)
	}
	for _, message := range got.Messages {
		if _, err := fmt.Fprintf(q.out, "%s: %s\n", oneLine(message.Role, maxDescription), contentText(message.Content)); err != nil {
			return err
		}
	}
	return nil
}

// contentText is a message's content for a person: its text, or what else there is.
func contentText(raw json.RawMessage) string {
	var content struct {
		Type, Text, MimeType, URI string
		Resource                  struct{ URI, MimeType, Text string }
	}
	if err := json.Unmarshal(raw, &content); err != nil {
		return manyLines(string(raw))
	}
	switch {
	case content.Type == "text":
		return manyLines(content.Text)
	case content.Type == "resource" && content.Resource.Text != "":
		return manyLines(content.Resource.URI + "\n" + content.Resource.Text)
	case content.Type == "resource":
		return oneLine(fmt.Sprintf("[%s %s %s]", content.Type, content.Resource.MimeType, content.Resource.URI), maxReport)
	}
	return oneLine(fmt.Sprintf("[%s]", strings.Join(slices.DeleteFunc(
		[]string{content.Type, content.MimeType, content.URI}, func(s string) bool { return s == "" }), " ")), maxReport)
}
