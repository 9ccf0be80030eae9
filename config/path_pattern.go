package config

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// maxPathParts bounds the folders of a path pattern, far above what people nest.
const maxPathParts = 32

// PathPattern is a glob over the path of a Markdown file, relative to a folder and with slashes. The zero PathPattern matches
// nothing.
//
//	"*"    any run of characters within one name; "?" and classes as in [Pattern]
//	"**"   any number of folders, none included
//
// A name that starts with "." or "_" only matches where the pattern writes that character, so that neither the folders of
// tools nor partials become prompts by accident.
type PathPattern struct {
	text string
	// parts match one name each; nil is "**".
	parts []*Pattern
}

// Match reports whether the whole path matches.
func (p PathPattern) Match(file string) bool { return slices.Contains(p.after(file), len(p.parts)) }

// Enters reports whether a path below the folder can match; "." is the folder that paths are relative to.
func (p PathPattern) Enters(folder string) bool {
	return slices.ContainsFunc(p.after(folder), func(at int) bool { return at < len(p.parts) })
}

// Folder returns the folder that all matches are in, as far as the pattern spells it out; "." for none.
func (p PathPattern) Folder() string {
	folder := "."
	for _, part := range p.parts[:max(len(p.parts)-1, 0)] {
		if part == nil || len(part.parts) != 1 { // the one literal of a pattern without wildcards
			break
		}
		folder = path.Join(folder, part.text)
	}
	return folder
}

// String returns the pattern as it was written.
func (p PathPattern) String() string { return p.text }

// after returns the positions in the pattern that the names of a path lead to.
func (p PathPattern) after(file string) []int {
	at := p.skip(nil, 0)
	if file == "." {
		return at
	}
	for name := range strings.SplitSeq(file, "/") {
		var next []int
		for _, i := range at {
			switch {
			case i == len(p.parts):
			case p.parts[i] == nil && !isReserved(name):
				next = p.skip(next, i)
			case p.parts[i] != nil && p.parts[i].Match(name) && (!isReserved(name) || p.parts[i].text[0] == name[0]):
				next = p.skip(next, i+1)
			}
		}
		at = next
	}
	return at
}

// skip adds a position, and those after it that are reached without a name.
func (p PathPattern) skip(positions []int, at int) []int {
	for ; !slices.Contains(positions, at); at++ {
		positions = append(positions, at)
		if at == len(p.parts) || p.parts[at] != nil {
			break
		}
	}
	return positions
}

// isReserved reports whether a name stands for itself only.
func isReserved(name string) bool {
	return strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")
}

// parsePathPattern leaves the pattern out of its errors.
func parsePathPattern(s string) (PathPattern, error) {
	names := strings.Split(s, "/")
	switch {
	case s == "":
		return PathPattern{}, errors.New(`is empty; write it like "prompts/**/*.md"`)
	case names[0] == "":
		return PathPattern{}, errors.New(`starts with a slash; write it relative to the folder of this file, like "prompts/**/*.md"`)
	case slices.Contains(names, "..") || slices.Contains(names, "."):
		return PathPattern{}, errors.New(`contains "." or ".."; prompts lie beneath the folder of this file: move them there`)
	case len(names) > maxPathParts:
		return PathPattern{}, fmt.Errorf("has more than %d folders", maxPathParts)
	case !strings.HasSuffix(s, ".md"):
		return PathPattern{}, errors.New(`does not end in ".md"; prompts are Markdown files: write it like "prompts/**/*.md"`)
	}
	p := PathPattern{text: s}
	for _, name := range names {
		if name == "**" {
			p.parts = append(p.parts, nil)
			continue
		}
		if strings.Contains(name, "**") {
			return PathPattern{}, errors.New(`has "**" beside other characters; it stands for whole folders: write it like "prompts/**/*.md"`)
		}
		part, err := parsePattern(name)
		if err != nil {
			return PathPattern{}, fmt.Errorf("cannot be read at %q, which %w", name, err)
		}
		p.parts = append(p.parts, &part)
	}
	return p, nil
}
