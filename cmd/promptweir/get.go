package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/promptweir/promptweir/cmd/promptweir/internal/terminal"
	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/wire"
)

// getter gets one prompt.
type getter struct {
	query *query
	// save is the folder for images and sounds; empty to write none.
	save string
	// skill is set if the name is a skill's, of which a file is got.
	skill  bool
	source promptSource
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
			q.lists.live = q.url == "" // saved lists have no prompts' messages
			if g.skill {
				if len(args) > 2 {
					return &usageError{"--skill takes NAME [FILE]"}
				}
				return g.runSkill(cmd.Context(), args[0], append(args, wire.SkillFile)[1])
			}
			given, err := readValues(a.in, args[1:])
			if err != nil {
				return err
			}
			if _, err := parseArguments(given); err != nil { // before anything is started
				return err
			}
			return g.run(cmd.Context(), args[0], given)
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

// run gets the prompt and prints it.
func (g *getter) run(ctx context.Context, name string, args []string) error {
	arguments, err := parseArguments(args)
	if err != nil {
		return err
	}
	var result jsontext.Value
	err = g.withSource(ctx, func() (err error) {
		g.warnOfUnknown(ctx, name, args)
		if result, err = g.source.get(ctx, wire.GetParams(name, arguments)); err != nil {
			return g.explainFailure(ctx, name, args, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return g.printMessages(name, result)
}

// withSource sets the source while use runs.
func (g *getter) withSource(ctx context.Context, use func() error) error {
	if g.query.url != "" {
		return g.query.withSession(ctx, client.SessionOptions{}, func(s *client.Session) error {
			g.source = &sessionSource{session: s}
			return use()
		})
	}
	cfg, principal, err := g.query.loadConfig()
	if err != nil {
		return err
	}
	return g.query.app.withGateway(ctx, cfg, func(gateway *gateway.Gateway) error {
		if err := g.query.app.settle(ctx, gateway); err != nil {
			return err
		}
		g.source = gatewaySource{gateway, principal}
		return use()
	})
}

// maxValue bounds a value from a file or standard input, in bytes, as a gateway bounds a request.
const maxValue = 4 << 20

// readValues puts texts in the place of the values @FILE and -.
func readValues(in io.Reader, args []string) ([]string, error) {
	given, isRead := slices.Clone(args), false
	for i, arg := range args {
		name, value, _ := strings.Cut(arg, "=")
		path, isFile := strings.CutPrefix(value, "@")
		if strings.HasSuffix(name, ":") || !isFile && value != standardInput {
			continue
		}
		var text []byte
		var err error
		switch {
		case isFile:
			text, err = readFileAtMost(path, maxValue)
		case isRead:
			return nil, &usageError{"standard input can be the value of one argument only"}
		default:
			isRead = true
			text, err = readAtMost(in, "standard input", maxValue)
		}
		if err == nil && !utf8.Valid(text) {
			err = errors.New("it is not UTF-8 text")
		}
		if failed, ok := errors.AsType[*fs.PathError](err); ok {
			err = failed.Err
		}
		if err != nil {
			return nil, fmt.Errorf("argument %s: %s: %w; for that text itself, write %s:='%s'", name, value, err,
				name, wire.Quote(value))
		}
		given[i] = name + "=" + string(text)
	}
	return given, nil
}

// parseArguments returns the arguments in words such as ARG=VALUE; nil for none.
func parseArguments(args []string) (arguments wire.Object, err error) {
	for _, arg := range args {
		key, value, ok := strings.Cut(arg, "=")
		key, isJSON := strings.CutSuffix(key, ":")
		if !ok || key == "" {
			return nil, &usageError{fmt.Sprintf("argument %q: write ARG=VALUE or ARG:=JSON", arg)}
		}
		encoded := wire.Quote(value)
		if isJSON {
			encoded = jsontext.Value(value)
		}
		if !encoded.IsValid() {
			return nil, &usageError{fmt.Sprintf("argument %q: the value after := is not valid JSON",
				arg)}
		}
		arguments = arguments.With(key, encoded)
	}
	return arguments, nil
}

// printMessages prints a prompt's messages, each after its role, or the result as it was sent.
// Files are saved in either case.
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

// contentText returns a message's content for a person: its text or, if it has none, its kind and
// address in brackets.
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

// warnOfUnknown warns of arguments that the prompt does not have.
func (g *getter) warnOfUnknown(ctx context.Context, name string, args []string) {
	if len(args) == 0 {
		return // the list need not be requested
	}
	d, ok := g.describe(ctx, name)
	if !ok {
		return // the get says why
	}
	var names []string
	for _, a := range d.Arguments {
		names = append(names, a.Name)
	}
	for _, arg := range args {
		if argument := argumentName(arg); !slices.Contains(names, argument) {
			g.query.app.warn("%s has no argument %q%s", name, argument, config.Suggest(argument, names))
		}
	}
}

// describe returns the prompt of a name, if it is in the list.
func (g *getter) describe(ctx context.Context, name string) (d description, ok bool) {
	// A list that fails says nothing about arguments, and the get may work.
	prompts, _ := g.source.list(ctx)
	i := slices.IndexFunc(prompts, func(d description) bool { return d.Name == name })
	if i < 0 {
		return description{}, false
	}
	return prompts[i], true
}

// commandWith returns the command with all arguments that a get of the prompt needs, empty if those
// that were given are enough.
func (g *getter) commandWith(d description, args []string) string {
	words, isMissing := []string{"promptweir get", terminal.OneLine(d.Name)}, false
	given := map[string]bool{}
	for _, arg := range args {
		given[argumentName(arg)] = true
	}
	for _, a := range d.Arguments {
		if a.Required || given[a.Name] {
			words = append(words, terminal.OneLine(a.Name)+"=…")
			isMissing = isMissing || !given[a.Name]
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

// explainFailure adds the full command to the error of a get without its required arguments. Of a
// prompt that does not exist, it prints which server's trouble may be the reason, or adds the name
// that was meant. The trouble of other servers explains nothing.
func (g *getter) explainFailure(ctx context.Context, name string, args []string, failure error) error {
	prompts, troubles := g.source.list(ctx)
	names := make([]string, len(prompts))
	for i := range prompts {
		names[i] = prompts[i].Name
	}
	if i := slices.Index(names, name); i >= 0 {
		if command := g.commandWith(prompts[i], args); command != "" {
			return fmt.Errorf("%w; write %s", failure, command)
		}
		return failure
	}
	own := slices.DeleteFunc(slices.Clone(troubles), func(t trouble) bool {
		return !strings.HasPrefix(name, t.upstream)
	})
	const noSuggestion = "." // of Suggest
	meant := config.Suggest(name, names)
	for _, known := range names {
		if meant == noSuggestion && strings.HasSuffix(known, "."+name) { // people leave out the prefix
			meant = fmt.Sprintf(". Did you mean %q?", known)
		}
	}
	switch {
	case len(own) > 0:
		troubles = own
	case meant != noSuggestion:
		return fmt.Errorf("%w%s", failure, meant)
	}
	for _, t := range troubles { // any may be one whose prompt has another name than its own
		g.query.app.warn("%s", t.text)
	}
	return failure
}
