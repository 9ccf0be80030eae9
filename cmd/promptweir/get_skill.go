package main

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/cmd/promptweir/internal/terminal"
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/inspect"
	"github.com/promptweir/promptweir/gateway/skills"
	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/wire"
)

// runSkill reads a file of a skill and prints it.
func (g *getter) runSkill(ctx context.Context, name, file string) error {
	var result jsontext.Value
	err := g.withSource(ctx, func(source promptSource) (err error) {
		result, err = source.readSkill(ctx, name, file)
		return err
	})
	if err != nil {
		return err
	}
	return g.printFile(name, result)
}

// skillFile returns the URI of a file in a skill. root is the URI of the skill's folder or of its SKILL.md.
func skillFile(root, file string) string {
	return strings.TrimSuffix(root, "/"+wire.SkillFile) + "/" + (&url.URL{Path: file}).EscapedPath()
}

// readSkill implements promptSource. name is the skill's exposed name, or the URI of its folder or of its
// SKILL.md.
func (s gatewaySource) readSkill(ctx context.Context, name, file string) (jsontext.Value, error) {
	root := name
	for _, entry := range inspect.Entries(s.gateway.Snapshot(), s.principal) {
		if entry.Skill != nil && entry.Name == name {
			root = entry.Root
		}
	}
	params := wire.Object{}.With("uri", wire.Quote(skillFile(root, file)))
	got, err := s.gateway.Call(ctx, s.principal, wire.ResourcesRead, params)
	return got, explained(s.gateway.Snapshot(), err)
}

// readSkill implements promptSource. name is a URI from the server's list.
func (s sessionSource) readSkill(ctx context.Context, name, file string) (jsontext.Value, error) {
	uri := skillFile(name, file)
	params := wire.Object{}.With("uri", wire.Quote(uri))
	got, err := s.session.Call(ctx, &client.Request{Method: wire.ResourcesRead, Name: uri, Params: params}, nil)
	return got.JSON, err
}

// printFile prints a skill's file. With --save, it saves a file that is not text.
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

// definitionOf returns the definition of an entry. It adds name and description to a skill's definition, see
// listedSkill.
func definitionOf(entry *catalog.Entry) jsontext.Value {
	if entry.Skill == nil {
		return entry.JSON
	}
	return listedSkill(entry.JSON, entry.Name, entry.Skill)
}

// listedSkill returns the definition of a skill, with the members name and description that prompts have.
func listedSkill(entry jsontext.Value, name string, skill *skills.Skill) jsontext.Value {
	description, _ := skill.Frontmatter.Text("description")
	named := wire.Object{}.With("name", wire.Quote(name)).With("description", wire.Quote(description))
	return append(named, wire.Members(entry)...).JSON()
}
