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

// Prompt is all that operators are shown of a prompt.
type Prompt struct {
	Name, Title, Description, Team string
	// Listed is false where no prompt has the name, or none that was admitted to the catalog.
	Listed    bool
	Arguments []PromptArgument
	// Definition is the JSON that clients get, see [wire.Indented].
	Definition string
	Owners     []PromptOwner
	// Answer says who sees it or, if somebody is asked about, whether that principal does.
	Answer *inspect.Answer
	// Admissions say what each upstream's definition passed before the catalog.
	Admissions []inspect.Admission
	// Reports are sentences about it that somebody should act on.
	Reports []string
	// Losses are what clients lose of it, if it is seen.
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
	// Own is the upstream's own name for the prompt.
	Own string
	UpstreamHealth
}

// Prompt returns what is known about an exposed name, for everybody or as a principal is concerned.
// It returns something for each name: why there is no such prompt is worth knowing as well.
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
	_ = json.Unmarshal(entry.Facts(), &declared) // it was checked when it was admitted
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

// PromptFile is the file of a prompt, for somebody who edits it.
type PromptFile struct {
	// Path is that of the file, Source its text at this moment, and Unread why there is none.
	Path, Source string
	Unread       error
	// Problems are those that were found in it last. While one is [files.Broken], Result is that of
	// the last good text.
	Problems []files.Problem
	// Result is what a get returns with some arguments, and samples for the others, past prompt blocks and screens; Failed
	// why it fails.
	Result jsontext.Value
	Failed error
}

// File returns the file of a prompt; nil where it is in none.
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

// screened returns a result as a get passes it on.
func screened(ctx context.Context, blocks *screen.Screen, result jsontext.Value) (jsontext.Value, error) {
	outcome, err := blocks.Result(ctx, result)
	if outcome.Rejected != nil {
		err = fmt.Errorf("a get fails: the result is rejected: %s", outcome.Rejected)
	}
	return outcome.JSON, err
}
