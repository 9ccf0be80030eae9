package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/promptweir/promptweir/cmd/promptweir/internal/terminal"
	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/wire"
)

// placeholder is the value of each required argument.
const placeholder = "placeholder"

func probeCommand(a *app) *cobra.Command {
	var token, protocol, output string
	command := &cobra.Command{
		Use: "probe URL", Short: "Connect to an MCP server, list its prompts and get each of them",
		Long: `Connect to an MCP server, list all pages of its prompts and skills, get each prompt with a
placeholder for its required arguments, and read each SKILL.md.

Each step prints a line. The probe goes on after a failed prompt, and exits with 1 at the end.`,
		Example: "  promptweir probe http://127.0.0.1:9090/mcp\n" +
			"  promptweir probe https://mcp.example.com/mcp --token \"$TOKEN\"",
		SuggestFor: []string{"ping", "inspect", "test-server"},
		Args:       wantArgs(1, 1, "a server's URL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			server, err := serverAt("probe", args[0], token)
			if err != nil {
				return err
			}
			server.Protocol, server.Skills = protocol, config.SkillsBeside
			return probe(cmd.Context(), a, server, output == formatJSON)
		},
	}
	flags := command.Flags()
	addSecret(flags, &token, "PROMPTWEIR_TOKEN", "bearer `TOKEN` for the server")
	addChoice(command, flags, &protocol, "protocol", "",
		"speak only this `REVISION` of the protocol",
		append([]string{anyProtocol}, wire.Revisions()...)...)
	addOutput(command, &output, formatText, formatJSON)
	return command
}

// probed is what a probe found, for programs.
type probed struct {
	Server       string          `json:"server"`
	Revision     string          `json:"revision,omitempty"`
	Transport    string          `json:"transport,omitempty"`
	Capabilities json.RawMessage `json:"capabilities,omitempty"`
	// Pages has the number of prompts of each page of the list.
	Pages   []int          `json:"pages"`
	Prompts []probedPrompt `json:"prompts"`
	// Error is what ended the probe before its end.
	Error string `json:"error,omitempty"`
}

// probedPrompt is the outcome of getting one prompt.
type probedPrompt struct {
	Name   string `json:"name,omitempty"`
	Result string `json:"result,omitempty"`
	Error  string `json:"error,omitempty"`
}

// probe connects to a server, lists its prompts, gets each of them, and prints the outcome of each
// step, or all of them as JSON in the end.
func probe(ctx context.Context, a *app, server config.Upstream, asJSON bool) error {
	p := prober{
		timeout: server.Timeout, out: a.out,
		found: probed{Server: server.Name, Pages: []int{}, Prompts: []probedPrompt{}},
	}
	if asJSON {
		p.out = io.Discard
	}
	err := p.probe(ctx, server, clientOptions(a.quietLogger()))
	if !asJSON {
		return err
	}
	if err != nil {
		p.found.Error = err.Error()
	}
	return cmp.Or(terminal.PrintJSON(a.out, p.found), err)
}

// prober sends requests to a server one at a time and prints their outcomes.
type prober struct {
	session *client.Session
	timeout time.Duration
	out     io.Writer
	found   probed
}

func (p *prober) probe(ctx context.Context, server config.Upstream, options client.Options) (err error) {
	if p.session, err = client.Connect(ctx, server, options); err != nil {
		return connectError(ctx, server, err)
	}
	defer p.session.Close()
	p.found.Revision, p.found.Transport = p.session.Revision, string(p.session.Transport())
	p.found.Capabilities = json.RawMessage(p.session.Declared.JSON)
	fmt.Fprintf(p.out, "connected: revision %s over %s\n", p.found.Revision, p.found.Transport)
	fmt.Fprintf(p.out, "capabilities: %s\n", terminal.OneLine(string(p.found.Capabilities)))

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
	// Here, too, so that the line below is true when it is printed.
	p.session.Close()
	fmt.Fprintln(p.out, "closed")
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case failed > 0:
		return fmt.Errorf("%s: %d of %s failed", server.Name, failed,
			terminal.Count(len(definitions), "prompt"))
	}
	return nil
}

// list lists the prompts as a gateway does.
func (p *prober) list(ctx context.Context) ([]jsontext.Value, error) {
	list, err := p.session.List(ctx, maxListed)
	method, what := wire.PromptsList, "prompt"
	if p.session.ServesSkills() {
		method, what = wire.PromptsList+" and "+wire.SkillsList, "item"
	}
	for i, prompts := range list.Pages {
		fmt.Fprintf(p.out, "%s: page %d, %s\n", method, i+1, terminal.Count(prompts, what))
	}
	if err == nil && len(list.Pages) == 0 {
		fmt.Fprintf(p.out, "%s: the server does not declare prompts, or does not know the method\n", wire.PromptsList)
	}
	p.found.Pages = append(p.found.Pages, list.Pages...)
	return list.Definitions, err
}

// get gets a prompt with placeholders for its required arguments, or reads a skill's SKILL.md, and
// prints the outcome.
func (p *prober) get(ctx context.Context, definition jsontext.Value) error {
	if skill, err := catalog.ParseDefinition(definition, true); err == nil && skill.Skill != nil {
		uri, _ := wire.Members(definition).Text("uri")
		return p.call(ctx, wire.ResourcesRead, uri, wire.Object{}.With("uri", wire.Quote(uri)), "contents")
	}
	prompt, err := parseDefinition(definition)
	if err != nil {
		return p.printFailure(wire.PromptsGet, "", fmt.Errorf("definition: %w", err))
	}
	var arguments wire.Object
	for _, a := range prompt.Arguments {
		if a.Required {
			arguments = arguments.With(a.Name, wire.Quote(placeholder))
		}
	}
	return p.call(ctx, wire.PromptsGet, prompt.Name, wire.GetParams(prompt.Name, arguments), "messages")
}

// call sends a request about what has a name, and prints the outcome: how much is in a member of the
// result.
func (p *prober) call(ctx context.Context, method, name string, params wire.Object, member string) error {
	step := method + " " + terminal.Line(name)
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	result, err := p.session.Call(ctx, &client.Request{Method: method, Name: name, Params: params}, nil)
	if err != nil {
		_ = p.printFailure(step, name, err)
		if sdk := client.RefusedServerRequest(err); sdk != "" {
			fmt.Fprintf(p.out,
				"%s: its server requests need a legacy session (%s): the gateway uses one for "+
					"clients that can answer them\n", step, sdk)
		}
		return err
	}
	description, err := describeResult(wire.Members(result.JSON), member)
	if err != nil {
		return p.printFailure(step, name, err)
	}
	p.found.Prompts = append(p.found.Prompts, probedPrompt{Name: name, Result: description})
	fmt.Fprintf(p.out, "%s: %s\n", step, description)
	return nil
}

func (p *prober) printFailure(step, name string, err error) error {
	p.found.Prompts = append(p.found.Prompts, probedPrompt{Name: name, Error: err.Error()})
	fmt.Fprintf(p.out, "%s: failed: %s\n", step, terminal.OneLine(err.Error()))
	return err
}

// describeResult says how many messages, or contents, a result has.
func describeResult(result wire.Object, member string) (string, error) {
	if kind, _ := result.Text("resultType"); kind == wire.ResultInputRequired {
		return "requires input, which a probe does not provide", nil
	}
	list, err := wire.ParseArray(result.Get(member))
	if err != nil {
		return "", errors.New("the result has no " + member)
	}
	return terminal.Count(len(list), strings.TrimSuffix(member, "s")), nil
}
