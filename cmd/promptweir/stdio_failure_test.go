package main

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func TestStdio_ClientIsToldWhyItDoesNotStart(t *testing.T) {
	folder := configure(t, map[string]string{"guards.hcl": "hide \"drafts\" {\n  promps = [\"*.draft_*\"]\n}\n"})
	client := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"}, nil)
	command := exec.CommandContext(t.Context(), program(t, "promptweir"), "stdio", "--config", folder)
	session, err := client.Connect(t.Context(), &mcp.CommandTransport{Command: command}, nil)
	if err == nil {
		_ = session.Close()
	}
	if err == nil || !strings.Contains(err.Error(), `guards.hcl:2: Unknown attribute: hide.promps does not exist. Did you mean "prompts"?`) {
		t.Errorf("the client reads %v, want the first mistake", err)
	}
}
