package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"
	"go.mau.fi/util/exslices"

	"github.com/promptweir/promptweir/cmd/promptweir/internal/terminal"
	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/config/safefile"
	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/inspect"
	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/wire"
)

// getter gets one prompt or one file of a skill.
type getter struct {
	query *query
	// save is the folder of --save, or "" without the flag.
	save string
	// skill is true with --skill. The name then belongs to a skill, not to a prompt.
	skill bool
}

func getCommand(a *app) *cobra.Command {
	q := newQuery(a)
	g := &getter{query: q}
	command := &cobra.Command{
		Use: "get NAME [ARG=VALUE|ARG:=JSON]...", Short: "Get one prompt with its arguments",
		Args: wantArgs(1, noBound, "a prompt's name"),
		Long: `Get one prompt with its arguments, from a running gateway or from the upstreams of a
configuration.

ARG=VALUE is a string, ARG=@FILE the text of a file, and ARG=- that of standard input. ARG:=JSON
is any JSON value, sent byte for byte.

What the server asks for during the get is declined.`,
		Example: "  promptweir get handbook.incident_report --url http://127.0.0.1:8080/mcp\n" +
			"  git diff | promptweir get reviews.code_review code=- --config promptweir\n" +
			"  promptweir get billing.invoice lines:='[1, 2]' --config promptweir -o json\n" +
			"  promptweir get design.moodboard --config promptweir --save pictures",
		SuggestFor: []string{"show", "render"},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := q.check(); err != nil {
				return err
			}
			q.lists.live = q.url == "" // saved lists lack the messages of prompts
			if g.skill {
				if len(args) > 2 {
					return &usageError{"--skill takes NAME [FILE]"}
				}
				return g.runSkill(cmd.Context(), args[0], append(args, wire.SkillFile)[1])
			}
			arguments, err := readArguments(a.in, args[1:])
			if err != nil {
				return err
			}
			return g.run(cmd.Context(), args[0], arguments)
		},
	}
	q.addTo(command)
	command.Flags().StringVar(&g.save, "save", "",
		"save images, sounds and other files of the messages in the folder `DIR`; overwrites none")
	command.Flags().BoolVar(&g.skill, "skill", false, "get a skill, by its name or uri: its "+
		"SKILL.md or the file that a second argument names")
	completeFlag(command, "save", aFile)
	addOutput(command, &q.output, formatTable, formatJSON)
	command.ValidArgsFunction = q.completeGet
	addEnvFile(command)
	return command
}

// run gets and prints a prompt.
func (g *getter) run(ctx context.Context, name string, arguments wire.Object) error {
	var result jsontext.Value
	err := g.withSource(ctx, func(source promptSource) (err error) {
		if result, err = source.get(ctx, wire.GetParams(name, arguments)); err != nil {
			return g.explainFailure(ctx, source, name, arguments, err)
		}
		if len(arguments) > 0 {
			prompts, _ := source.list(ctx)
			if unknown := unknownArguments(prompts, name, arguments); unknown != "" {
				g.query.app.warn("%s", unknown)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return g.printMessages(name, result)
}

// withSource calls use with the source of the prompts: the server at --url, or a gateway that runs for the
// configuration.
func (g *getter) withSource(ctx context.Context, use func(promptSource) error) error {
	if g.query.url != "" {
		return g.query.withSession(ctx, client.SessionOptions{}, func(s *client.Session) error {
			return use(sessionSource{s})
		})
	}
	cfg, principal, err := g.query.loadConfig()
	if err != nil {
		return err
	}
	return g.query.app.withGateway(ctx, cfg, func(gateway *gateway.Gateway) error {
		if err := g.query.app.awaitTried(ctx, gateway); err != nil {
			return err
		}
		return use(gatewaySource{gateway, principal})
	})
}

// maxValue bounds a value from a file or standard input, in bytes. It equals the gateway's bound for
// requests.
const maxValue = 4 << 20

// readArguments returns the arguments in words such as ARG=VALUE, or nil if there are no words. The values
// @FILE and - stand for the text of the file and of standard input.
func readArguments(in io.Reader, words []string) (arguments wire.Object, err error) {
	isRead := false
	for _, word := range words {
		name, value, ok := strings.Cut(word, "=")
		name, isJSON := strings.CutSuffix(name, ":")
		path, isFile := strings.CutPrefix(value, "@")
		var text []byte
		switch {
		case !ok || name == "":
			return nil, &usageError{fmt.Sprintf("argument %q: write ARG=VALUE or ARG:=JSON", word)}
		case isJSON && !jsontext.Value(value).IsValid():
			return nil, &usageError{fmt.Sprintf("argument %q: the value after := is not valid JSON", word)}
		case isJSON:
			arguments = arguments.With(name, jsontext.Value(value))
			continue
		case isFile:
			text, err = readFileAtMost(path, maxValue)
		case value == standardInput && isRead:
			return nil, &usageError{"standard input can be the value of one argument only"}
		case value == standardInput:
			isRead = true
			text, err = readAtMost(in, "standard input", maxValue)
		default:
			text = []byte(value)
		}
		if err == nil && !utf8.Valid(text) {
			err = errors.New("it is not UTF-8 text")
		}
		if err != nil {
			return nil, fmt.Errorf("argument %s: %s: %w; for that text itself, write %s:='%s'", name, value,
				safefile.Cause(err), name, wire.Quote(value))
		}
		arguments = arguments.With(name, wire.Quote(string(text)))
	}
	return arguments, nil
}

// printMessages prints each message after its role or, with -o json, the original result. With --save, it also
// saves the files in the messages.
func (g *getter) printMessages(name string, result jsontext.Value) error {
	var got struct {
		Messages []struct {
			Role    string
			Content json.RawMessage
		}
	}
	if err := json.Unmarshal(result, &got); err != nil && g.query.output != formatJSON {
		return fmt.Errorf("prompts/get result: %w", err)
	}
	saver := newSaver(g.save, name)
	for _, message := range got.Messages {
		path, err := saver.save(message.Content)
		if err != nil {
			return fmt.Errorf("--save: %w", err)
		}
		if path != "" {
			fmt.Fprintln(g.query.app.err, "promptweir: saved", path)
		}
		if g.query.output == formatJSON {
			continue
		}
		role, text := terminal.OneLine(message.Role), terminal.Indented(contentText(message.Content))
		if _, err := fmt.Fprintf(g.query.app.out, "%s: %s\n", role, text); err != nil {
			return err
		}
	}
	if g.query.output == formatJSON {
		return terminal.PrintJSON(g.query.app.out, json.RawMessage(result))
	}
	return nil
}

// contentText returns the text of a message or, for other content, its type, MIME type and URI in brackets.
func contentText(raw json.RawMessage) string {
	var content struct {
		Type, Text, MimeType, URI string
		Resource                  struct{ URI, MimeType, Text string }
	}
	if err := json.Unmarshal(raw, &content); err != nil {
		return string(raw)
	}
	switch {
	case content.Type == "text":
		return content.Text
	case content.Type == "resource" && content.Resource.Text != "":
		return content.Resource.URI + "\n" + content.Resource.Text
	case content.Type == "resource":
		content.MimeType, content.URI = content.Resource.MimeType, content.Resource.URI
	}
	return "[" + terminal.OneLine(content.Type+" "+content.MimeType+" "+content.URI) + "]"
}

// unknownArguments returns a sentence about each given argument that the named prompt does not declare.
func unknownArguments(prompts []description, name string, arguments wire.Object) string {
	var unknown []string
	for _, d := range prompts {
		names := exslices.CastFunc(d.Arguments, func(a argument) string { return a.Name })
		for _, a := range arguments {
			if d.Name == name && !slices.Contains(names, a.Name) {
				unknown = append(unknown, fmt.Sprintf("%s has no argument %q%s", name, a.Name, config.Suggest(a.Name, names)))
			}
		}
	}
	return strings.Join(unknown, " ")
}

// commandWith returns the command line with all required arguments, or "" if all of them were given.
func (g *getter) commandWith(d description, arguments wire.Object) string {
	words, isMissing := []string{"promptweir get", terminal.OneLine(d.Name)}, false
	for _, a := range d.Arguments {
		isGiven := arguments.Get(a.Name) != nil
		if a.Required || isGiven {
			words = append(words, terminal.OneLine(a.Name)+"=…")
			isMissing = isMissing || !isGiven
		}
	}
	switch {
	case !isMissing:
		return ""
	case g.query.url != "":
		words = append(words, "--url", terminal.OneLine(g.query.url))
	case g.query.app.config != "":
		words = append(words, "--config", terminal.OneLine(g.query.app.config))
	}
	return strings.Join(words, " ")
}

// explainFailure adds the unknown arguments or, for a get that lacks required arguments, the full command line to an
// error. For an unknown prompt, it adds a similar name, or prints the problems of upstreams that may have the prompt.
func (g *getter) explainFailure(ctx context.Context, source promptSource, name string, arguments wire.Object, failure error) error {
	prompts, troubles := source.list(ctx)
	names := exslices.CastFunc(prompts, func(d description) string { return d.Name })
	if i := slices.Index(names, name); i >= 0 {
		if unknown := unknownArguments(prompts, name, arguments); unknown != "" {
			return fmt.Errorf("%w; %s", failure, unknown)
		}
		if command := g.commandWith(prompts[i], arguments); command != "" {
			return fmt.Errorf("%w; write %s", failure, command)
		}
		return failure
	}
	related := slices.DeleteFunc(slices.Clone(troubles), func(t trouble) bool { return !strings.HasPrefix(name, t.upstream) })
	suggestion := strings.TrimSuffix(inspect.Suggest(name, config.DefaultSeparator, names), ".")
	switch {
	case len(related) > 0:
		troubles, suggestion = related, ""
	case suggestion != "":
		troubles = nil
	}
	for _, t := range troubles { // any of these upstreams may have the prompt
		g.query.app.warn("%s", t.text)
	}
	return fmt.Errorf("%w%s", failure, suggestion)
}
