package main

import (
	"context"
	"errors"

	"github.com/go-json-experiment/json/jsontext"
	"go.mau.fi/util/exslices"

	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/inspect"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/wire"
)

// promptList is the source of completions.
type promptList interface {
	// list returns the prompts, and the problems of upstreams whose prompts may be missing. On failure it
	// returns nothing.
	list(ctx context.Context) ([]description, []trouble)
	// complete returns the values of completion/complete for params, or nil on failure.
	complete(ctx context.Context, params wire.Object) []string
}

// promptSource is the source of get.
type promptSource interface {
	// list is the same as in promptList.
	list(ctx context.Context) ([]description, []trouble)
	// get returns the result of prompts/get. Requests that the server makes during the get are declined.
	get(ctx context.Context, params wire.Object) (jsontext.Value, error)
	// readSkill returns the result of resources/read for a file of a skill.
	readSkill(ctx context.Context, name, file string) (jsontext.Value, error)
}

// trouble is a problem of an upstream. text is a sentence about it.
type trouble struct {
	upstream, text string
	// isFile is true if some prompt files have errors. The list then has all other prompts of the upstream.
	isFile bool
	// files are the broken files, if the server lists them.
	files []brokenFile
}

// brokenFile is a prompt file with an error, as a gateway's list reports it. Place is the location of the
// error.
type brokenFile struct {
	Place  string `json:"place"`
	Prompt string `json:"prompt"`
}

// snapshotSource has the prompts of a snapshot. A nil principal sees all prompts.
type snapshotSource struct {
	snapshot  *snapshot.Snapshot
	principal *policy.Principal
	// If skills is true, list returns skills instead of prompts.
	skills bool
}

func (s snapshotSource) list(context.Context) (prompts []description, troubles []trouble) {
	for _, entry := range inspect.Entries(s.snapshot, s.principal) {
		if (entry.Skill != nil) == s.skills {
			prompts = append(prompts, describe(definitionOf(entry)))
		}
	}
	for _, t := range s.snapshot.Troubles() {
		troubles = append(troubles, trouble{upstream: t.Upstream, text: t.String()})
	}
	return prompts, troubles
}

// complete completes an argument of a prompt in a file. For prompts of servers it returns nothing, because it
// contacts no server.
func (s snapshotSource) complete(_ context.Context, params wire.Object) []string {
	name, _ := params.Object("ref").Text("name")
	argument, _ := params.Object("argument").Text("name")
	start, _ := params.Object("argument").Text("value")
	for _, entry := range inspect.Entries(s.snapshot, s.principal) {
		owner := entry.Owners[0]
		if prompt := s.snapshot.FilePrompt(owner.Upstream, owner.Name); entry.Name == name && prompt != nil {
			return completionValues(prompt.Complete(argument, start))
		}
	}
	return nil
}

// gatewaySource has the prompts of a running gateway. A nil principal sees all prompts.
type gatewaySource struct {
	gateway   *gateway.Gateway
	principal *policy.Principal
}

func (s gatewaySource) list(ctx context.Context) ([]description, []trouble) {
	return snapshotSource{s.gateway.Snapshot(), s.principal, false}.list(ctx)
}

func (s gatewaySource) get(ctx context.Context, params wire.Object) (jsontext.Value, error) {
	got, err := s.gateway.Call(ctx, s.principal, wire.PromptsGet, params)
	return got, explained(s.gateway.Snapshot(), err)
}

// sessionSource has the prompts of the server at --url.
type sessionSource struct{ session *client.Session }

func (s sessionSource) list(ctx context.Context) (prompts []description, troubles []trouble) {
	l, _ := listSession(ctx, s.session) // nothing on failure
	prompts = exslices.CastFunc(l.prompts, func(p listedPrompt) description { return describe(p.definition) })
	return prompts, troublesIn(l.partial)
}

func (s sessionSource) complete(ctx context.Context, params wire.Object) []string {
	// Ignore the error: the result then has no values.
	result, _ := s.session.Call(ctx, &client.Request{Method: wire.Complete, Params: params}, nil)
	return completionValues(result.JSON)
}

var errInputRequired = errors.New("the server requires input: get the prompt with a client that can ask you")

func (s sessionSource) get(ctx context.Context, params wire.Object) (jsontext.Value, error) {
	name, _ := params.Text("name")
	got, err := s.session.Call(ctx, &client.Request{Method: wire.PromptsGet, Name: name, Params: params}, nil)
	if err != nil {
		return nil, err
	}
	if kind, _ := wire.Members(got.JSON).Text("resultType"); kind == wire.ResultInputRequired {
		return nil, errInputRequired
	}
	return got.JSON, nil
}
