package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/wire"
)

func (a *app) getCommand() *cobra.Command {
	q := &query{listSource: listSource{app: a}}
	command := &cobra.Command{
		Use: "get NAME [ARG=VALUE|ARG:=JSON]...", Short: "Get one prompt with its arguments", Args: takes(cobra.MinimumNArgs(1)),
		Long: "Get one prompt with its arguments, from a running gateway or from the upstreams of a configuration.\n\n" +
			"ARG=VALUE is a string. ARG:=JSON is any JSON value, and is sent as it is written.",
		Example: "  promptweir get handbook.incident_report --url http://127.0.0.1:8080/mcp\n" +
			"  promptweir get reviews.code_review code='x := 1' --config promptweir\n" +
			"  promptweir get billing.invoice lines:='[1, 2]' --config promptweir -o json",
		SuggestFor: []string{"show", "render"},
		RunE: func(cmd *cobra.Command, args []string) error {
			q.live = q.url == "" // saved lists have no prompts' messages
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
			return q.printMessages(result)
		},
	}
	q.addTo(command)
	addOutput(command, &q.output, formatTable, formatJSON)
	command.ValidArgsFunction = q.completeGet
	return command
}

// getParams returns the params of prompts/get. Without arguments, the member is left out.
func getParams(name string, args []string) (wire.Object, error) {
	params := wire.Object{}.With("name", wire.Quote(name))
	var arguments wire.Object
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
			return nil, &usageError{fmt.Sprintf("argument %q: the value after := is not valid JSON", arg)}
		}
		arguments = arguments.With(key, encoded)
	}
	if arguments != nil {
		params = params.With("arguments", arguments.JSON())
	}
	return params, nil
}

func (q *query) get(ctx context.Context, name string, params wire.Object) (result jsontext.Value, err error) {
	if q.url != "" {
		err = q.withSession(ctx, func(s *client.Session) error {
			got, err := s.Call(ctx, &client.Request{Method: wire.PromptsGet, Name: name, Params: params}, nil)
			result = got.JSON
			return err
		})
		return result, err
	}
	cfg, principal, err := q.loadConfig()
	if err != nil {
		return nil, err
	}
	err = q.withUpstreams(ctx, cfg, func(g *gateway.Gateway) error {
		result, err = g.Get(ctx, principal, params)
		return err
	})
	return result, err
}

// maxRole bounds the role of a message in the output, in bytes.
const maxRole = 70

// printMessages prints a prompt's messages, each after its role.
func (q *query) printMessages(result jsontext.Value) error {
	if q.output == formatJSON {
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
		if _, err := fmt.Fprintf(q.out, "%s: %s\n", oneLine(message.Role, maxRole), contentText(message.Content)); err != nil {
			return err
		}
	}
	return nil
}

// contentText returns a message's content for a person: its text or, if it has none, its kind and address in brackets.
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
		return oneLine(fmt.Sprintf("[%s %s %s]", content.Type, content.Resource.MimeType, content.Resource.URI), maxReport)
	}
	known := slices.DeleteFunc([]string{content.Type, content.MimeType, content.URI}, func(s string) bool { return s == "" })
	return oneLine("["+strings.Join(known, " ")+"]", maxReport)
}
