package main

import (
	"context"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/promptweir/promptweir/cmd/promptweir/internal/terminal"
	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/skills"
	"github.com/promptweir/promptweir/upstream/wire"
)

// maxSkillTexts bounds the number of texts of skills that are read.
const maxSkillTexts = 1000

var skillURI = regexp.MustCompile(`skill://[^\s<>"'` + "`" + `)\]]+`)

// checkSkills returns a line for each Markdown file of a skill that cannot be read, or that contains skill URIs
// that lead to no served skill: the gateway moves skills below prefixes, but does not change the URIs in texts.
func checkSkills(ctx context.Context, g *gateway.Gateway) (checks []liveCheck) {
	entries := slices.DeleteFunc(slices.Clone(g.Snapshot().Catalog.Entries()), func(e *catalog.Entry) bool { return e.Skill == nil })
	isServed := func(uri string) bool {
		return slices.ContainsFunc(entries, func(e *catalog.Entry) bool { return uri == e.Root || strings.HasPrefix(uri, e.Root+"/") })
	}
	reads := 0
	for _, entry := range entries {
		files, place := entry.Skill.Files, entry.Owners[0].Place
		if entry.Skill.Dynamic {
			files = []skills.File{{Path: wire.SkillFile}}
		}
		for _, file := range files {
			if path.Ext(file.Path) != ".md" {
				continue
			}
			if reads++; reads > maxSkillTexts || ctx.Err() != nil {
				return checks
			}
			uri := entry.Root + "/" + file.Path
			result, err := g.Call(ctx, nil, wire.ResourcesRead, wire.Object{}.With("uri", wire.Quote(uri)))
			if err != nil {
				checks = append(checks, checked("skill", checkError, place, "%s: %s cannot be read: %s", terminal.Line(entry.Name), uri,
					terminal.OneLine(explained(g.Snapshot(), err).Error())))
				continue
			}
			contents, _ := wire.ParseArray(wire.Members(result).Get("contents")) // Call has verified the result
			for _, content := range contents {
				text, _ := wire.Members(content).Text("text")
				foreign := slices.DeleteFunc(skillURI.FindAllString(text, -1), isServed)
				if len(foreign) > 0 {
					checks = append(checks, checked("skill", checkWarning, place, "%s: %s names %s, which clients do not find; "+
						"write the path from the folder of SKILL.md", terminal.Line(entry.Name), uri, namedURIs(foreign)))
				}
			}
		}
	}
	return checks
}

func namedURIs(uris []string) string {
	text := terminal.Line(wire.Clip(strings.TrimRight(uris[0], ".,;:"), maxShownURI))
	if more := len(slices.Compact(uris)) - 1; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// maxShownURI bounds a printed URI, in bytes.
const maxShownURI = 200
