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

// Prompt is the content of the console's page about a prompt.
type Prompt struct {
	Name, Title, Description, Team string
	// Listed is true if the catalog contains a prompt with the name. Otherwise only Name, Answer,
	// Admissions and Reports are set.
	Listed    bool
	Arguments []PromptArgument
	// Definition is the JSON that clients get, formatted by [wire.Indented].
	Definition string
	Owners     []PromptOwner
	// Answer explains who sees the prompt, or whether one principal sees it.
	Answer *inspect.Answer
	// Admissions are the steps of each upstream's definition into the catalog.
	Admissions []inspect.Admission
	// Reports describe findings that a person should fix.
	Reports []string
	// Losses are the parts of the prompt that clients lose. It is empty for a prompt without readers.
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

// Prompt returns the information about an exposed name, even if there is no such prompt. If as is
// empty, the answer is about everybody.
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
	_ = json.Unmarshal(entry.Facts(), &declared) // no error: the catalog contains only valid definitions
	p.Title, p.Description, p.Arguments = declared.Title, declared.Description, declared.Arguments
	p.Definition = wire.Indented(entry.JSON)
	principal, err := v.Principal(as)
	p.Losses = clients.Join(inspect.ClientLosses(s, principal, name, clients.All()))
	for _, owner := range entry.Owners {
		i, _ := s.Index(owner.Upstream) // the catalog has only upstreams of the snapshot
		p.Owners = append(p.Owners, PromptOwner{owner.Name, upstreamHealth(s, i)})
	}
	return p, err
}

// PromptFile is the file of a prompt, for its author.
type PromptFile struct {
	Path string
	// Source is the current text of the file.
	Source string
	// Unread is the error if the file cannot be read.
	Unread error
	// Problems are the problems in the file. If one of them is [files.Broken], Result is of the last
	// good text.
	Problems []files.Problem
	// Result is the result of a get, after prompt block and screens.
	Result jsontext.Value
	// Failed is the error of the get.
	Failed error
}

// File returns the file of a prompt and the result of a get with the arguments. Missing arguments get
// sample values. File returns nil if the prompt is not from a file.
func (v *View) File(ctx context.Context, name string, arguments wire.Object) *PromptFile {
	s := v.Snapshot()
	entry := s.Catalog.Lookup(name)
	if entry == nil {
		return nil
	}
	owner := entry.Owners[0]
	list := s.Files(owner.Upstream)
	i, _ := s.Index(owner.Upstream)
	if list == nil || list.Prompt(owner.Name) == nil {
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

// screened returns a result after the screen blocks, or an error if they reject it.
func screened(ctx context.Context, blocks *screen.Screen, result jsontext.Value) (jsontext.Value, error) {
	outcome, err := blocks.Result(ctx, result)
	if outcome.Rejected != nil {
		err = fmt.Errorf("a get fails: the result is rejected: %s", outcome.Rejected)
	}
	return outcome.JSON, err
}
