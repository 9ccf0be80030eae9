package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/promptweir/promptweir/config/internal/hclread"
	"github.com/promptweir/promptweir/config/safefile"
)

// allowed contains the grants of all teams. The zero value is a configuration without allow blocks:
// every team may use everything.
type allowed struct {
	root string
	// grants maps each team to its grants. A nil map or a nil entry grants everything. A missing
	// entry grants nothing.
	grants map[string]*grants
	// reserved contains the variables and files of the gateway's keys. No grant covers them, because a
	// key can forge every token of the gateway.
	reserved hclread.References
	// restrictsPrefixes is true if some allow block grants prefixes, so teams may use only granted
	// prefixes.
	restrictsPrefixes bool
}

// summaryRefused is the summary of errors about the use of something without a grant.
const summaryRefused = "Not allowed for this team"

// grants contains the rights of one team's file, from its allow block. A nil *grants allows everything.
type grants struct {
	team string
	// patterns maps each attribute to its patterns. The patterns of prefixes restrict the names of
	// the team's prompts, and bare allows names without a prefix. Both take effect once some allow
	// block grants prefixes.
	patterns          map[string][]Pattern
	bare              bool
	restrictsPrefixes bool
	// ceilings maps the names of the upstreams' limits to their ceilings. It also contains max_files,
	// which replaces the gateway's max_files unless it is 0.
	ceilings map[string]int

	root     string // the folder to which patterns are relative
	reserved hclread.References
}

func (g *grants) table() []hclread.Attribute {
	parsePrefix := func(s string) (Pattern, error) {
		if s == "" {
			g.bare = true
			return Pattern{}, nil // matches nothing
		}
		return parsePattern(s)
	}
	parseHost := func(s string) (Pattern, error) { return parsePattern(strings.ToLower(s)) }
	return []hclread.Attribute{
		hclread.Plain("env", g.list("env", parsePattern), "Patterns of variables for `env()`."),
		hclread.Plain("files", g.list("files", parsePattern),
			"Patterns of files, for `file()`, attributes that name a file, and [prompts from files](#prompts-from-files): relative to the `--config` folder, or absolute outside it. A link's target "+
				"must match, too."),
		hclread.Plain("commands", g.list("commands", parsePattern), "Patterns of programs, the first element of `command`."),
		hclread.Plain("dirs", g.list("dirs", parsePattern),
			"Patterns of folders for `dir`, as for `files`, including their subfolders. The folder of the team's file needs no grant."),
		hclread.Plain("hosts", g.list("hosts", parseHost), "Patterns of hosts for `url` and `token_url`."),
		hclread.Plain("audiences", g.list("audiences", parsePattern), "Patterns of audiences for `assertion`, other than the server's URL."),
		hclread.Plain("prefixes", g.list("prefixes", parsePrefix),
			"Patterns of prefixes; `\"\"` grants names without one. Once any block sets it, teams use only granted prefixes, in a `prompt` block's `name` too."),
		hclread.Plain("max_message", g.ceiling("max_message"), "Ceiling for its upstreams."),
		hclread.Plain("max_prompts", g.ceiling("max_prompts"), "Ceiling for its upstreams."),
		hclread.Plain("concurrency", g.ceiling("concurrency"), "Ceiling for its upstreams."),
		hclread.Plain("max_files", g.ceiling("max_files"), "Instead of the gateway's `max_files`."),
	}
}

// list returns the field of an attribute that contains patterns.
func (g *grants) list(name string, parse func(string) (Pattern, error)) hclread.Field {
	// A list with an error grants everything for the rest of this Load, which fails anyway.
	// Otherwise every use that the list was meant to grant would be reported, too.
	return hclread.Custom("list", nil, func(b *hclread.Block) {
		before := b.Reported()
		g.patterns[name] = hclread.List(b, name, parse)
		if b.Reported() > before {
			everything, _ := parsePattern("*")
			g.patterns[name] = []Pattern{everything}
		}
	})
}

// ceiling returns the field of a ceiling for a limit of the team's upstreams.
func (g *grants) ceiling(name string) hclread.Field {
	ceiling := g.ceilings[name]
	return hclread.Custom("number", &ceiling, func(b *hclread.Block) {
		before := b.Reported()
		hclread.Int(b, name, maxCount, &ceiling)
		if b.Reported() > before {
			ceiling = maxCount // as in list, an error grants everything
		}
		g.ceilings[name] = ceiling
	})
}

func decodeAllowed(r *hclread.Reader, declared teamNames, reserved hclread.References) allowed {
	blocks := r.Blocks("allow")
	var teams []string
	for _, file := range r.Files() {
		if !r.IsFolder() || !file.Declares("team") { // allow blocks in a team's file grant nothing
			teams = append(teams, file.Labels("allow")...)
		}
	}
	if len(blocks) == 0 && len(teams) == 0 {
		return allowed{}
	}
	restrictsPrefixes := slices.ContainsFunc(blocks, func(b *hclread.Block) bool { return b.Has("prefixes") })
	a := allowed{r.Root(), map[string]*grants{}, reserved, restrictsPrefixes}
	for _, b := range blocks {
		g := a.decode(b, declared)
		if a.grants[g.team] == nil { // a second block was reported as a duplicate
			a.grants[g.team] = g
		}
	}
	for _, team := range teams {
		if _, isDecoded := a.grants[team]; !isDecoded {
			a.grants[team] = nil // the allow block is in a broken file, so no refusal is certain
		}
	}
	return a
}

func (a allowed) decode(b *hclread.Block, declared teamNames) *grants {
	team := b.Label()
	if b.Labelled() {
		b.Unique("allow block of team", team, b.LabelRange())
		if err := declared.check(team); err != nil {
			// This is only a warning: the platform's file must stay valid when a team removes its file
			// or has not sent it yet.
			b.Warning(b.LabelRange(), "Unknown team", "%q %s The block grants nothing to anybody until a file declares the team.", team, hclread.Sentence(err))
		}
	}
	g := a.newGrants(team)
	b.Decode(g.table())
	return g
}

// newGrants returns the rights of a team without an allow block: no patterns, and the default
// limits.
func (a allowed) newGrants(team string) *grants {
	return &grants{
		team: team, root: a.root, reserved: a.reserved, restrictsPrefixes: a.restrictsPrefixes, patterns: map[string][]Pattern{},
		ceilings: map[string]int{
			"max_message": DefaultMaxMessage, "max_prompts": DefaultMaxPrompts, "concurrency": DefaultConcurrency, "max_files": 0,
		},
	}
}

// team returns the grants of a team, or nil if the team may use everything.
func (a allowed) team(name string) *grants {
	if a.grants == nil {
		return nil
	}
	if g, ok := a.grants[name]; ok {
		return g
	}
	return a.newGrants(name) // only other teams have allow blocks
}

// AllowEnv implements [hclread.Access].
func (g *grants) AllowEnv(name string) error {
	if g != nil && g.reserved.Env[name] { // no grant overrides this
		return errReserved(fmt.Sprintf("The environment variable %q", name))
	}
	return g.allow("environment variable", "env", hclread.Text{Value: name})
}

// allow checks a value against the patterns of an attribute. kind names the value in the error.
func (g *grants) allow(kind, attribute string, value hclread.Text) error {
	if g == nil || matchesAny(g.patterns[attribute], value.Value) {
		return nil
	}
	return g.refusal(kind, value.String(), attribute)
}

// AllowFile implements [hclread.Access].
func (g *grants) AllowFile(path string, written hclread.Text) error {
	if g == nil || g.matchesPath("files", g.root, path) {
		return nil
	}
	return g.refusal("file", written.String(), "files")
}

// AllowResolvedFile implements [hclread.Access].
func (g *grants) AllowResolvedFile(path string, written hclread.Text) error {
	if g == nil {
		return nil
	}
	// AllowFile cannot check this: a granted name may be a link to a reserved file.
	if g.reserved.Files[hclread.Absolute(path)] {
		return errReserved("The file " + written.String())
	}
	if g.matchesPath("files", withoutLinks(g.root), path) {
		return nil
	}
	return g.refusal("file", written.String(), "files")
}

// withoutLinks resolves the links in a path. It returns a path that does not exist unchanged.
func withoutLinks(path string) string {
	if actual, err := filepath.EvalSymlinks(path); err == nil {
		return actual
	}
	return path
}

// allowDir checks the working folder at path. The path needs no grant if it is inside folder, which
// contains the team's file. The error quotes written, the path in the block.
func (g *grants) allowDir(folder, path string, written hclread.Text) error {
	if g == nil || g.matchesDir(g.root, folder, path) {
		return nil
	}
	return g.refusal("folder", written.String(), "dirs")
}

// allowResolvedDir checks the folder to which the links of an allowed path lead.
func (g *grants) allowResolvedDir(folder, path string, written hclread.Text) error {
	if g == nil || g.matchesDir(withoutLinks(g.root), withoutLinks(folder), path) {
		return nil
	}
	return g.refusal("folder", written.String(), "dirs")
}

// HostGrant is the kind of grant by which a team may use a host. It decides whether DNS answers for the host
// are trusted.
type HostGrant int

// The kinds of grants.
const (
	AnyHost       HostGrant = iota // without allow blocks, a team may use every host
	HostByPattern                  // a pattern with a wildcard grants the host, so the team may have chosen the name
	HostByName                     // the exact name, which the platform team wrote, is granted
)

// hostGrant returns the kind of grant for an allowed host, which must be in lower case.
func (g *grants) hostGrant(host string) HostGrant {
	switch {
	case g == nil:
		return AnyHost
	case slices.ContainsFunc(g.patterns["hosts"], func(p Pattern) bool { return p.String() == host }):
		return HostByName
	}
	return HostByPattern
}

// allowPrefix checks a prefix of prompt names. The prefix "" stands for names without a prefix.
func (g *grants) allowPrefix(prefix string) error {
	switch {
	case g == nil || !g.restrictsPrefixes || prefix == "" && g.bare || prefix != "" && matchesAny(g.patterns["prefixes"], prefix):
		return nil
	case prefix == "":
		return &hclread.DiagnosticError{
			Summary: summaryRefused,
			Detail: fmt.Sprintf("Team %q may not have names without a prefix; the platform "+
				"team can add \"\" to prefixes in allow %q.", g.team, g.team),
		}
	}
	return g.refusal("prefix", fmt.Sprintf("%q", prefix), "prefixes")
}

// count returns the field of an attribute on which the memory of the gateway depends. Its ceiling keeps one team from
// exhausting the memory that all teams share.
func (g *grants) count(name string, dst *int) hclread.Field {
	return hclread.Custom("number", dst, func(b *hclread.Block) {
		ceiling := maxCount
		if g != nil {
			ceiling = g.ceilings[name]
		}
		*dst = min(*dst, ceiling) // a lowered ceiling also lowers the default
		hclread.Int(b, name, maxCount, dst)
		if *dst > ceiling {
			b.Error(b.ValueRange(name), summaryRefused, "Team %q may set %s to at most %d; "+
				"the platform team can raise that with %s in allow %q.", g.team, name, ceiling, name, g.team)
		}
	})
}

func (g *grants) checkVariable(name, value string) error {
	// A team may choose the arguments of a granted command. Some variables would let it run any other program
	// instead, so they are refused.
	if g != nil && choosesCode(name) {
		return errors.New("can change which code a command runs, so no team may set it once allow blocks exist; " +
			"remove it, or ask the platform team to allow a script that sets it")
	}
	return checkVariable(name, value)
}

func (g *grants) refusal(kind, name, attribute string) error {
	return &hclread.DiagnosticError{
		Summary: summaryRefused,
		Detail: fmt.Sprintf("Team %q may not use the %s %s; the platform team can add it to %s "+
			"in allow %q.", g.team, kind, name, attribute, g.team),
	}
}

func errReserved(subject string) error {
	return &hclread.DiagnosticError{
		Summary: "Reserved for the gateway",
		Detail: subject + " holds a key of the gateway. With it, anyone could forge " +
			"sessions, cursors or assertions, so no team may use it.",
	}
}

// matchesDir reports whether a folder is below the folder of the team's file, or in a folder that
// matches a pattern.
func (g *grants) matchesDir(root, folder, path string) bool {
	path = hclread.Absolute(path)
	if safefile.IsBeneath(hclread.Absolute(folder), path) {
		return true
	}
	for ; !g.matchesPath("dirs", root, path); path = filepath.Dir(path) {
		if path == filepath.Dir(path) {
			return false
		}
	}
	return true
}

func (g *grants) matchesPath(attribute, root, path string) bool {
	// A path outside of root matches only patterns that start with a slash, so neither ".." nor "*" leads out.
	path = hclread.Absolute(path)
	if relative, err := filepath.Rel(hclread.Absolute(root), path); err == nil && filepath.IsLocal(relative) {
		return matchesAny(g.patterns[attribute], WithoutMounts(relative))
	}
	return slices.ContainsFunc(g.patterns[attribute], func(p Pattern) bool {
		return filepath.IsAbs(p.String()) && p.Match(WithoutMounts(path))
	})
}

var mountVersion = hclread.Lazily(`^\.\.[0-9]{4}(_[0-9]{2}){5}\.[0-9]+$`)

// WithoutMounts returns a path with slashes and without the folders that Kubernetes adds to mounted files:
// secrets/..data/token becomes secrets/token. If the --config folder is itself a mount, ..data/token becomes
// token.
func WithoutMounts(path string) string {
	return strings.Join(slices.DeleteFunc(strings.Split(filepath.ToSlash(path), "/"), isMountFolder), "/")
}

// isMountFolder reports whether Kubernetes added a folder: the link ..data, or its target, whose name is a time.
func isMountFolder(folder string) bool {
	return folder == "..data" || mountVersion().MatchString(folder)
}

func matchesAny(patterns []Pattern, name string) bool {
	return slices.ContainsFunc(patterns, func(p Pattern) bool { return p.Match(name) })
}

// choosesCode reports whether a variable makes common loaders, shells, runtimes or launchers load programs,
// libraries, options or configuration. Case is ignored, as on Windows and in npm.
func choosesCode(name string) bool {
	name = strings.ToUpper(name)
	begins := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
	return slices.ContainsFunc([]string{
		"LD_", "DYLD_", "BASH_", "NPM_CONFIG_", "PNPM_CONFIG_", "YARN_", "BUN_", "DENO_", "TS_NODE_", "UV_", "PIP_", "PIPX_",
		"BUNDLE_", "LUA_", "CORECLR_", "COR_", "OPENSSL_", "GIT_SSH", "GIT_CONFIG",
	}, begins) || slices.Contains([]string{
		"PATH", "PATHEXT", "COMSPEC", "SHELL", "HOME", "USERPROFILE", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "GCONV_PATH",
		"ENV", "IFS", "PS4", "SHELLOPTS", "BASHOPTS", "PROMPT_COMMAND", "ZDOTDIR", "FPATH", "PSMODULEPATH", "MAKEFLAGS",
		"EDITOR", "VISUAL", "PAGER", "LESSOPEN", "LESSCLOSE", "BROWSER", "SSH_ASKPASS", "SUDO_ASKPASS",
		"NODE_OPTIONS", "NODE_PATH",
		"PYTHONPATH", "PYTHONSTARTUP", "PYTHONHOME", "PYTHONUSERBASE", "PYTHONBREAKPOINT", "PYTHONWARNINGS",
		"PYTHONINSPECT", "PYTHONEXECUTABLE", "PYTHONPLATLIBDIR", "PYTHONPYCACHEPREFIX", "VIRTUAL_ENV",
		"PERL5OPT", "PERL5LIB", "PERL5DB", "PERLLIB", "RUBYOPT", "RUBYLIB", "GEM_HOME", "GEM_PATH",
		"JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "JAVA_OPTS", "JAVA_HOME", "CLASSPATH",
		"PHPRC", "PHP_INI_SCAN_DIR", "ERL_FLAGS", "ERL_AFLAGS", "ERL_ZFLAGS", "ELIXIR_ERL_OPTIONS",
		"DOTNET_STARTUP_HOOKS", "DOTNET_ADDITIONAL_DEPS", "DOTNET_SHARED_STORE", "DOTNET_ROOT",
		"DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG",
		"GOFLAGS", "GOPROXY", "GOTOOLCHAIN", "GOENV", "RUSTC", "RUSTC_WRAPPER", "RUSTFLAGS",
		"GIT_EXEC_PATH", "GIT_ASKPASS", "GIT_PROXY_COMMAND", "GIT_EXTERNAL_DIFF", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR",
		"GIT_PAGER", "GIT_TEMPLATE_DIR",
	}, name)
}
