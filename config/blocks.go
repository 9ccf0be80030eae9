package config

import (
	_ "embed"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// documentation is the page about the configuration, which a test compares with the code.
//
//go:embed README.md
var documentation string

var (
	// blockSection matches the headings of sections about blocks: "`tls` in `upstream` or `cluster`".
	blockSection = regexp.MustCompile("(?m)^### `(\\w+)`(.*)$")
	anyHeading   = regexp.MustCompile(`(?m)^##+ `)
	markdownLink = regexp.MustCompile(`\[([^]]*)]\([^)]*\)`)
)

// helpWidth is the width of what BlockHelp returns, in characters.
const helpWidth = 96

// BlockHelp returns what the documentation says of blocks by their types, as plain text.
func BlockHelp() map[string]string {
	help := map[string]string{}
	for _, at := range blockSection.FindAllStringSubmatchIndex(documentation, -1) {
		block, text := documentation[at[2]:at[3]], documentation[at[1]:]
		if next := anyHeading.FindStringIndex(text); next != nil {
			text = text[:next[0]]
		}
		if help[block] != "" {
			help[block] += "\n"
		}
		help[block] += plain(block+documentation[at[4]:at[5]]) + "\n\n" + blockText(text)
	}
	return help
}

// BlockTypes returns the types of blocks that BlockHelp knows, sorted.
func BlockTypes() (types []string) {
	for _, match := range blockSection.FindAllStringSubmatch(documentation, -1) {
		types = append(types, match[1])
	}
	slices.Sort(types)
	return slices.Compact(types)
}

// blockText writes paragraphs, and each row of a table of attributes as an item.
func blockText(markdown string) string {
	var out strings.Builder
	isCode := false
	for paragraph := range strings.SplitSeq(strings.TrimSpace(markdown), "\n\n") {
		isCode = isCode || strings.HasPrefix(paragraph, "```")
		switch {
		case isCode:
			out.WriteString(paragraph + "\n\n")
			isCode = !strings.HasSuffix(paragraph, "```")
		case !strings.HasPrefix(paragraph, "|"):
			out.WriteString(wrapped(plain(paragraph), "") + "\n")
		default:
			rows := slices.Collect(strings.Lines(paragraph))
			for _, row := range rows[min(2, len(rows)):] { // after the head and its line
				out.WriteString(attributeText(row))
			}
			out.WriteString("\n")
		}
	}
	return strings.Trim(out.String(), "\n") + "\n"
}

// attributeText writes a row: attribute, type, default, whether env() may give it, and meaning.
func attributeText(row string) string {
	cells := strings.Split(strings.Trim(strings.TrimSpace(row), "|"), "|")
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	if len(cells) != 5 {
		return "  " + plain(strings.Join(cells, "  ")) + "\n"
	}
	var about []string
	if cells[1] != "" {
		about = append(about, cells[1])
	}
	switch fallback := cells[2]; {
	case strings.HasPrefix(fallback, "`"):
		about = append(about, "default "+fallback)
	case fallback != "–":
		about = append(about, fallback)
	}
	name := plain(cells[0])
	if len(about) > 0 {
		name += " (" + plain(strings.Join(about, ", ")) + ")"
	}
	return "  " + name + "\n" + wrapped(plain(cells[4]), "      ")
}

// plain takes the marks of Markdown out of a text.
func plain(markdown string) string {
	return strings.ReplaceAll(markdownLink.ReplaceAllString(markdown, "$1"), "`", "")
}

// wrapped breaks a text into lines with an indent.
func wrapped(text, indent string) string {
	var out strings.Builder
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && utf8.RuneCountInString(indent+line+" "+word) > helpWidth {
			out.WriteString(indent + line + "\n")
			line = ""
		}
		line = strings.TrimSpace(line + " " + word)
	}
	return out.String() + indent + line + "\n"
}
