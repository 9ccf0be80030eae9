package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/promptweir/promptweir/cmd/promptweir/internal/terminal"
	"github.com/promptweir/promptweir/config"
)

// checkArguments asks for the required arguments that are missing, if there is somebody to ask, and returns all. It warns of those
// that the prompt does not have.
func (g *getter) checkArguments(ctx context.Context, name string, args []string) ([]string, error) {
	if g.prompter == nil && g.url != "" {
		return args, nil // not at the cost of another request, which may be limited
	}
	d, known := g.source.describe(ctx, name)
	if !known {
		return args, nil // the get says why
	}
	var names []string
	for _, a := range d.Arguments {
		names = append(names, a.Name)
	}
	given := map[string]bool{}
	for _, arg := range args {
		argument := argumentName(arg)
		given[argument] = true
		if !slices.Contains(names, argument) {
			fmt.Fprintf(g.err, "promptweir: %s has no argument %q%s\n", terminal.OneLine(name, terminal.MaxReport), argument, config.Suggest(argument, names))
		}
	}
	if g.prompter == nil {
		return args, nil
	}
	for _, a := range d.Arguments {
		if !a.Required || given[a.Name] {
			continue
		}
		value, err := g.askFor(ctx, name, a, args)
		if err != nil {
			return nil, err
		}
		args = append(slices.Clip(args), a.Name+"="+value)
	}
	return args, nil
}

// askFor asks for the value of an argument. Tab completes it by the server.
func (g *getter) askFor(ctx context.Context, name string, a argument, args []string) (string, error) {
	question := a.Name
	if text := strings.TrimSuffix(terminal.OneLine(a.Description, terminal.MaxReport), "."); text != "" {
		question += " (" + text + ")"
	}
	complete := func(start string) []string {
		bound, cancel := context.WithTimeout(ctx, completionBound)
		defer cancel()
		return g.source.complete(bound, completionParams(name, a.Name, start, args))
	}
	value, err := g.prompter.Ask(ctx, question+":", complete)
	if errors.Is(err, terminal.ErrNoAnswer) {
		return "", fmt.Errorf("argument %q is required", a.Name)
	}
	return value, err
}
