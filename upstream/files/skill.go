package files

import (
	"path"
	"strings"
)

// skillPrompt reads a SKILL.md of Agent Skills, whose text becomes one prompt without arguments.
func (p *parser) skillPrompt(front, text string, line int) error {
	if p.name = path.Base(path.Dir(p.path)); p.name == "." {
		p.name = "skill"
	}
	p.foreignFront(front, map[string]func(field) error{"name": setText(&p.name), "description": setText(&p.description)})
	p.text(text)
	for each := range strings.Lines(text) {
		if found := placeholder().FindString(each); strings.HasPrefix(found, "$ARGUMENTS") {
			p.unserved(line, "%s is text: a skill has no arguments", found)
		}
		p.reportLinks(each, line)
		line++
	}
	return nil
}
