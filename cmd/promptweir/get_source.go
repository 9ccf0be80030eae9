package main

import (
	"context"
	"errors"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/inspect"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/wire"
)

// promptList has prompts, and values for their arguments.
type promptList interface {
	// list returns the prompts, and the upstreams of which some may be missing; nothing if it fails.
	list(ctx context.Context) ([]description, []trouble)
	// complete returns values for the params of completion/complete; none if it fails.
	complete(ctx context.Context, params wire.Object) []string
}

// promptSource is where get has its prompt from.
type promptSource interface {
	promptList
	// get returns the result of prompts/get. What the server asks for is declined.
	get(ctx context.Context, params wire.Object) (jsontext.Value, error)
	// readSkill returns the result of resources/read for a file of a skill.
	readSkill(ctx context.Context, name, file string) (jsontext.Value, error)
}

// trouble is a sentence about an upstream.
type trouble struct {
	upstream, text string
	// isFile means that single files are broken, and the list is complete without them.
	isFile bool
}

// snapshotSource has what is known of a configuration. The principal is nil for all prompts.
type snapshotSource struct {
	snapshot  *snapshot.Snapshot
	principal *policy.Principal
}

func (s snapshotSource) list(context.Context) (prompts []description, troubles []trouble) {
	for _, entry := range inspect.Entries(s.snapshot, s.principal) {
		if entry.Skill == nil { // which cannot be got
			prompts = append(prompts, describe(listedPrompt{definition: entry.JSON}))
		}
	}
	for _, t := range s.snapshot.Troubles() {
		troubles = append(troubles, trouble{upstream: t.Upstream, text: t.String()})
	}
	return prompts, troubles
}

// complete completes the values of a prompt's argument in its file; none for other owners.
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

// gatewaySource are the upstreams of a configuration. The principal is nil for all prompts.
type gatewaySource struct {
	gateway   *gateway.Gateway
	principal *policy.Principal
}

func (s gatewaySource) list(ctx context.Context) ([]description, []trouble) {
	return snapshotSource{s.gateway.Snapshot(), s.principal}.list(ctx)
}

func (s gatewaySource) complete(ctx context.Context, params wire.Object) []string {
	result, _ := s.gateway.Call(ctx, s.principal, wire.Complete, params) // no values of a failure
	return completionValues(result)
}

func (s gatewaySource) get(ctx context.Context, params wire.Object) (jsontext.Value, error) {
	got, err := s.gateway.Call(ctx, s.principal, wire.PromptsGet, params)
	return got, explained(s.gateway.Snapshot(), err)
}

// sessionSource is a server at --url.
type sessionSource struct {
	session *client.Session
	// listed is what the first list said; nil before it.
	listed *listing
}

func (s *sessionSource) list(ctx context.Context) (prompts []description, troubles []trouble) {
	if s.listed == nil {
		l, _ := listSession(ctx, s.session) // nothing of a failure
		s.listed = &l
	}
	for _, prompt := range s.listed.prompts {
		prompts = append(prompts, describe(prompt))
	}
	return prompts, troublesIn(s.listed.partial)
}

func (s *sessionSource) complete(ctx context.Context, params wire.Object) []string {
	// no values of a failure
	result, _ := s.session.Call(ctx, &client.Request{Method: wire.Complete, Params: params}, nil)
	return completionValues(result.JSON)
}

// errInputRequired is about a get that needs what nobody is asked for.
var errInputRequired = errors.New("the server requires input: get the prompt with a client that can ask you")

func (s *sessionSource) get(ctx context.Context, params wire.Object) (jsontext.Value, error) {
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
