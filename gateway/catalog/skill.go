package catalog

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/skills"
	"github.com/promptweir/promptweir/upstream/wire"
)

// ParseDefinition is [ParsePrompt] for an upstream that may have skills: an element with a uri and
// without a name is a skill. The skill's name is "skill:" and the path of its folder.
func ParseDefinition(raw jsontext.Value, mayHaveSkills bool) (Prompt, error) {
	if !mayHaveSkills {
		return ParsePrompt(raw)
	}
	object, _ := wire.ParseObject(raw) // both parsers below parse again and return the error
	if object.Get("name") == nil && object.Get("uri") != nil {
		skill, err := skills.Parse(wire.SingleLine(raw))
		if err != nil {
			return Prompt{}, err
		}
		return Prompt{Name: config.SkillPrefix + skill.Path, Definition: skill.Entry, Hash: skill.Hash, Skill: skill}, nil
	}
	prompt, err := ParsePrompt(raw)
	if err == nil && config.IsSkill(prompt.Name) {
		return Prompt{}, fmt.Errorf("prompt %q: names that begin with %q are those of skills", clip(prompt.Name), config.SkillPrefix)
	}
	return prompt, err
}

// URI returns the URI under which clients read a skill's SKILL.md.
func (e *Entry) URI() string { return e.Root + "/" + wire.SkillFile }

// reserved returns a report if the name is reserved for skills, or if the skill's uri may belong to
// another upstream.
func (n namespaces) reserved(source *Source, prompt *Prompt, name string) (r Report, reserved bool) {
	if !n.skills {
		return Report{}, false
	}
	o := source.Owner(prompt.Name)
	r = Report{Kind: ForeignPrefix, Name: name, Owners: []Owner{o}}
	if prompt.Skill == nil {
		r.Text = fmt.Sprintf("prompt %q of %s has a name that begins with %q, as those of skills do: it is left out; rename it, "+
			"or set a prefix on the upstream", name, who(o), config.SkillPrefix)
		return r, config.IsSkill(name)
	}
	first, _, _ := strings.Cut(strings.TrimPrefix(prompt.Name, config.SkillPrefix), "/")
	decoded, _ := url.PathUnescape(first) // skills.Parse has checked the escapes
	// An upstream's prefix is the first segment of its skills' uris. Without a prefix, this skill's uri would look like a uri of another
	// upstream.
	if of, isPrefix := n.owners[config.Bare(decoded)]; source.Prefix == "" && decoded != "" && isPrefix {
		r.Owners = append(r.Owners, of.Owner(""))
		r.Text = fmt.Sprintf("skill %q of %s begins with %q, which is a prefix: it is left out; set a prefix on upstream %q, "+
			"or move the skill", name, who(o), decoded, o.Upstream)
		return r, true
	}
	return Report{}, false
}
