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

// PathPosition is how far into a pattern the folders of a path lead. It is a set of places, since "**" may stand for more or
// fewer folders.
type PathPosition uint64

// Start is the position at the folder that paths are relative to.
func (p PathPattern) Start() PathPosition { return p.reach(0, 0) }

// Next returns the position after one more name of a path.
func (p PathPattern) Next(at PathPosition, name string) (next PathPosition) {
	for i, part := range p.parts {
		switch {
		case at&(1<<i) == 0:
		case part == nil && !isReserved(name):
			next = p.reach(next, i)
		case part != nil && (!isReserved(name) || part.text[0] == name[0]) && part.Match(name):
			next = p.reach(next, i+1)
		}
	}
	return next
}

// Ends reports whether the pattern matches the path that leads to a position.
func (p PathPattern) Ends(at PathPosition) bool { return len(p.parts) > 0 && at&(1<<len(p.parts)) != 0 }

// Enters reports whether a path that goes on from a position can match.
func (p PathPattern) Enters(at PathPosition) bool { return at&(1<<len(p.parts)-1) != 0 }

// reach adds a place, and those after it that are reached without a name.
func (p PathPattern) reach(at PathPosition, place int) PathPosition {
	for ; place < len(p.parts) && p.parts[place] == nil; place++ {
		at |= 1 << place
	}
	return at | 1<<place
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
