package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/promptweir/promptweir/cmd/promptweir/internal/terminal/terminaltest"
)

// A person types the start of a prompt's name, of an argument and of its value, with Tab after each, and the
// shell completes them from the server. The shells are real, and have just the script. bash is required; CI
// installs the others.
func TestCompletion_WorksInShells(t *testing.T) {
	const ready = "READY> " // the prompt
	dir := t.TempDir()
	startup := func(name, text string) (path string) {
		path = filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const bash, bashCompletion = "PS1='READY> '\nsource <(promptweir completion bash)\n", "/usr/share/bash-completion/bash_completion"
	startup(".zshrc", "PS1='READY> '\nautoload -U compinit\ncompinit -u -D\nsource <(promptweir completion zsh)\n")
	for _, shell := range []struct {
		name  string
		needs string // another file
		args  []string
	}{
		{name: "bash", args: []string{"--rcfile", startup("bashrc", bash), "-i"}},
		{name: "bash", needs: bashCompletion, args: []string{"--rcfile", startup("bashrc2", "source "+bashCompletion+"\n"+bash), "-i"}},
		{name: "zsh", args: []string{"-i"}},
		{name: "fish", args: []string{"--no-config", "-i", "-C", "function fish_prompt; echo 'READY> '; end; promptweir completion fish | source"}},
	} {
		t.Run(shell.name+strings.ReplaceAll(shell.needs, "/", " "), func(t *testing.T) {
			path, err := exec.LookPath(shell.name)
			if shell.needs != "" {
				_, err = os.Stat(shell.needs)
			}
			if err != nil && (shell.name != "bash" || shell.needs != "") {
				t.Skip(err)
			}
			url, got := completingServer(t)
			k := terminaltest.Open(t)
			k.Resize(t, 40, 160)
			command := exec.CommandContext(t.Context(), path, shell.args...)
			command.Stdin, command.Stdout, command.Stderr = k.Device, k.Device, k.Device
			command.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
			command.Env = append(os.Environ(), "PATH="+filepath.Dir(program(t, "promptweir"))+":"+os.Getenv("PATH"), "HOME="+dir, "ZDOTDIR="+dir, "TERM=xterm")
			if err := command.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() {
				_ = command.Process.Kill()
				_ = command.Wait()
			}()
			k.Type(t, ready, "promptweir get --url "+url+" rev\tlang\tg\t\r")
			select {
			case arguments := <-got:
				if diff := cmp.Diff(map[string]string{"language": "go"}, arguments); diff != "" {
					t.Errorf("the server got (-want +got):\n%s\n%s", diff, k.Text())
				}
			case <-time.After(timeout):
				t.Errorf("the server got nothing:\n%s", k.Text())
			}
		})
	}
}

// completingServer serves a prompt review, completes its argument language, and sends the arguments
// of each get.
func completingServer(t *testing.T) (url string, got <-chan map[string]string) {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "completing", Version: "1"}, &mcp.ServerOptions{
		CompletionHandler: func(_ context.Context, r *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
			var values []string
			if strings.HasPrefix("go", r.Params.Argument.Value) && r.Params.Argument.Name == "language" {
				values = append(values, "go")
			}
			return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: values}}, nil
		},
	})
	arguments := make(chan map[string]string, 1)
	server.AddPrompt(&mcp.Prompt{Name: "review", Title: "Review code", Arguments: []*mcp.PromptArgument{{Name: "code"}, {Name: "language"}}},
		func(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			arguments <- r.Params.Arguments
			return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{}}, nil
		})
	return serveOverHTTP(t, server), arguments
}
