package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
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
		web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
		t.Cleanup(web.Close)
		urls = append(urls, web.URL)
	}
	folder := configure(t, map[string]string{"team.hcl": fmt.Sprintf(`
team "greeters" {
  upstream "web" { urls = [%q, %q] }
}`, urls[0], urls[1])})
	var out, problems strings.Builder
	if code := run(t.Context(), []string{"lock", "--live", "--diff", "--config", folder}, streams{out: &out, err: &problems}); code != exitDone {
		t.Errorf("exit code %d", code)
	}
	want := "promptweir: the replicas of web define these prompts differently, and the lock approves the first replica's: other\n"
	if problems.String() != want || !strings.Contains(out.String(), `"first"`) || strings.Contains(out.String(), `"second"`) {
		t.Errorf("printed %s\nand to stderr %s\nwant %s", &out, &problems, want)
	}
}
