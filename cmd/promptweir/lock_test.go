package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A lock approves one definition for all replicas, so that the command has to say which one.
func TestLock_SaysWhereReplicasDiffer(t *testing.T) {
	var urls []string
	for _, title := range []string{"first", "second"} {
		server := mcp.NewServer(&mcp.Implementation{Name: "replica", Version: "1"}, nil)
		server.AddPrompt(&mcp.Prompt{Name: "same"}, say("Same"))
		server.AddPrompt(&mcp.Prompt{Name: "other", Title: title}, say("Other"))
		urls = append(urls, serveOverHTTP(t, server))
	}
	folder := configure(t, map[string]string{"team.hcl": fmt.Sprintf(`
team "greeters" {
  upstream "web" { urls = [%q, %q] }
}`, urls[0], urls[1])})
	out, problems, code := runHere(t, "lock", "--live", "--diff", "--config", folder)
	want := "promptweir: the replicas of web define these prompts differently, and the lock approves the first replica's definitions: other\n"
	if code != exitDone || problems != want || !strings.Contains(out, `"first"`) || strings.Contains(out, `"second"`) {
		t.Errorf("exit code %d, printed %s\nand to stderr %s\nwant %s", code, out, problems, want)
	}
}
