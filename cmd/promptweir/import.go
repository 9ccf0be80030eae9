package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/promptweir/promptweir/cmd/promptweir/internal/terminal"
	"github.com/promptweir/promptweir/config/clientfile"
	"github.com/promptweir/promptweir/gateway"
)

// maxClientFile bounds a client's file, in bytes. Claude Code stores its servers together with much other
// data.
const maxClientFile = 64 << 20

func importCommand(a *app) *cobra.Command {
	var team, envFile string
	var live, yes bool
	command := &cobra.Command{
		Use:   "import [FILE]...",
		Short: "Turn a client's MCP servers into a team's file",
		Long: `Print a team's file with a client's MCP servers.

FILE is the configuration of Claude Desktop (claude_desktop_config.json), Claude Code (.mcp.json,
~/.claude.json), Cursor (.cursor/mcp.json), VS Code (.vscode/mcp.json, settings.json) or Windsurf
(mcp_config.json). Variables such as ${TOKEN}, all values of env and headers, and what looks like a
secret become env("TOKEN"); settings without an equivalent become comments. --env-file writes the
values to a file that serve, try, validate and list take. Without a FILE, import lists the files
and servers on this machine. It starts and contacts servers only with --live, to count their
prompts.`,
		Example: "  promptweir import\n" +
			"  promptweir import ~/.cursor/mcp.json >teams/mine.hcl\n" +
			"  promptweir import --team docs .vscode/mcp.json .mcp.json >teams/docs.hcl\n" +
			"  promptweir import --env-file docs.env .mcp.json >teams/docs.hcl\n" +
			"  promptweir import --live",
		ValidArgsFunction: aFile,
		RunE: func(cmd *cobra.Command, paths []string) error {
			switch {
			case envFile != "" && (live || len(paths) == 0):
				return &usageError{"--env-file writes the values of client files: name one, without --live"}
			case live:
				return importLive(cmd.Context(), a, paths, yes)
			case len(paths) == 0:
				return listClientFiles(a)
			}
			return importFiles(a, team, envFile, paths)
		},
	}
	flags := command.Flags()
	flags.StringVar(&team, "team", "imported", "`NAME` of the team")
	flags.StringVar(&envFile, "env-file", "", "write the values that become variables to a new `FILE`, which only you can read")
	flags.BoolVar(&live, "live", false, "start or contact the servers, and count their prompts")
	flags.BoolVar(&yes, "yes", false, "with --live: use the servers without asking")
	return command
}

func importFiles(a *app, team, envFile string, paths []string) error {
	t := &trial{app: a}
	if err := t.addClientFiles(paths); err != nil {
		return err
	}
	made, err := clientfile.Team(team, t.files, nil)
	if err == nil && envFile != "" {
		err = writeEnvFile(envFile, made.Secrets)
	}
	if err != nil {
		return fmt.Errorf("import: %w", err)
	}
	_, err = a.out.Write(made.Text)
	return err
}

// clientFiles returns the paths of the clients' files that exist on this machine. Some files may have no
// servers.
func clientFiles() (paths []string) {
	home, _ := os.UserHomeDir()
	settings, _ := os.UserConfigDir()
	for _, place := range [][]string{
		{".mcp.json"},
		{".cursor", "mcp.json"},
		{".vscode", "mcp.json"},
		{home, ".claude.json"},
		{settings, "Claude", "claude_desktop_config.json"},
		{home, ".cursor", "mcp.json"},
		{settings, "Code", "User", "mcp.json"},
		{settings, "Code", "User", "settings.json"},
		{home, ".codeium", "windsurf", "mcp_config.json"},
	} {
		if path := filepath.Join(place...); place[0] != "" && isKind(path, 0) {
			paths = append(paths, path)
		}
	}
	return paths
}

// addClientFiles adds the client files at paths or, without paths, those on this machine that have servers.
func (t *trial) addClientFiles(paths []string) error {
	isNamed := len(paths) > 0
	if !isNamed {
		paths = clientFiles()
	}
	for _, path := range paths {
		if err := t.addClientFile(path); err != nil {
			return err
		}
		// Most settings files of VS Code have no servers.
		if last := len(t.files) - 1; !isNamed && len(clientfile.Servers(t.files[last])) == 0 {
			t.files = t.files[:last]
		}
	}
	if len(t.files) == 0 {
		return errors.New("no client on this machine has a file with MCP servers; name a file: promptweir import FILE")
	}
	return nil
}

// listClientFiles prints the client files on this machine with the names of their servers.
func listClientFiles(a *app) error {
	t := &trial{app: a}
	if err := t.addClientFiles(nil); err != nil {
		return err
	}
	for _, f := range t.files {
		fmt.Fprintf(a.out, "%s: %s\n", f.Name, terminal.Line(strings.Join(clientfile.Servers(f), ", ")))
	}
	return nil
}

// importLive contacts the servers in client files, and prints the number of prompts of each.
func importLive(ctx context.Context, a *app, paths []string, yes bool) error {
	t := &trial{app: a, yes: yes, isFound: len(paths) == 0}
	if err := t.addClientFiles(paths); err != nil {
		return err
	}
	cfg, err := t.load(ctx)
	if err != nil {
		return err
	}
	return a.withGateway(ctx, cfg, func(g *gateway.Gateway) error {
		if err := a.awaitTried(ctx, g); err != nil {
			return err
		}
		s := g.Snapshot()
		with, all := 0, 0
		for i, state := range s.States {
			n, answer := len(s.Definitions(i)), "no answer"
			if state.Listed {
				answer = terminal.Count(n, "prompt")
			}
			if n > 0 {
				with, all = with+1, all+n
			}
			fmt.Fprintf(a.out, "%s: %s\n", s.Upstreams[i].Name, answer)
		}
		for _, trouble := range s.Troubles() {
			a.warn("%s", trouble)
		}
		return a.printf("%s, %d with prompts (%d)\n", terminal.Count(len(s.States), "server"), with, all)
	})
}

func readFileAtMost(path string, most int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return readAtMost(file, path, most)
}

// readAtMost reads the whole input. If it is larger than limit bytes, it returns an error that contains name.
func readAtMost(from io.Reader, name string, limit int64) ([]byte, error) {
	content, err := io.ReadAll(io.LimitReader(from, limit+1))
	if err == nil && int64(len(content)) > limit {
		err = fmt.Errorf("%s is larger than %d bytes", name, limit)
	}
	return content, err
}
