package inspect

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"go.mau.fi/util/exslices"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream/wire"
)

// Explanation explains why a principal sees or does not see an exposed name, for one upstream that may
// own the name.
type Explanation struct {
	policy.Decision

	Team, Upstream string
	// Own is the upstream's own name for the prompt.
	Own string
	// Absent is true if the upstream does not offer the prompt. The decision is then about the prompt as
	// if it existed.
	Absent bool
	// Unknown is true if the upstream's list is incomplete and does not contain the prompt.
	Unknown bool
}

// Explain explains an exposed name for each upstream that may own it: conflicts with other upstreams,
// the rules that hide and expose the prompt, and the effects of its prompt block, the lock file and the
// screens. It leaves out upstreams that certainly do not offer the prompt, unless all of them do not.
func Explain(s *snapshot.Snapshot, principal policy.Principal, name string) []Explanation {
	var offered, absent []Explanation
	for _, candidate := range s.Candidates(name) {
		prompt, listed := listedPrompt(s, &candidate.Source, candidate.Own)
		explanation := explain(s, principal, candidate, prompt, name)
		explanation.Absent, explanation.Unknown = prompt == nil && listed, prompt == nil && !listed
		if explanation.Absent {
			absent = append(absent, explanation)
		} else {
			offered = append(offered, explanation)
		}
	}
	if len(offered) == 0 {
		return absent
	}
	return offered
}

// explain explains an exposed name for one upstream. The prompt is nil if it is not known.
func explain(
	s *snapshot.Snapshot, principal policy.Principal, c catalog.Candidate, prompt *catalog.Prompt, name string,
) Explanation {
	chain := newAdmissionChain(s, c, prompt, name)
	var definition []byte
	if chain.prompt != nil {
		definition = chain.prompt.Facts()
	}
	decision := s.Policy.Explain(principal, c.Source.Team, c.Source.Upstream, name, definition)
	return Explanation{Decision: chain.around(decision), Team: c.Source.Team, Upstream: c.Source.Upstream, Own: c.Own}
}

// listedPrompt returns the prompt with an upstream's own name, or nil if it is not known. listed is true if the
// upstream's list is complete.
func listedPrompt(s *snapshot.Snapshot, source *catalog.Source, own string) (prompt *catalog.Prompt, listed bool) {
	at, _ := s.Index(source.Upstream) // a source is an upstream of the snapshot
	for _, definition := range s.Definitions(at) {
		if found, err := catalog.ParseDefinition(definition, source.Skills); err == nil && found.Name == own {
			return &found, s.Listed(at)
		}
	}
	return nil, s.Listed(at)
}

// admissionChain collects the steps of one prompt that are not the policy's.
type admissionChain struct {
	snapshot  *snapshot.Snapshot
	source    *catalog.Source
	own, name string
	// prompt is the prompt after the steps so far. It is nil if its definition is unknown.
	prompt *catalog.Prompt
	// steps are the steps so far. The first step that leaves the prompt out decides.
	steps []policy.Step
}

func newAdmissionChain(s *snapshot.Snapshot, c catalog.Candidate, prompt *catalog.Prompt, name string) *admissionChain {
	chain := &admissionChain{snapshot: s, source: &c.Source, own: c.Own, name: name, prompt: prompt}
	if chain.prompt != nil && chain.prompt.Skill != nil {
		chain.addStep(chain.source.Place, false, chain.prompt.Skill.About())
	}
	// addLock compares the server's own definition. addScreens checks it as the prompt block has changed it.
	chain.addOverride()
	chain.addLock()
	if strings.ContainsFunc(chain.name, config.IsInvisible) {
		chain.addStep(chain.source.Place, true, "its name has invisible characters, so it is left out")
	}
	chain.addScreens()
	if at, _ := s.Index(chain.source.Upstream); s.Upstreams[at].Resources == config.ResourcesLinked {
		chain.addStep(chain.source.Place, false, `resources = "linked": whoever sees it can read what its results link to`)
	}
	return chain
}

func (c *admissionChain) add(place config.Place, leavesOut bool, format string, args ...any) {
	c.addStep(place.String(), leavesOut, fmt.Sprintf(format, args...))
}

func (c *admissionChain) addStep(rule string, leavesOut bool, text string) {
	c.steps = append(c.steps, policy.Step{Rule: rule, Text: text, Decides: leavesOut && c.deciding() < 0})
}

// deciding returns the index of the deciding step, or -1 if no step decides.
func (c *admissionChain) deciding() int {
	return slices.IndexFunc(c.steps, func(step policy.Step) bool { return step.Decides })
}

// addOverride adds the step of the prompt block, if there is one.
func (c *admissionChain) addOverride() {
	block := c.snapshot.PromptBlock(c.source, c.own)
	if block == nil {
		return
	}
	if renamed := block.Name; renamed != "" && renamed != c.name {
		c.add(block.Place, true, "its prompt block exposes it as %s instead", wire.Quote(renamed))
		return
	}
	if _, err := c.overridden(); err != nil {
		c.add(block.Place, true, "its prompt block does not fit, so it is left out: %v", err)
		return
	}
	c.add(block.Place, false, "its prompt block %s", describe(block))
}

// overridden returns the prompt with the changes of its prompt block, or nil if the definition is
// unknown.
func (c *admissionChain) overridden() (*catalog.Prompt, error) {
	block := c.snapshot.PromptBlock(c.source, c.own)
	if c.prompt == nil || block == nil {
		return c.prompt, nil
	}
	overridden, err := c.prompt.Override(context.Background(), block)
	return &overridden, err
}

// describe returns the changes of a prompt block as a text.
func describe(block *config.Override) string {
	var parts []string
	if block.Name != "" {
		parts = append(parts, fmt.Sprintf("exposes %s as %s", wire.Quote(block.Prompt), wire.Quote(block.Name)))
	}
	if block.Title != nil || block.Description != nil {
		parts = append(parts, "changes its title or description")
	}
	list := func(what string, values []config.ArgumentOverride) {
		if len(values) > 0 {
			names := exslices.CastFunc(values, func(v config.ArgumentOverride) string { return v.Name })
			parts = append(parts, what+" "+strings.Join(names, ", "))
		}
	}
	list("fixes", block.Fixed)
	list("has defaults for", block.Defaults)
	return strings.Join(parts, ", ")
}

// addLock adds the step of the lock file, unless locking is off.
func (c *admissionChain) addLock() {
	lock := c.snapshot.Config.LockFor(c.source.Team)
	if lock.Mode == config.LockOff {
		return
	}
	var hash [sha256.Size]byte
	if c.prompt != nil {
		hash = c.prompt.Hash
	}
	state := c.snapshot.Config.Lock.State(c.snapshot.ExposedName(c.source, c.own), hash)
	enforced, outcome := lock.Mode == config.LockEnforce, "it is listed anyway"
	if enforced {
		outcome = "it is left out"
	}
	switch {
	case state == config.LockMissing:
		c.add(lock.Place, enforced, "lock = %q: it is not in %s, so %s", lock.Mode, config.LockFile, outcome)
	case c.prompt != nil && c.prompt.Skill != nil && c.prompt.Skill.Dynamic:
		c.add(lock.Place, enforced, "lock = %q: it is dynamic, which no lock can approve, so %s", lock.Mode, outcome)
	case c.prompt == nil:
		c.add(lock.Place, false, "lock = %q: if its definition differs from the one "+
			"in %s, %s", lock.Mode, config.LockFile, outcome)
	case state == config.LockDiffers:
		c.add(lock.Place, enforced, "lock = %q: its definition differs from the one in "+
			"%s, so %s", lock.Mode, config.LockFile, outcome)
	default:
		c.add(lock.Place, false, "lock = %q: its definition is the one in %s", lock.Mode, config.LockFile)
	}
}

// addScreens applies the prompt block and the screens to the prompt, and adds a step for each screen
// block.
func (c *admissionChain) addScreens() {
	if overridden, err := c.overridden(); err == nil {
		c.prompt = overridden
	}
	blocks := c.snapshot.Config.ScreensFor(c.source.Team)
	if len(blocks) == 0 {
		return
	}
	var findings map[config.Place]string
	var rejecting config.Place
	if c.prompt != nil {
		screen := c.snapshot.Screen(c.source.Team)
		outcome, _ := screen.Definition(context.Background(), c.prompt.Definition, c.name) // no error: this context never ends
		findings = map[config.Place]string{}
		for _, f := range outcome.Noted {
			findings[f.Block.Place] = f.String()
		}
		if f := outcome.Rejected; f != nil {
			rejecting, findings[f.Block.Place] = f.Block.Place, f.String()
		} else if screened, err := c.prompt.With(outcome.JSON); err == nil {
			c.prompt = &screened
		}
	}
	for i := range blocks {
		b := &blocks[i]
		switch found := findings[b.Place]; {
		case found != "" && b.Place == rejecting:
			c.add(b.Place, true, "screen %q leaves it out: its definition has %s", b.Label, found)
		case found != "":
			c.add(b.Place, false, "screen %q (%s) finds %s in its definition", b.Label, b.Action, found)
		case c.prompt != nil:
			c.add(b.Place, false, "screen %q (%s) finds nothing in its definition, and checks "+
				"its results", b.Label, b.Action)
		default:
			c.add(b.Place, false, "screen %q (%s) checks its definition and its results", b.Label, b.Action)
		}
	}
}

// around adds the chain's steps to the policy's decision: a name conflict after the first step, all
// other steps at the end. If a step leaves the prompt out, it decides, and the prompt is not visible.
func (c *admissionChain) around(d policy.Decision) policy.Decision {
	conflict := c.conflict()
	if conflict != nil {
		d.Chain = slices.Insert(d.Chain, min(1, len(d.Chain)), *conflict)
	}
	before := len(d.Chain)
	d.Chain = append(d.Chain, c.steps...)
	out := before + c.deciding()
	switch {
	case conflict != nil && conflict.Decides:
		out = min(1, before-1)
	case out < before:
		return d
	}
	for i := range d.Chain {
		d.Chain[i].Decides = i == out
	}
	d.Visible, d.Depends = false, false
	d.Rule, d.Reason = d.Chain[out].Rule, d.Chain[out].Text
	return d
}

// conflict returns a step about a name that several upstreams use or that does not fit. It returns nil
// if there is no such report. The step decides if the catalog leaves out this upstream's prompt.
func (c *admissionChain) conflict() *policy.Step {
	for _, r := range c.snapshot.Catalog.Reports() {
		isOwner := slices.ContainsFunc(r.Owners, func(o catalog.Owner) bool {
			return o.Upstream == c.source.Upstream && o.Name == c.own
		})
		if r.Name != c.name || !isOwner {
			continue
		}
		switch r.Kind {
		case catalog.Conflict, catalog.Difference, catalog.ForeignPrefix, catalog.NameTooLong:
			return &policy.Step{Rule: c.source.Place, Text: r.Text, Decides: !c.ownsEntry()}
		}
	}
	return nil
}

// ownsEntry reports whether the upstream is an owner of the entry with the exposed name.
func (c *admissionChain) ownsEntry() bool {
	entry := c.snapshot.Catalog.Lookup(c.name)
	return entry != nil && slices.ContainsFunc(entry.Owners, func(o catalog.Owner) bool {
		return o.Upstream == c.source.Upstream
	})
}
