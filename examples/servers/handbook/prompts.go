package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// incidentOfTheDay is the prompt that comes and goes.
const incidentOfTheDay = "incident_of_the_day"

// newServer returns the server with the prompts that are always there.
func newServer() *mcp.Server {
	server := mcp.NewServer(
		&mcp.Implementation{Name: "handbook", Title: "Operations handbook", Version: "1.0.0"},
		&mcp.ServerOptions{
			Capabilities:      &mcp.ServerCapabilities{}, // no logging; prompts and completions follow from what is added
			CompletionHandler: complete,
		},
	)
	server.AddPrompt(&mcp.Prompt{
		Name:        "incident_report",
		Title:       "Write an incident report",
		Description: "Turn notes taken during an incident into a report without blame.",
		Arguments: []*mcp.PromptArgument{
			{Name: "notes", Title: "Notes", Description: "What was seen and done, in order.", Required: true},
			{Name: "severity", Title: "Severity", Description: "How bad it was: minor, major or critical."},
		},
	}, incidentReport)
	server.AddPrompt(&mcp.Prompt{
		Name:        "shift_handover",
		Title:       "Hand over a shift",
		Description: "Ask what the next person on call needs to know, and write it down.",
	}, shiftHandover)
	return server
}

func incidentReport(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
	notes, ok := req.Params.Arguments["notes"]
	if !ok {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: `prompt "incident_report" needs the argument "notes"`}
	}
	severity := req.Params.Arguments["severity"]
	if severity == "" {
		severity = "minor"
	}
	return ask("Incident report", fmt.Sprintf(
		"Write the report of a %s incident from these notes: what happened, whom it touched, why, and what will be done. Blame nobody.\n\n%s",
		severity, notes)), nil
}

func shiftHandover(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
	return ask("Shift handover",
		"Ask me, one question at a time, what the next person on call needs to know. Then write it down as a handover note."), nil
}

// complete suggests severities for incident_report, and nothing for other arguments.
func complete(_ context.Context, req *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
	values := []string{}
	if req.Params.Ref.Name == "incident_report" && req.Params.Argument.Name == "severity" {
		typed := strings.ToLower(req.Params.Argument.Value)
		values = slices.DeleteFunc([]string{"critical", "major", "minor"},
			func(severity string) bool { return !strings.HasPrefix(severity, typed) })
	}
	return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: values, Total: len(values)}}, nil
}

// keepChanging changes incidentOfTheDay at each tick until ctx ends. The SDK notifies every client of each change.
func keepChanging(ctx context.Context, logger *slog.Logger, server *mcp.Server, every time.Duration) {
	if every <= 0 {
		return
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for step := 0; ; step++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			logger.InfoContext(ctx, "prompts changed", "change", change(server, step))
		}
	}
}

// change takes one step of incidentOfTheDay and describes it. In three steps, the prompt appears, changes its description and
// disappears.
func change(server *mcp.Server, step int) string {
	incidents := []string{"the certificate that expired on a Sunday", "the disk that was full of logs about a full disk"}
	if step%3 == len(incidents) {
		server.RemovePrompts(incidentOfTheDay)
		return "removed " + incidentOfTheDay
	}
	incident := incidents[step%3]
	server.AddPrompt(&mcp.Prompt{
		Name:        incidentOfTheDay,
		Title:       "Incident of the day",
		Description: "Learn from " + incident + ".",
	}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return ask("Incident of the day", "Tell me the story of "+incident+", and ask what I would have done."), nil
	})
	return incidentOfTheDay + " is about " + incident
}

// ask returns a prompt with one message by the user.
func ask(description, text string) *mcp.GetPromptResult {
	return &mcp.GetPromptResult{
		Description: description,
		Messages:    []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: text}}},
	}
}
