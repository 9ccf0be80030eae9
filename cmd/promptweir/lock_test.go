package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A lock approves one definition of a prompt, so the command reports which one.
func TestLock_SaysWhereDefinitionsDiffer(t *testing.T) {
	var urls []string
	for _, title := range []string{"first", "second"} {
		server := mcp.NewServer(&mcp.Implementation{Name: "server", Version: "1"}, nil)
		server.AddPrompt(&mcp.Prompt{Name: "same"}, say("Same"))
		server.AddPrompt(&mcp.Prompt{Name: "other", Title: title}, say("Other"))
		urls = append(urls, serveOverHTTP(t, server))
	}
	folder := configure(t, map[string]string{"team.hcl": fmt.Sprintf(`
team "greeters" {
  upstream "a" {
    url    = %q
    prefix = "web"
  }
  upstream "b" {
    url    = %q
    prefix = "web"
  }
}`, urls[0], urls[1])})
	out, problems, code := runHere(t, "lock", "--live", "--diff", "--config", folder)
	want := `"web.other" is defined differently by upstream "b"`
	if code != exitDone || strings.Count(problems, want) != 1 || strings.Count(problems, "\n") != 1 || !strings.Contains(out, `"first"`) || strings.Contains(out, `"second"`) {
		t.Errorf("exit code %d, printed %s\nand to stderr %s\nwant %s in one line", code, out, problems, want)
	}
}
