package main

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/inspect"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/wire"
)

// promptSource is where get has its prompt from.
type promptSource interface {
	// describe returns what a prompt declares; false where that is not known.
	describe(ctx context.Context, name string) (description, bool)
	// complete returns values for the params of completion/complete; none if it fails.
	complete(ctx context.Context, params wire.Object) []string
	// get returns the result of prompts/get. Elicitations are answered by reply; if it is nil, they
	// are refused.
	get(
		ctx context.Context, name string, params wire.Object, reply gateway.Reply,
	) (jsontext.Value, error)
}

// gatewaySource are the upstreams of a configuration. The principal is nil for all prompts.
type gatewaySource struct {
	gateway   *gateway.Gateway
	principal *policy.Principal
}

func (s gatewaySource) describe(_ context.Context, name string) (description, bool) {
	for _, entry := range inspect.Entries(s.gateway.Snapshot(), s.principal) {
		if entry.Name == name {
			return describe(listedPrompt{definition: entry.JSON}), true
		}
	}
	return description{}, false
}

func (s gatewaySource) complete(ctx context.Context, params wire.Object) []string {
	result, _ := s.gateway.Complete(ctx, s.principal, params) // no values of a failure
	return completionValues(result)
}

func (s gatewaySource) get(ctx context.Context, _ string, params wire.Object, reply gateway.Reply) (jsontext.Value, error) {
	got, err := s.gateway.Get(ctx, s.principal, params, reply)
	return got, explained(s.gateway.Snapshot(), err)
}

// sessionSource is a server at --url.
type sessionSource struct {
	session *client.Session
	// reportPartial prints what the list of a gateway says of upstreams in trouble. It is called
	// once, with the first list.
	reportPartial func(partial jsontext.Value)
	isListed      bool
}

func (s *sessionSource) describe(ctx context.Context, name string) (description, bool) {
	for _, prompt := range s.list(ctx) {
		if d := describe(prompt); d.Name == name {
			return d, true
		}
	}
	return description{}, false
}

// list returns all prompts; none if it fails.
func (s *sessionSource) list(ctx context.Context) []listedPrompt {
	l, err := listSession(ctx, s.session)
	if err == nil && !s.isListed {
		s.isListed = true
		s.reportPartial(l.partial)
	}
	return l.prompts
}

func (s *sessionSource) complete(ctx context.Context, params wire.Object) []string {
	// no values of a failure
	result, _ := s.session.Call(ctx, &client.Request{Method: wire.Complete, Params: params}, nil)
	return completionValues(result.JSON)
}

// maxInputRounds bounds how often a server requires more input for one get.
const maxInputRounds = 16

// get also says what is partial, if it fails: a prompt may be missing because its server is. One
// that succeeds is not worth another request, which may be limited.
func (s *sessionSource) get(ctx context.Context, name string, params wire.Object, reply gateway.Reply) (jsontext.Value, error) {
	result, err := s.getWithReplies(ctx, name, params, reply)
	if err != nil && !s.isListed {
		s.list(ctx)
	}
	return result, err
}

// getWithReplies answers a server of the legacy era during the call. One of the modern era is
// called again with the replies (2026-07-28, Multi Round-Trip Requests).
func (s *sessionSource) getWithReplies(ctx context.Context, name string, params wire.Object, reply gateway.Reply) (jsontext.Value, error) {
	relay := &client.Relay{}
	if reply != nil {
		relay.Capabilities, relay.Reply = elicitable.Object().JSON(), reply
	}
	for range maxInputRounds {
		request := &client.Request{Method: wire.PromptsGet, Name: name, Params: params}
		got, err := s.session.Call(ctx, request, relay)
		if err != nil {
			return nil, err
		}
		result := wire.Members(got.JSON)
		if kind, _ := result.Text("resultType"); kind != wire.ResultInputRequired || reply == nil {
			return got.JSON, nil
		}
		if params, err = withReplies(ctx, params, result, reply); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("the server required input %d times, and still more", maxInputRounds)
}

// elicitable are the capabilities of a person at a terminal.
const elicitable = wire.Elicitation | wire.ElicitationForm | wire.ElicitationURL

// withReplies returns the params of the next call, with the replies to what the server requires and
// its state.
func withReplies(ctx context.Context, params, result wire.Object, reply gateway.Reply) (wire.Object, error) {
	var replies wire.Object
	for _, request := range result.Object("inputRequests") {
		object := wire.Members(request.Value)
		method, _ := object.Text("method")
		answer, err := reply(ctx, method, object.Get("params"))
		if err != nil {
			return nil, err
		}
		replies = append(replies, wire.Member{Name: request.Name, Value: answer})
	}
	params = params.Without(func(name string) bool { return name == "inputResponses" || name == "requestState" })
	if replies != nil {
		params = params.With("inputResponses", replies.JSON())
	}
	if state := result.Get("requestState"); state != nil {
		params = params.With("requestState", state)
	}
	return params, nil
}
