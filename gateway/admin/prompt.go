package admin

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/gateway/clients"
	"github.com/promptweir/promptweir/gateway/inspect"
	"github.com/promptweir/promptweir/gateway/screen"
	"github.com/promptweir/promptweir/upstream/files"
	"github.com/promptweir/promptweir/upstream/wire"
)

// Prompt is a prompt as operators see it.
type Prompt struct {
	Name, Title, Description, Team string
	// Listed is false if no prompt with the name is in the catalog.
	Listed    bool
	Arguments []PromptArgument
	// Definition is the JSON that clients get, see [wire.Indented].
	Definition string
	Owners     []PromptOwner
	// Answer explains who sees it or, for a given principal, whether that principal sees it.
	Answer *inspect.Answer
	// Admissions are the checks and changes of each upstream's definition on the way to the
	// catalog.
	Admissions []inspect.Admission
	// Reports describe findings that a person should fix.
	Reports []string
	// Losses are its losses in clients, if anyone sees it.
	Losses []clients.SharedLoss
}

// PromptArgument is an argument that a definition declares.
type PromptArgument struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Required    bool   `json:"required"`
}

// PromptOwner is an upstream that offers a prompt.
type PromptOwner struct {
	// Own is the upstream's own name of the prompt.
	Own string
	UpstreamHealth
}

// Prompt returns the information about an exposed name, for everybody or for one principal. For a
// prompt that does not exist, it explains why.
func (v *View) Prompt(name, as string) (*Prompt, error) {
	answer, err := v.Explain(name, as)
	if err != nil {
		return nil, err
	}
	s := v.Snapshot()
	p := &Prompt{Name: name, Answer: answer, Admissions: inspect.Admissions(s, name)}
	for _, report := range s.Reports() {
		if report.Name == name {
			p.Reports = append(p.Reports, report.Text)
		}
	}
	entry := s.Catalog.Lookup(name)
	if entry == nil {
		return p, nil
	}
	p.Listed, p.Team = true, entry.Team
	var declared struct {
		Title       string           `json:"title"`
		Description string           `json:"description"`
		Arguments   []PromptArgument `json:"arguments"`
	}
	_ = json.Unmarshal(entry.Facts(), &declared) // checked before, so it parses
	p.Title, p.Description, p.Arguments = declared.Title, declared.Description, declared.Arguments
	p.Definition = wire.Indented(entry.JSON)
	principal, err := v.Principal(as)
	p.Losses = clients.Join(inspect.ClientLosses(s, principal, name, clients.All()))
	for _, owner := range entry.Owners {
		shown := PromptOwner{Own: owner.Name, UpstreamHealth: UpstreamHealth{
			Name: owner.Upstream,
			Team: entry.Team, Place: owner.Place,
		}}
		if i, known := s.Index(owner.Upstream); known {
			shown.UpstreamHealth = upstreamHealth(s, i)
		}
		p.Owners = append(p.Owners, shown)
	}
	return p, err
}

// PromptFile is the file of a prompt, for its author.
type PromptFile struct {
	// Path is the file's path, Source its current text, and Unread the error of reading it.
	Path, Source string
	Unread       error
	// Problems were found in the file last. If one of them is [files.Broken], Result is from the
	// last good text.
	Problems []files.Problem
	// Result is the result of a get with the given arguments, samples for all other arguments, and
	// the effect of prompt blocks and screens. Failed is the error of the get.
	Result jsontext.Value
	Failed error
}

// File returns the file of a prompt; nil if it has none.
func (v *View) File(ctx context.Context, name string, arguments wire.Object) *PromptFile {
	s := v.Snapshot()
	entry := s.Catalog.Lookup(name)
	if entry == nil {
		return nil
	}
	owner := entry.Owners[0]
	list := s.Files(owner.Upstream)
	i, known := s.Index(owner.Upstream)
	if list == nil || !known || list.Prompt(owner.Name) == nil {
		return nil
	}
	prompt, f := list.Prompt(owner.Name), &PromptFile{}
	f.Path, f.Source, f.Unread = prompt.Source(s.Upstreams[i].Files)
	for _, problem := range s.States[i].FileProblems {
		if problem.Path == f.Path {
			f.Problems = append(f.Problems, problem)
		}
	}
	f.Result, f.Failed = prompt.Render(prompt.Sample(entry.Overrides.AddTo(arguments)))
	if f.Failed == nil {
		f.Result, f.Failed = screened(ctx, s.Screen(entry.Team), f.Result)
	}
	return f
}

// screened applies the screen blocks to a result, as a get does.
func screened(ctx context.Context, blocks *screen.Screen, result jsontext.Value) (jsontext.Value, error) {
	outcome, err := blocks.Result(ctx, result)
	if outcome.Rejected != nil {
		err = fmt.Errorf("a get fails: the result is rejected: %s", outcome.Rejected)
	}
	return outcome.JSON, err
}
