package gateway

import (
	"fmt"
	"maps"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/screen"
	"github.com/promptweir/promptweir/upstream/wire"
)

// intake is what the configuration does to a definition between an upstream's list and the catalog:
//
//	definition ─▶ approved by the lock file? ─▶ shaped by its prompt block ─▶ screened ─▶ catalog
//
// What it leaves out, it reports. It is immutable.
type intake struct {
	cfg *config.Config
	// shapes are by the exposed name that a prompt has without them.
	shapes map[string]shape
	// screens are by team.
	screens map[string]*screen.Screen
}

// shape is a prompt block, the team that owns the prompt, and the upstreams that the prompt can be of.
type shape struct {
	*config.Override

	team    string
	origins []catalog.Candidate
}

func newIntake(cfg *config.Config) *intake {
	in := &intake{cfg: cfg, shapes: map[string]shape{}, screens: map[string]*screen.Screen{}}
	sources := sourcesOf(cfg)
	for i := range cfg.Teams {
		t := &cfg.Teams[i]
		in.screens[t.Name] = screen.New(cfg.ScreensFor(t.Name))
		for j := range t.Overrides {
			label := t.Overrides[j].Prompt
			in.shapes[label] = shape{&t.Overrides[j], t.Name, catalog.Candidates(sources, cfg.Gateway.Separator, label)}
		}
	}
	return in
}

// taken is what the intake makes of one upstream's list.
type taken struct {
	prompts []catalog.Prompt
	reports []catalog.Report
	// shaped are the prompt blocks that are for a prompt of the list.
	shaped map[string]bool
}

// take reads one upstream's definitions. What cannot be read or may not be listed is left out and reported.
func (in *intake) take(source *catalog.Source, definitions []jsontext.Value) taken {
	t := taken{prompts: make([]catalog.Prompt, 0, len(definitions)), shaped: map[string]bool{}}
	for i, definition := range definitions {
		prompt, err := catalog.ParsePrompt(definition)
		if err != nil {
			t.reports = append(t.reports, unreadable(source, i, err))
			continue
		}
		t.shaped[in.shapeOf(source, &prompt).label()] = true
		if in.admit(source, &prompt, &t.reports) {
			t.prompts = append(t.prompts, prompt)
		}
	}
	return t
}

// admit reports whether a prompt is listed, and makes it what is listed.
func (in *intake) admit(source *catalog.Source, prompt *catalog.Prompt, reports *[]catalog.Report) bool {
	for _, step := range []func(*catalog.Source, *catalog.Prompt) (catalog.Prompt, []catalog.Report, bool){
		in.checkLock, in.shape, in.screen,
	} {
		next, noted, kept := step(source, prompt)
		*reports = append(*reports, noted...)
		if !kept {
			return false
		}
		*prompt = next
	}
	return true
}

// shape applies the prompt block.
func (in *intake) shape(source *catalog.Source, prompt *catalog.Prompt) (catalog.Prompt, []catalog.Report, bool) {
	shape := in.shapeOf(source, prompt)
	if shape.Override == nil {
		return *prompt, nil, true
	}
	shaped, err := prompt.Shaped(shape.change())
	if err != nil {
		return *prompt, []catalog.Report{in.about(catalog.Misfit, err.Error(), source, prompt,
			"does not fit its prompt block (%s), so it is left out: %v; correct the block", shape.Place, err)}, false
	}
	return shaped, nil, true
}

// screen holds a definition, as clients are to see it, against the screen blocks.
func (in *intake) screen(source *catalog.Source, prompt *catalog.Prompt) (catalog.Prompt, []catalog.Report, bool) {
	outcome := in.screens[source.Team].Definition(prompt.Definition)
	if f := outcome.Rejected; f != nil {
		return *prompt, []catalog.Report{in.about(catalog.Screened, f.String(), source, prompt,
			"is left out: its definition has %s, %s; correct it there", f, f.Block.Place)}, false
	}
	if len(outcome.Noted) == 0 {
		return *prompt, nil, true
	}
	first := outcome.Noted[0]
	reports := []catalog.Report{in.about(catalog.Screened, first.String(), source, prompt,
		"has %d findings in its definition, the first is %s, %s (action = %q)", len(outcome.Noted), first, first.Block.Place, first.Block.Action)}
	screened, err := prompt.With(outcome.JSON)
	if err != nil {
		return *prompt, reports, false // cannot be: texts stay texts
	}
	return screened, reports, true
}

// shapeOf returns the prompt block for a prompt; the zero value where there is none.
func (in *intake) shapeOf(source *catalog.Source, prompt *catalog.Prompt) shape {
	if len(in.shapes) == 0 {
		return shape{}
	}
	if s := in.shapes[in.exposed(source, prompt.Name)]; s.team == source.Team {
		return s
	}
	return shape{}
}

func (s shape) label() string {
	if s.Override == nil {
		return ""
	}
	return s.Prompt
}

// change is the block as the catalog knows it.
func (s shape) change() *catalog.Shape {
	supplies := func(values []config.ArgumentOverride) (list []catalog.Supply) {
		for _, v := range values {
			list = append(list, catalog.Supply(v))
		}
		return list
	}
	return &catalog.Shape{
		Name: s.Name, Title: s.Title, Description: s.Description,
		Supplied: catalog.Supplied{Fixed: supplies(s.Fixed), Defaults: supplies(s.Defaults)},
	}
}

// unmatched reports the prompt blocks for which no upstream offers a prompt, once each that could has been listed. What
// was taken is by upstream.
func (in *intake) unmatched(all map[string]taken, listed func(upstream string) bool) (reports []catalog.Report) {
	for _, label := range slices.Sorted(maps.Keys(in.shapes)) {
		s := in.shapes[label]
		may := func(c catalog.Candidate) bool {
			return !listed(c.Source.Upstream) || all[c.Source.Upstream].shaped[label]
		}
		if len(s.origins) == 0 || slices.ContainsFunc(s.origins, may) {
			continue
		}
		first := s.origins[0]
		reports = append(reports, catalog.Report{
			Kind: catalog.Unmatched, Name: label,
			Owners: []catalog.Owner{{Upstream: first.Source.Upstream, Name: first.Own, Place: first.Source.Place}},
			Text: fmt.Sprintf("the prompt block %s (%s) has no effect: upstream %q (%s) offers no such prompt; correct or remove it",
				wire.Quote(label), s.Place, first.Source.Upstream, first.Source.Place),
		})
	}
	return reports
}

func unreadable(source *catalog.Source, i int, err error) catalog.Report {
	return catalog.Report{
		Kind: catalog.Unreadable, Name: fmt.Sprintf("%s[%d]", source.Upstream, i),
		Owners: []catalog.Owner{{Upstream: source.Upstream, Place: source.Place}},
		Text: fmt.Sprintf("upstream %q (%s) lists what is no prompt, so it is left out; correct it there: %v",
			source.Upstream, source.Place, err),
	}
}

// exposed is what clients would call a prompt if no prompt block said otherwise.
func (in *intake) exposed(source *catalog.Source, own string) string {
	return catalog.ExposedName(source.Prefix, in.cfg.Gateway.Separator, own)
}

// about is a report of a prompt that is there and of what the configuration has to say to it. Another definition makes
// another finding.
func (in *intake) about(
	kind catalog.Kind, finding string, source *catalog.Source, prompt *catalog.Prompt, format string, args ...any,
) catalog.Report {
	name := in.exposed(source, prompt.Name)
	return catalog.Report{
		Kind: kind, Name: name,
		Owners:  []catalog.Owner{{Upstream: source.Upstream, Name: prompt.Name, Place: source.Place}},
		Finding: fmt.Sprintf("%x %s", prompt.Hash, finding),
		Text: fmt.Sprintf("prompt %s of upstream %q (%s) ", wire.Quote(name), source.Upstream, source.Place) +
			fmt.Sprintf(format, args...),
	}
}

// checkLock reports a definition that is not the approved one, and whether it is listed all the same.
func (in *intake) checkLock(source *catalog.Source, prompt *catalog.Prompt) (_ catalog.Prompt, drift []catalog.Report, kept bool) {
	lock := in.cfg.LockFor(source.Team)
	if lock.Mode == config.LockOff {
		return *prompt, nil, true
	}
	approved, known := in.cfg.Lock.Find(in.exposed(source, prompt.Name), source.Upstream)
	if known && approved.SHA256 == prompt.Hash {
		return *prompt, nil, true
	}
	problem, outcome := "is not in "+config.LockFile, "it is left out"
	if known {
		problem = "has another definition than in " + config.LockFile
	}
	if lock.Mode == config.LockWarn {
		outcome = "it is listed all the same"
	}
	return *prompt, []catalog.Report{in.about(catalog.Drift, problem, source, prompt,
		"%s: %s (lock = %q at %s); look at it with promptweir lock --diff, and approve it with promptweir lock",
		problem, outcome, lock.Mode, lock.Place)}, lock.Mode != config.LockEnforce
}

// Lock returns the definitions that the upstreams list now, or listed last, for a lock file that approves them.
// Whatever the present lock file leaves out is in it.
func (g *Gateway) Lock() config.Lock {
	e := g.edition.Load()
	seen := map[[2]string]bool{}
	var prompts []config.LockedPrompt
	for i, source := range e.sources() {
		for _, definition := range e.definitions(i, e.states[i]) {
			prompt, err := catalog.ParsePrompt(definition)
			if err != nil {
				continue // reported, and never listed
			}
			name := e.intake.exposed(&source, prompt.Name)
			locked, err := config.NewLockedPrompt(name, source.Upstream, prompt.Nameless())
			if key := [2]string{name, source.Upstream}; err == nil && !seen[key] { // of a duplicate, the first counts
				seen[key] = true
				prompts = append(prompts, locked)
			}
		}
	}
	return config.NewLock(prompts)
}
