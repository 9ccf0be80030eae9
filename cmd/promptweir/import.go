package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/promptweir/promptweir/config/clientfile"
)

// maxClientFile bounds a client's file, in bytes. Claude Code keeps much else in the one that has
// its servers.
const maxClientFile = 64 << 20

func importCommand(a *app) *cobra.Command {
	var team string
	command := &cobra.Command{
		Use:   "import FILE...",
		Short: "Make a team's file of the MCP servers in a client's configuration",
		Args:  wantArgs(1, noBound, "a client's file"),
		Long: `Print a team's file for the MCP servers that a client is configured with.

FILE is the configuration of Claude Desktop (claude_desktop_config.json), Claude Code (.mcp.json,
~/.claude.json), Cursor (.cursor/mcp.json), VS Code (.vscode/mcp.json, settings.json) or Windsurf
(mcp_config.json). Variables such as ${TOKEN} become env("TOKEN"), and so do secrets written out
in the file. What a team's file cannot say becomes a comment. Nothing is started or contacted.`,
		Example: "  promptweir import ~/.cursor/mcp.json >teams/mine.hcl\n" +
			"  promptweir import --team docs .vscode/mcp.json .mcp.json >teams/docs.hcl",
		RunE: func(_ *cobra.Command, paths []string) error { return importFiles(a, team, paths) },
	}
	command.Flags().StringVar(&team, "team", "imported", "`NAME` of the team")
	return command
}

func importFiles(a *app, team string, paths []string) error {
	files := make([]clientfile.File, len(paths))
	for i, path := range paths {
		content, err := readFileAtMost(path, maxClientFile)
		if err != nil {
			return err
		}
		files[i] = clientfile.File{Name: path, Content: content}
	}
	text, err := clientfile.Team(team, files)
	if err != nil {
		return fmt.Errorf("import: %w", err)
	}
	_, err = a.out.Write(text)
	return err
}

func readFileAtMost(path string, most int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return readAtMost(file, path, most)
}

// readAtMost reads what is not larger than a bound, in bytes.
func readAtMost(from io.Reader, name string, most int64) ([]byte, error) {
	content, err := io.ReadAll(io.LimitReader(from, most+1))
	if err == nil && int64(len(content)) > most {
		err = fmt.Errorf("%s is larger than %d bytes", name, most)
	}
	return content, err
}
