package main

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/cmd/promptweir/internal/terminal"
	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/inspect"
	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/wire"
)

// runSkill reads a file of a skill and prints it. A configuration's skills have names, those of a
// server only the URIs in its list.
func (g *getter) runSkill(ctx context.Context, name, file string) (err error) {
	params := func(root string) wire.Object {
		root = strings.TrimSuffix(root, "/"+wire.SkillFile)
		return wire.Object{}.With("uri", wire.Quote(root+"/"+(&url.URL{Path: file}).EscapedPath()))
	}
	var result jsontext.Value
	if g.query.url != "" {
		err = g.query.withSession(ctx, client.SessionOptions{}, func(s *client.Session) error {
			uri, _ := params(name).Text("uri")
			got, err := s.Call(ctx, &client.Request{Method: wire.ResourcesRead, Name: uri, Params: params(name)}, nil)
			result = got.JSON
			return err
		})
	} else {
		cfg, principal, failed := g.query.loadConfig()
		if failed != nil {
			return failed
		}
		err = g.query.app.withGateway(ctx, cfg, func(gateway *gateway.Gateway) error {
			if err := g.query.app.settle(ctx, gateway); err != nil {
				return err
			}
			root := name
			for _, entry := range inspect.Entries(gateway.Snapshot(), principal) {
				if entry.Skill != nil && entry.Name == name {
					root = entry.Root
				}
			}
			got, err := gateway.Call(ctx, principal, wire.ResourcesRead, params(root), nil)
			result = got
			return explained(gateway.Snapshot(), err)
		})
	}
	if err != nil {
		return err
	}
	return g.printFile(name, result)
}

// printFile prints the content of a file, and saves it if it is no text.
func (g *getter) printFile(name string, result jsontext.Value) error {
	if g.query.output == formatJSON {
		return terminal.PrintJSON(g.query.app.out, result)
	}
	contents, err := wire.ParseArray(wire.Members(result).Get("contents"))
	if err != nil {
		return fmt.Errorf("%s result: %w", wire.ResourcesRead, err)
	}
	saver := newSaver(g.save, name)
	for _, content := range contents {
		if text, ok := wire.Members(content).Text("text"); ok {
			if _, err := fmt.Fprint(g.query.app.out, text); err != nil {
				return err
			}
			continue
		}
		embedded := wire.Object{}.With("type", wire.Quote("resource")).With("resource", content).JSON()
		switch path, err := saver.save([]byte(embedded)); {
		case err != nil:
			return fmt.Errorf("--save: %w", err)
		case path != "":
			fmt.Fprintln(g.query.app.err, "promptweir: saved", path)
		default:
			fmt.Fprintln(g.query.app.out, contentText([]byte(embedded)))
		}
	}
	return nil
}

// listedSkill returns the entry of a skill with a name and its description, as prompts have them.
func listedSkill(entry jsontext.Value, name string, skill *catalog.Skill) jsontext.Value {
	description, _ := skill.Frontmatter.Text("description")
	named := wire.Object{}.With("name", wire.Quote(name)).With("description", wire.Quote(description))
	return append(named, wire.Members(entry)...).JSON()
}
