package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/promptweir/promptweir/cmd/promptweir/internal/serving"
	"github.com/promptweir/promptweir/cmd/promptweir/internal/terminal"
	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/config/clientfile"
	"github.com/promptweir/promptweir/gateway/clientsetup"
	"github.com/promptweir/promptweir/gateway/inspect"
	"github.com/promptweir/promptweir/gateway/snapshot"
)

// defaultTryPort is the port of the endpoint where it is free; the console's is the next one.
const defaultTryPort = 8080

func tryCommand(a *app) *cobra.Command {
	var yes bool
	port := defaultTryPort
	command := &cobra.Command{
		Use: "try [PATH|URL]...", Short: "Serve prompts and servers as they are, without a configuration",
		Long: `Serve prompts and servers as they are, without a configuration, on loopback, until Ctrl-C.

PATH is a Markdown file, a folder of Markdown files, commands (.claude/commands) or skills, a plugin
or a client's configuration; URL is an MCP server's. By default, try serves the commands, skills and
.mcp.json of the working and the home folder. It writes nothing. It asks before it uses a server of
a client's configuration that is a command, gets environment variables, or is in a file that you did
not name.`,
		Example: "  promptweir try\n" +
			"  promptweir try prompts ~/.claude/commands\n" +
			"  promptweir try .mcp.json https://mcp.example.com/mcp --yes",
		ValidArgsFunction: aFile,
		RunE: func(cmd *cobra.Command, paths []string) error {
			listen, err := tryListeners(cmd.Context(), port)
			if err != nil {
				return err
			}
			t := &trial{app: a, yes: yes, gateway: listen}
			if err := t.addAll(paths); err != nil {
				return err
			}
			cfg, err := t.load(cmd.Context())
			if err != nil {
				return err
			}
			if !a.flags.Changed("log-level") {
				a.logLevel = "warn"
			}
			a.config = "try" // which names no file
			options, flush, err := a.servingOptions(func(at serving.Addresses) string {
				return nextSteps(at, clientLine(at.Endpoint), "a prompt's file")
			})
			if err != nil {
				return err
			}
			defer flush()
			if options.Loaded = cfg; options.Listening == nil { // without a terminal, nobody would sign in
				options.Listening = func(at serving.Addresses) { fmt.Fprintln(a.out, clientLine(at.Endpoint)) }
			}
			options.Tried = a.sayWhatIsServed
			for _, u := range cfg.Upstreams() {
				if len(u.Command) > 0 {
					a.warn("starting %s for %s", filepath.Base(u.Command[0]), u.Name) // arguments may be secret
				}
			}
			err = serving.HTTP(cmd.Context(), options, false)
			if err == nil {
				a.warn("stopped")
			}
			return err
		},
	}
	flags := command.Flags()
	flags.BoolVar(&yes, "yes", false, "use the servers of clients' configurations without asking")
	flags.IntVar(&port, "port", port, "serve clients at `PORT`, operators at the next; any free ones if it is 0 or taken")
	addEnvFile(command)
	return command
}

// sayWhatIsServed prints how many prompts there are, of how many sources.
func (a *app) sayWhatIsServed(s *snapshot.Snapshot) {
	listed := 0
	for _, state := range s.States {
		if state.Listed {
			listed++
		}
	}
	a.warn("serving %s from %d of %s", terminal.Count(len(inspect.Entries(s, nil)), "prompt"), listed,
		terminal.Count(len(s.States), "source"))
}

// tryListeners returns the blocks of a gateway on loopback.
func tryListeners(ctx context.Context, port int) (string, error) {
	if port < 0 || port >= 1<<16 {
		return "", &usageError{fmt.Sprintf("--port %d: use a number from 0 to 65535", port)}
	}
	var blocks strings.Builder
	for i, block := range []string{"gateway", "admin"} {
		// Both, for whichever client it is.
		more := map[string]string{"gateway": `variants = ["flat", "tools"]`}[block]

		address := "127.0.0.1:0"
		if port > 0 && port+i < 1<<16 {
			wanted := net.JoinHostPort("127.0.0.1", strconv.Itoa(port+i))
			if l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", wanted); err == nil {
				address = wanted
				// Only a look: serving binds it again, and says so if it was taken in between.
				_ = l.Close()
			}
		}
		fmt.Fprintf(&blocks, "%s {\n listen = %q\n %s\n}\n", block, address, more)
	}
	return blocks.String(), nil
}

// clientLine returns the command that points a client on this machine at an endpoint.
func clientLine(endpoint string) string {
	for _, c := range clientsetup.For(endpoint, "prompts", clientsetup.Open, clientsetup.Registration{}, config.VariantFlat, config.VariantTools) {
		program := map[string]string{"vscode": "code"}[c.Name]
		if program == "" {
			program = c.Name
		}
		if _, err := exec.LookPath(program); err != nil {
			continue
		}
		if strings.Contains(c.Text, "\n") {
			return fmt.Sprintf("%s client %s --url %s", os.Args[0], c.Name, endpoint)
		}
		return c.Text
	}
	return fmt.Sprintf("%s list --url %s", os.Args[0], endpoint)
}

// addAll adds what paths and URLs name or, without any, what is there.
func (t *trial) addAll(paths []string) error {
	for _, path := range paths {
		if err := t.add(path); err != nil {
			return err
		}
	}
	if len(paths) > 0 {
		return nil
	}
	home, _ := os.UserHomeDir()
	for _, folder := range []string{".", home} {
		if _, err := t.addProject(folder, folder, ""); err != nil {
			return err
		}
	}
	if isKind(".mcp.json", 0) {
		t.isFound = true
		return t.addClientFile(".mcp.json")
	}
	if len(t.folders) == 0 {
		return &usageError{"found no commands, skills or .mcp.json: looked for " + lookedFor() +
			" here and in the home folder; name a folder of Markdown files: promptweir try PATH"}
	}
	return nil
}

// add adds what a path or a URL names.
func (t *trial) add(path string) error {
	if strings.Contains(path, "://") {
		u, err := parseURL("try", path, "127.0.0.1:9090/mcp")
		if err != nil {
			return err
		}
		name := clientfile.Label(u.Hostname())
		if config.IsLoopback(u.Hostname()) {
			name = "server"
		}
		content, err := json.Marshal(map[string]any{"mcpServers": map[string]any{name: map[string]string{"url": path}}})
		t.files = append(t.files, clientfile.File{Name: u.Redacted(), Content: content})
		return err
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &usageError{path + ": no such file or folder; name Markdown files, a folder of " +
			"them, a client's file or a URL"}
	case err != nil:
		return err
	case info.IsDir():
		return t.addFolder(path, nil)
	case strings.HasSuffix(path, ".md") || isGeminiCommand(path):
		return t.addFolder(filepath.Dir(path), []string{escapePattern(filepath.Base(path))})
	}
	return t.addClientFile(path)
}

func (t *trial) addClientFile(path string) error {
	content, err := readFileAtMost(path, maxClientFile)
	if err != nil {
		return err
	}
	folder, err := filepath.Abs(filepath.Dir(path))
	t.files = append(t.files, clientfile.File{Name: path, Content: content, Folder: folder})
	return err
}

// promptFolder is a folder with files of prompts.
type promptFolder struct {
	named, path string
	label       string
	patterns    []string
	// format is empty if signs tell it.
	format config.FileFormat
	// parts are the clients' folders of a project, in the order of patterns.
	parts []projectFolder
}

// addFolder adds a folder of prompts. Without patterns, what is in it decides how they are read. What
// a person names may be a link.
func (t *trial) addFolder(named string, patterns []string) error {
	path, err := filepath.Abs(named)
	if err != nil {
		return err
	}
	actual, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	f := promptFolder{named: named, path: actual, label: clientfile.Label(filepath.Base(path)), patterns: patterns}
	skills, _ := filepath.Glob(filepath.Join(actual, "*", "SKILL.md"))
	if project, commands, below := commandFolder(filepath.ToSlash(path) + "/"); commands.folder != "" {
		files := strings.TrimPrefix(commands.files, "/")
		if len(patterns) > 0 {
			files = patterns[0]
		}
		if commands.isIn(project) {
			f.path, f.patterns = filepath.FromSlash(project), []string{commands.folder + "/" + escapePattern(below) + files}
		} else {
			f.path, f.patterns, f.format = filepath.Dir(actual), []string{escapePattern(filepath.Base(actual)) + "/" + files}, commands.format
		}
	} else if len(patterns) == 0 {
		if project, client := clientRoot(filepath.ToSlash(path)); client != "" {
			if found, err := t.addProject(named, project, client+"/"); found || err != nil {
				return err
			}
		} else if found, err := t.addProject(named, path, ""); found || err != nil {
			return err
		}
		switch {
		case isKind(filepath.Join(actual, "SKILL.md"), 0):
			f.path, f.patterns = filepath.Dir(actual), []string{escapePattern(filepath.Base(actual)) + "/SKILL.md"}
		case len(skills) > 0:
			f.patterns = []string{"**/SKILL.md"}
		default:
			if f.patterns = patternsIn(actual, pluginFiles); len(f.patterns) == 0 || !isPlugin(actual) {
				f.patterns = []string{"**/*.md"}
			}
		}
	}
	t.folders = append(t.folders, f)
	return nil
}

// addProject adds the folders that clients have in a project, and reports whether there are any: as
// one upstream, except for folders that are links. Their paths begin with a prefix.
func (t *trial) addProject(named, project, prefix string) (found bool, err error) {
	if project, err = filepath.Abs(project); named == "" || err != nil {
		return false, err
	}
	actual, err := filepath.EvalSymlinks(project)
	if errors.Is(err, fs.ErrNotExist) { // the home folder, for example
		return false, nil
	}
	if err != nil {
		return false, err
	}
	together := promptFolder{named: named, path: actual, label: clientfile.Label(filepath.Base(filepath.Join(project, prefix)))}
	var linked []promptFolder
	for _, p := range projectFiles {
		folder, err := filepath.EvalSymlinks(filepath.Join(project, filepath.FromSlash(p.folder)))
		switch {
		case err != nil || !strings.HasPrefix(p.folder, prefix) || !isKind(folder, fs.ModeDir):
			continue
		case p.isIn(project):
			together.parts, together.patterns = append(together.parts, p), append(together.patterns, p.folder+p.files)
			continue
		}
		pattern := escapePattern(filepath.Base(folder)) + p.files
		at := slices.IndexFunc(linked, func(f promptFolder) bool { return f.label == p.client() && f.path == filepath.Dir(folder) })
		if at >= 0 {
			linked[at].patterns = append(linked[at].patterns, pattern)
			continue
		}
		linked = append(linked, promptFolder{named: named, path: filepath.Dir(folder), label: p.client(), patterns: []string{pattern}, format: p.format})
	}
	if len(together.patterns) > 0 {
		linked = append(linked, together)
	}
	t.folders = append(t.folders, linked...)
	return len(linked) > 0, nil
}

// projectFolder is a folder that a client reads in a project or the home folder.
type projectFolder struct {
	folder, files string
	format        config.FileFormat
}

// projectFiles are the commands, skills and prompt files of a project. Beside them, its Markdown is
// no prompts.
var projectFiles = []projectFolder{ //nolint:gochecknoglobals // a constant table
	{".agents/skills", "/*/SKILL.md", config.FormatSkill},
	{".claude/commands", "/**/*.md", config.FormatClaude},
	{".claude/skills", "/*/SKILL.md", config.FormatClaude},
	{".codex/prompts", "/*.md", ""},
	{".config/opencode/command", "/**/*.md", config.FormatOpenCode},
	{".config/opencode/commands", "/**/*.md", config.FormatOpenCode},
	{".cursor/commands", "/**/*.md", config.FormatCursor},
	{".cursor/skills", "/*/SKILL.md", config.FormatSkill},
	{".gemini/commands", "/**/*.toml", config.FormatGemini},
	{".gemini/skills", "/*/SKILL.md", config.FormatSkill},
	{".github/prompts", "/**/*.prompt.md", config.FormatVSCode},
	{".github/skills", "/*/SKILL.md", config.FormatSkill},
	{".opencode/command", "/**/*.md", config.FormatOpenCode},
	{".opencode/commands", "/**/*.md", config.FormatOpenCode},
}

// pluginFiles are those of a plugin or an extension, which has a manifest.
var pluginFiles = []projectFolder{ //nolint:gochecknoglobals // a constant table
	{folder: "commands", files: "/**/*.md"}, {folder: "commands", files: "/**/*.toml"}, {folder: "skills", files: "/*/SKILL.md"},
}

func isPlugin(folder string) bool {
	return slices.ContainsFunc([]string{".claude-plugin", ".cursor-plugin", "gemini-extension.json"}, func(name string) bool {
		_, err := os.Stat(filepath.Join(folder, name))
		return err == nil
	})
}

// lookedFor returns the folders of projects in which prompts are found.
func lookedFor() string {
	var all []string
	for _, p := range projectFiles {
		all = append(all, p.folder)
	}
	return strings.Join(all, ", ")
}

// patternsIn returns the patterns of the folders that are there.
func patternsIn(folder string, of []projectFolder) (patterns []string) {
	for _, p := range of {
		if isKind(filepath.Join(folder, filepath.FromSlash(p.folder)), fs.ModeDir) {
			patterns = append(patterns, p.folder+p.files)
		}
	}
	return patterns
}

// client returns the name of the client that has the folder: opencode for .config/opencode/command.
func (p projectFolder) client() string {
	return strings.TrimPrefix(filepath.Base(filepath.Dir(p.folder)), ".")
}

// isIn reports whether the folder of a project is one itself, and no link is on its path.
func (p projectFolder) isIn(project string) bool {
	project, _ = filepath.EvalSymlinks(project)
	folder, err := filepath.EvalSymlinks(filepath.Join(project, filepath.FromSlash(p.folder)))
	return err == nil && folder == filepath.Join(project, filepath.FromSlash(p.folder))
}

// clientRoot returns the project and the folder of a client that a path is, such as .claude.
func clientRoot(path string) (project, client string) {
	for _, p := range projectFiles {
		client := filepath.ToSlash(filepath.Dir(p.folder))
		if before, ok := strings.CutSuffix(path, "/"+client); ok {
			return before + "/", client
		}
	}
	return "", ""
}

// commandFolder returns the project, and its folder of commands, that a path is in, and the path
// below that folder.
func commandFolder(path string) (project string, commands projectFolder, below string) {
	for _, p := range projectFiles {
		isKnownByName := strings.HasSuffix(p.files, "SKILL.md") || strings.HasSuffix(p.files, ".prompt.md")
		if before, after, ok := strings.Cut(path, "/"+p.folder+"/"); ok && !isKnownByName {
			return before + "/", p, after
		}
	}
	return "", projectFolder{}, ""
}

func isGeminiCommand(path string) bool {
	path, err := filepath.Abs(path)
	return err == nil && strings.HasSuffix(path, ".toml") && strings.Contains(filepath.ToSlash(path), "/.gemini/commands/")
}

// escapePattern returns a pattern that matches a path only.
func escapePattern(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}
