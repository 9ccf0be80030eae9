package gateway

import (
	"fmt"
	"slices"
	"strings"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/upstream/wire"
)

// Explanation is why a principal sees an exposed name or does not, for one upstream that the name may belong to.
type Explanation struct {
	policy.Decision

	Team, Upstream string
	// Own is what the upstream would call the prompt.
	Own string
}

// Explain says what becomes of an exposed name, for each upstream that it may belong to: who owns it, what else claims it,
// what hides and what exposes it, and how its prompt block, the lock file and the screen blocks bear on it. Where it was
// listed, its definition counts, and what a listed upstream does not offer is left out, unless nobody is known to offer it.
func (g *Gateway) Explain(who policy.Principal, name string) []Explanation {
	var offered, absent []Explanation
	e := g.edition.Load()
	sources := e.sources()
	for _, without := range e.intake.namesOf(name) {
		for _, candidate := range catalog.Candidates(sources, e.cfg.Gateway.Separator, without) {
			prompt, listed := e.listedPrompt(&candidate.Source, candidate.Own)
			if listed && prompt == nil {
				absent = append(absent, e.explain(who, candidate, prompt, name))
			} else {
				offered = append(offered, e.explain(who, candidate, prompt, name))
			}
		}
	}
	if len(offered) == 0 {
		return absent
	}
	return offered
}

// namesOf returns the names that prompts with an exposed name may have without their prompt blocks, the name itself last.
func (in *intake) namesOf(name string) []string {
	var names []string
	for label, s := range in.shapes {
		if s.Name == name && label != name {
			names = append(names, label)
		}
	}
	slices.Sort(names)
	return append(names, name)
}

// explain is for one upstream that may own the name, with its prompt where that is known.
func (e *edition) explain(who policy.Principal, c catalog.Candidate, prompt *catalog.Prompt, name string) Explanation {
	s := story{edition: e, source: &c.Source, own: c.Own, name: name, shape: e.intake.shapes[e.intake.exposed(&c.Source, c.Own)]}
	if s.shape.team != c.Source.Team {
		s.shape = shape{}
	}
	s.prompt = prompt
	s.shaping()
	s.locking()
	s.screening()
	var definition []byte
	if s.prompt != nil {
		definition = s.prompt.Definition
	}
	decision := e.policy.Explain(who, c.Source.Team, e.firstOwner(&c.Source, name), name, definition)
	return Explanation{Decision: s.tell(decision), Team: c.Source.Team, Upstream: c.Source.Upstream, Own: c.Own}
}

// firstOwner is the upstream that the policy decides by: of an entry with several, the first.
func (e *edition) firstOwner(source *catalog.Source, name string) string {
	entry := e.snapshot.Lookup(name)
	if entry != nil && slices.ContainsFunc(entry.Owners, func(o catalog.Owner) bool { return o.Upstream == source.Upstream }) {
		return entry.Owners[0].Upstream
	}
	return source.Upstream
}

// listedPrompt is what an upstream lists under its own name, nil where that is not known, and whether its list is.
func (e *edition) listedPrompt(source *catalog.Source, own string) (prompt *catalog.Prompt, listed bool) {
	for i, u := range e.upstreams {
		if u.Name != source.Upstream {
			continue
		}
		for _, definition := range e.definitions(i, e.states[i]) {
			if prompt, err := catalog.ParsePrompt(definition); err == nil && prompt.Name == own {
				return &prompt, true
			}
		}
		return nil, e.whole(i, e.states[i])
	}
	return nil, false
}

// story is what happens to one prompt beside the policy.
type story struct {
	edition   *edition
	source    *catalog.Source
	own, name string
	shape     shape
	// prompt is nil where its definition is not known. It becomes what is listed.
	prompt *catalog.Prompt
	steps  []policy.Step
	out    int // of the step that leaves the prompt out, from 1; 0 while none does
}

func (s *story) step(place config.Place, out bool, format string, args ...any) {
	s.steps = append(s.steps, policy.Step{Rule: place.String(), Text: fmt.Sprintf(format, args...)})
	if out && s.out == 0 {
		s.out = len(s.steps)
	}
}

// shaping tells what the prompt block does.
func (s *story) shaping() {
	if s.shape.Override == nil {
		return
	}
	if renamed := s.shape.Name; renamed != "" && renamed != s.name {
		s.step(s.shape.Place, true, "its prompt block exposes it as %s instead", wire.Quote(renamed))
		return
	}
	if s.prompt != nil {
		if _, err := s.prompt.Shaped(s.shape.change()); err != nil {
			s.step(s.shape.Place, true, "its prompt block does not fit, so it is left out: %v", err)
			return
		}
	}
	s.step(s.shape.Place, false, "its prompt block %s", s.shape.describe())
}

// describe says what a prompt block changes.
func (s shape) describe() string {
	var parts []string
	if s.Name != "" {
		parts = append(parts, fmt.Sprintf("exposes %s as %s", wire.Quote(s.Prompt), wire.Quote(s.Name)))
	}
	if s.Title != nil || s.Description != nil {
		parts = append(parts, "says its title or description")
	}
	list := func(what string, values []config.ArgumentOverride) {
		var names []string
		for _, v := range values {
			names = append(names, v.Name)
		}
		if len(names) > 0 {
			parts = append(parts, what+" "+strings.Join(names, ", "))
		}
	}
	list("fixes", s.Fixed)
	list("has defaults for", s.Defaults)
	return strings.Join(parts, ", ")
}

// locking tells what the lock file says.
func (s *story) locking() {
	lock := s.edition.cfg.LockFor(s.source.Team)
	if lock.Mode == config.LockOff {
		return
	}
	approved, known := s.edition.cfg.Lock.Find(s.edition.intake.exposed(s.source, s.own), s.source.Upstream)
	enforced, outcome := lock.Mode == config.LockEnforce, "it is listed all the same"
	if enforced {
		outcome = "it is left out"
	}
	switch {
	case !known:
		s.step(lock.Place, enforced, "lock = %q: it is not in %s, so %s", lock.Mode, config.LockFile, outcome)
	case s.prompt == nil:
		s.step(lock.Place, false, "lock = %q: with another definition than in %s %s", lock.Mode, config.LockFile, outcome)
	case approved.SHA256 != s.prompt.Hash:
		s.step(lock.Place, enforced, "lock = %q: it has another definition than in %s, so %s", lock.Mode, config.LockFile, outcome)
	default:
		s.step(lock.Place, false, "lock = %q: its definition is the one in %s", lock.Mode, config.LockFile)
	}
}

// screening tells what the screen blocks find. Before that, the prompt becomes what they look at.
func (s *story) screening() {
	if s.prompt != nil && s.shape.Override != nil {
		if shaped, err := s.prompt.Shaped(s.shape.change()); err == nil {
			s.prompt = &shaped
		}
	}
	blocks := s.edition.cfg.ScreensFor(s.source.Team)
	if len(blocks) == 0 {
		return
	}
	var finds map[config.Place]string
	var rejecting config.Place
	if s.prompt != nil {
		outcome := s.edition.intake.screens[s.source.Team].Definition(s.prompt.Definition)
		finds = map[config.Place]string{}
		for _, f := range outcome.Noted {
			finds[f.Block.Place] = f.String()
		}
		if f := outcome.Rejected; f != nil {
			rejecting, finds[f.Block.Place] = f.Block.Place, f.String()
		} else if screened, err := s.prompt.With(outcome.JSON); err == nil {
			s.prompt = &screened
		}
	}
	for i := range blocks {
		b := &blocks[i]
		switch found := finds[b.Place]; {
		case found != "" && b.Place == rejecting:
			s.step(b.Place, true, "screen %q leaves it out: its definition has %s", b.Label, found)
		case found != "":
			s.step(b.Place, false, "screen %q (%s) finds %s in its definition", b.Label, b.Action, found)
		case s.prompt != nil:
			s.step(b.Place, false, "screen %q (%s) finds nothing in its definition, and looks at its results", b.Label, b.Action)
		default:
			s.step(b.Place, false, "screen %q (%s) looks at its definition and its results", b.Label, b.Action)
		}
	}
}

// tell puts the story around the policy's decision: who else claims the name after the owner, and the rest at the end. What
// is left out is visible to nobody, whatever the policy says.
func (s *story) tell(d policy.Decision) policy.Decision {
	conflict := s.conflict()
	if conflict != nil {
		d.Chain = slices.Insert(d.Chain, min(1, len(d.Chain)), *conflict)
	}
	before := len(d.Chain)
	d.Chain = append(d.Chain, s.steps...)
	out := -1
	switch {
	case conflict != nil && conflict.Decides:
		out = min(1, before-1)
	case s.out > 0:
		out = before + s.out - 1
	}
	if out < 0 {
		return d
	}
	for i := range d.Chain {
		d.Chain[i].Decides = i == out
	}
	d.Visible, d.Depends = false, false
	d.Rule, d.Reason = d.Chain[out].Rule, d.Chain[out].Text
	return d
}

// conflict is the step of a name that the upstream claims and others too, or nil. It decides where the upstream's prompt is
// left out for it.
func (s *story) conflict() *policy.Step {
	for _, r := range s.edition.snapshot.Reports() {
		mine := slices.ContainsFunc(r.Owners, func(o catalog.Owner) bool { return o.Upstream == s.source.Upstream && o.Name == s.own })
		if r.Name != s.name || !mine {
			continue
		}
		switch r.Kind {
		case catalog.Conflict, catalog.ForeignPrefix, catalog.NameTooLong:
			return &policy.Step{Rule: s.source.Place, Text: r.Text, Decides: !s.listed()}
		}
	}
	return nil
}

// listed reports whether the entry under the name is the upstream's.
func (s *story) listed() bool {
	entry := s.edition.snapshot.Lookup(s.name)
	return entry != nil && slices.ContainsFunc(entry.Owners, func(o catalog.Owner) bool { return o.Upstream == s.source.Upstream })
}
