package config

import (
	_ "embed"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// documentation is README.md. A test compares its tables with the code.
//
//go:embed README.md
var documentation string

var (
	// attributeRow captures attribute, type, default and meaning, and skips the column env.
	attributeRow = regexp.MustCompile(`(?m)^\| (.*?) \| (.*?) \| (.*?) \| .*? \| (.*) \|$`)
	blockRow     = regexp.MustCompile(`(?m)^\| (.*?) \| \| – \| \| (.*) \|$`)
	tableHead    = regexp.MustCompile(`(?m)^\| attribute .*\n\| --- .*\n`)
	markdownLink = regexp.MustCompile(`\[([^]]*)]\([^)]*\)`)
)

// blockSections maps each block type to its sections of README.md. The text of a section begins inside its heading,
// such as "tls` in `upstream`…".
func blockSections() map[string][]string {
	sections := map[string][]string{}
	for _, section := range strings.Split(documentation, "\n### `")[1:] {
		section, _, _ = strings.Cut(section, "\n##")
		block, _, _ := strings.Cut(section, "`")
		sections[block] = append(sections[block], section)
	}
	return sections
}

// BlockHelp returns the documentation of a block as plain text, or "" for an unknown type.
func BlockHelp(block string) string {
	text := tableHead.ReplaceAllString(strings.Join(blockSections()[block], "\n"), "")
	text = blockRow.ReplaceAllString(text, "  $1\n      $2")
	text = attributeRow.ReplaceAllString(text, "  $1 ($2, $3)\n      $4")
	return strings.ReplaceAll(plain(text), ", –)", ")")
}

// BlockTypes returns the types for which BlockHelp has documentation, sorted.
func BlockTypes() []string { return slices.Sorted(maps.Keys(blockSections())) }

// plain turns Markdown into plain text: links become their text, and backticks are removed.
func plain(markdown string) string {
	return strings.ReplaceAll(markdownLink.ReplaceAllString(markdown, "$1"), "`", "")
}
