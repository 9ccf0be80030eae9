package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/promptweir/promptweir/cmd/promptweir/internal/serving"
	"github.com/promptweir/promptweir/cmd/promptweir/internal/terminal"
	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/config/clientfile"
	"github.com/promptweir/promptweir/gateway/inspect"
	"github.com/promptweir/promptweir/gateway/snapshot"
)

// defaultTryPort is the port of the endpoint, if it is free. The admin listener has the next port.
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
			a.config = "try" // a name for the log, not a file
			options, flush, err := a.servingOptions(func(at serving.Addresses) string {
				return nextSteps(at, clientLine(at.Endpoint), "a prompt's file")
			})
			if err != nil {
				return err
			}
			defer flush()
			if options.Loaded = cfg; options.Listening == nil { // without a terminal, print no link that signs in
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

// sayWhatIsServed prints the number of served prompts, and how many of the sources were listed.
func (a *app) sayWhatIsServed(s *snapshot.Snapshot) {
	all := len(s.States)
	a.warn("serving %s from %d of %s", terminal.Count(len(inspect.Entries(s, nil)), "prompt"), all-len(s.Unlisted()), terminal.Count(all, "source"))
}

// tryListeners returns the blocks gateway and admin, which listen on loopback: on port and the next port; if
// one of these is not free, on any free port instead.
func tryListeners(ctx context.Context, port int) (string, error) {
	if port < 0 || port >= 1<<16 {
		return "", &usageError{fmt.Sprintf("--port %d: use a number from 0 to 65535", port)}
	}
	freeAddress := func(port int) string {
		wanted := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", wanted)
		if err != nil {
			return "127.0.0.1:0"
		}
		// This is only a probe: serving binds the port again and reports a conflict.
		_ = l.Close()
		return wanted
	}
	next := port + min(port, 1) // 0 stays 0, which is any port; 65536 is never free
	// Serve both variants, because clients differ.
	const blocks = "gateway {\n listen = %q\n variants = [\"flat\", \"tools\"]\n}\nadmin {\n listen = %q\n}\n"
	return fmt.Sprintf(blocks, freeAddress(port), freeAddress(next)), nil
}

// addAll adds the paths and URLs of the command line. Without any, it adds the clients' folders in the
// working and the home folder, and .mcp.json.
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
		return &usageError{"found no .mcp.json, and no .claude/commands, .agents/skills or other folder of a client, " +
			"here or in the home folder; name a folder of Markdown files: promptweir try PATH"}
	}
	return nil
}

// add adds a path or a URL.
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
			"them, a client's file or a URL that begins with http:// or https://"}
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

// promptFolder is a folder with prompt files, which becomes an upstream.
type promptFolder struct {
	named, path string
	label       string
	patterns    []string
	// format is empty if the format of each file must be detected.
	format config.FileFormat
	// parts are the clients' folders of a project, each for the pattern with the same index. It is nil for
	// other folders.
	parts []projectFolder
}

// addFolder adds a folder of prompts or, for a project, its clients' folders. Without patterns, it chooses
// patterns by the folder's path and contents. The folder may be a link.
func (t *trial) addFolder(named string, patterns []string) error {
	path, err := filepath.Abs(named)
	if err != nil {
		return err
	}
	actual, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	commands := commandFolder(path)
	f := promptFolder{
		named: named, path: actual, label: clientfile.Label(filepath.Base(path)), patterns: patterns, format: commands.format,
	}
	switch {
	case len(patterns) > 0:
	case commands.folder != "":
		f.patterns = []string{strings.TrimPrefix(commands.files, "/")}
	default:
		project, client := clientRoot(path)
		if found, err := t.addProject(named, project, client); found || err != nil {
			return err
		}
		skills, _ := filepath.Glob(filepath.Join(actual, "*", "SKILL.md"))
		switch {
		case isKind(filepath.Join(actual, "SKILL.md"), 0):
			f.path, f.patterns = filepath.Dir(actual), []string{escapePattern(filepath.Base(actual)) + "/SKILL.md"}
		case len(skills) > 0:
			f.patterns = []string{"**/SKILL.md"}
		default:
			if f.patterns = pluginPatterns(actual); len(f.patterns) == 0 {
				f.patterns = []string{"**/*.md"}
			}
		}
	}
	// A configuration recognises Gemini commands by a folder "commands" in the pattern.
	if at := strings.LastIndex(filepath.ToSlash(actual)+"/", "/commands/"); at >= 0 && commands.format == config.FormatGemini {
		f.path, f.patterns = actual[:at], []string{escapePattern(filepath.ToSlash(actual[at+1:])) + "/" + f.patterns[0]}
	}
	t.folders = append(t.folders, f)
	return nil
}

// addProject adds the clients' folders in a project or, if client is set, only the folders below that client's
// folder. They become one upstream, except that folders that are links become separate upstreams. found reports
// whether there are such folders.
func (t *trial) addProject(named, project, client string) (found bool, err error) {
	if project, err = filepath.Abs(project); named == "" || err != nil {
		return false, err
	}
	actual, err := filepath.EvalSymlinks(project)
	if errors.Is(err, fs.ErrNotExist) { // for example, HOME may not exist
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var folders []promptFolder
	for _, p := range projectFiles {
		folder, err := filepath.EvalSymlinks(filepath.Join(project, filepath.FromSlash(p.folder)))
		if err != nil || !isKind(folder, fs.ModeDir) || client != "" && !strings.HasPrefix(p.folder, client+"/") {
			continue
		}
		f := promptFolder{named: named, path: actual, label: clientfile.Label(filepath.Base(filepath.Join(project, client)))}
		pattern := p.folder + p.files
		if folder != filepath.Join(actual, filepath.FromSlash(p.folder)) { // the client's folder is a link
			f.path, f.label, f.format = filepath.Dir(folder), p.client(), p.format
			pattern = escapePattern(filepath.Base(folder)) + p.files
		}
		folders = withPart(folders, f, p, pattern)
	}
	t.folders = append(t.folders, folders...)
	return len(folders) > 0, nil
}

// withPart adds a client's folder and its pattern to the element of folders with the path and label of f. If
// there is no such element, it adds f first.
func withPart(folders []promptFolder, f promptFolder, part projectFolder, pattern string) []promptFolder {
	at := slices.IndexFunc(folders, func(g promptFolder) bool { return g.path == f.path && g.label == f.label })
	if at < 0 {
		at, folders = len(folders), append(folders, f)
	}
	folders[at].parts, folders[at].patterns = append(folders[at].parts, part), append(folders[at].patterns, pattern)
	return folders
}

// projectFolder is a folder that a client reads in a project or in the home folder. files is the pattern of
// the client's files in folder.
type projectFolder struct {
	folder, files string
	format        config.FileFormat
}

// projectFiles contains the folders with commands, skills and prompt files of a project. Other Markdown files
// of a project are not prompts.
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

// pluginPatterns returns the patterns for the prompt files of a plugin or an extension, or nil if the folder
// has no manifest of a plugin or an extension.
func pluginPatterns(folder string) (patterns []string) {
	exists := func(name string) bool {
		_, err := os.Stat(filepath.Join(folder, name))
		return err == nil
	}
	if !slices.ContainsFunc([]string{".claude-plugin", ".cursor-plugin", "gemini-extension.json"}, exists) {
		return nil
	}
	if exists("commands") {
		patterns = append(patterns, "commands/**/*.md", "commands/**/*.toml")
	}
	if exists("skills") {
		patterns = append(patterns, "skills/*/SKILL.md")
	}
	return patterns
}

// client returns the name of the parent folder without its leading dot, which is the label of the upstream:
// opencode for .config/opencode/command.
func (p projectFolder) client() string {
	return strings.TrimPrefix(filepath.Base(filepath.Dir(p.folder)), ".")
}

// clientRoot splits a path such as PROJECT/.claude into the project and the client's folder. For other paths,
// client is empty.
func clientRoot(path string) (project, client string) {
	path = filepath.ToSlash(path)
	for _, p := range projectFiles {
		client := filepath.ToSlash(filepath.Dir(p.folder))
		if before, ok := strings.CutSuffix(path, "/"+client); ok {
			return before + "/", client
		}
	}
	return path, ""
}

// commandFolder returns the element of projectFiles whose folder a path is in, or the zero value if there is
// none. Folders of skills and of .prompt.md files do not count: these files are recognised by name.
func commandFolder(folder string) projectFolder {
	for _, p := range projectFiles {
		isKnownByName := strings.HasSuffix(p.files, "SKILL.md") || strings.HasSuffix(p.files, ".prompt.md")
		if strings.Contains(filepath.ToSlash(folder)+"/", "/"+p.folder+"/") && !isKnownByName {
			return p
		}
	}
	return projectFolder{}
}

func isGeminiCommand(path string) bool {
	path, err := filepath.Abs(path)
	return err == nil && filepath.Ext(path) == ".toml" && commandFolder(path).format == config.FormatGemini
}

// escapePattern returns a pattern that matches only path.
func escapePattern(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}
