package config

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/promptweir/promptweir/config/internal/hclread"
	"github.com/promptweir/promptweir/config/regular"
)

// allowed holds what each team may use. The zero value is that of a configuration without allow
// blocks: there is one owner, who is trusted with everything.
type allowed struct {
	root string
	// grants is by team, nil for everything. A team that is not in it is granted nothing.
	grants map[string]*grants
	// reserved holds what the cursor keys are made of. A key can forge every token that the gateway
	// makes, so where allow blocks exist, no team gets at one.
	reserved hclread.Uses
	// prefixesCount means that some allow block grants prefixes, so that no team may use others.
	prefixesCount bool
}

// summaryRefused is that of what a team's file uses without a grant.
const summaryRefused = "Not allowed for this team"

// grants is what an allow block lets one team's file use. A nil *grants allows everything.
type grants struct {
	team string
	// patterns are by attribute. Those of prefixes are for the names that the team's prompts may
	// have, and bare allows names without one. They take effect once some allow block grants
	// prefixes.
	patterns      map[string][]Pattern
	bare          bool
	prefixesCount bool
	// most are the ceilings of attributes of the team's upstreams, and max_files, which takes the
	// place of the gateway's; 0 where the block has none.
	most map[string]int

	root     string // paths below it are compared relative to it
	reserved hclread.Uses
}

func allowSchema() hclread.Schema {
	return hclread.Schema{Plain: []string{
		"env", "files", "commands", "dirs", "hosts", "audiences", "prefixes", "max_message", "max_prompts", "concurrency", "max_files",
	}}
}

// decodeAllowed decodes all allow blocks.
func decodeAllowed(r *hclread.Reader, declared teamNames, reserved hclread.Uses) allowed {
	blocks, teams := r.Blocks("allow"), r.LabelsWithout("allow", "team") // a team's file grants nothing
	if len(blocks) == 0 && len(teams) == 0 {
		return allowed{}
	}
	grantsPrefixes := slices.ContainsFunc(blocks, func(b *hclread.Block) bool { return b.Has("prefixes") })
	a := allowed{r.Root(), map[string]*grants{}, reserved, grantsPrefixes}
	for _, b := range blocks {
		g := a.decode(b, declared)
		if a.grants[g.team] == nil { // a second block was reported as a duplicate
			a.grants[g.team] = g
		}
	}
	for _, team := range teams {
		if _, isDecoded := a.grants[team]; !isDecoded {
			a.grants[team] = nil // its block is in a broken file: nothing is known to be refused
		}
	}
	return a
}

// decode decodes one allow block.
func (a allowed) decode(b *hclread.Block, declared teamNames) *grants {
	team := b.Label()
	if b.Labelled() {
		b.Unique("allow block of team", team, b.LabelRange())
		if err := declared.check(team); err != nil {
			// Not an error of the platform's file: a team that removes its file, or has not sent it yet, must hold up nobody.
			b.Warning(b.LabelRange(), "Unknown team", "%q %s The block grants nothing to anybody until a file declares the team.", team, hclread.Sentence(err))
		}
	}
	g := a.newGrants(team)
	for _, name := range []string{"env", "files", "commands", "dirs", "audiences"} {
		g.patterns[name] = granted(b, name, parsePattern)
	}
	g.patterns["hosts"] = granted(b, "hosts", func(s string) (Pattern, error) { return parsePattern(strings.ToLower(s)) })
	g.patterns["prefixes"] = granted(b, "prefixes", func(s string) (Pattern, error) {
		if s == "" {
			g.bare = true
			return Pattern{}, nil // which matches nothing
		}
		return parsePattern(s)
	})
	for name := range g.most {
		before, most := b.Reported(), g.most[name]
		hclread.Int(b, name, maxCount, &most)
		if b.Reported() > before {
			most = maxCount // everything, like a list with a mistake
		}
		g.most[name] = most
	}
	return g
}

// newGrants grants nothing, with the ceilings of a team whose allow block raises none.
func (a allowed) newGrants(team string) *grants {
	return &grants{
		team: team, root: a.root, reserved: a.reserved, prefixesCount: a.prefixesCount, patterns: map[string][]Pattern{},
		most: map[string]int{
			"max_message": DefaultMaxMessage, "max_prompts": DefaultMaxPrompts, "concurrency": DefaultConcurrency, "max_files": 0,
		},
	}
}

// granted decodes one list of an allow block.
func granted(b *hclread.Block, name string, parse func(string) (Pattern, error)) []Pattern {
	// A list with a mistake grants everything for the rest of this Load, which fails anyway:
	// otherwise the mistake would be reported again wherever the team uses what the list was meant
	// to grant.
	before := b.Reported()
	patterns := hclread.List(b, name, parse)
	if b.Reported() > before {
		everything, _ := parsePattern("*")
		return []Pattern{everything}
	}
	return patterns
}

// team returns what a team may use.
func (a allowed) team(name string) *grants {
	if a.grants == nil {
		return nil
	}
	if g, ok := a.grants[name]; ok {
		return g
	}
	return a.newGrants(name) // the team has no allow block and others do
}

// same reports whether two allow blocks let a team use the same. Each may be nil.
func (g *grants) same(other *grants) bool {
	if g == nil || other == nil {
		return g == other
	}
	areSame := func(a, b []Pattern) bool {
		return slices.EqualFunc(a, b, func(a, b Pattern) bool { return a.String() == b.String() })
	}
	return g.team == other.team && g.bare == other.bare && g.prefixesCount == other.prefixesCount &&
		maps.Equal(g.most, other.most) && maps.EqualFunc(g.patterns, other.patterns, areSame)
}

// AllowEnv implements [hclread.Access].
func (g *grants) AllowEnv(name string) error {
	switch {
	case g == nil:
		return nil
	case g.reserved.Env[name]: // before the grants, which do not help
		return errReserved(fmt.Sprintf("The environment variable %q", name))
	case !matchesAny(g.patterns["env"], name):
		return g.refusal("environment variable", fmt.Sprintf("%q", name), "env")
	}
	return nil
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
	// Here and not in AllowFile: a link with a name that is granted may lead to it.
	if g.reserved.Files[hclread.Absolute(path)] {
		return errReserved("The file " + written.String())
	}
	// The path is resolved, so what it is compared with must be, too: --config may itself be a
	// link.
	root, err := filepath.EvalSymlinks(g.root)
	if err != nil {
		return err
	}
	if !g.matchesPath("files", root, path) {
		return g.refusal("file", written.String(), "files")
	}
	return nil
}

// allowCommand decides on the first element of command, as it is written.
func (g *grants) allowCommand(command hclread.Text) error {
	if g == nil || matchesAny(g.patterns["commands"], command.Value) {
		return nil
	}
	return g.refusal("command", command.String(), "commands")
}

// allowDir decides on a working folder, which needs no grant beneath the folder of the team's file;
// written is the path as the block has it.
func (g *grants) allowDir(folder, path string, written hclread.Text) error {
	if g == nil || g.matchesDir(g.root, folder, path) {
		return nil
	}
	return g.refusal("folder", written.String(), "dirs")
}

// allowResolvedDir decides on the folder that the links of an allowed path lead to.
func (g *grants) allowResolvedDir(folder, path string, written hclread.Text) error {
	if g == nil {
		return nil
	}
	root, err := filepath.EvalSymlinks(g.root)
	if err != nil {
		return err
	}
	if folder, err = filepath.EvalSymlinks(folder); err != nil {
		return err
	}
	if !g.matchesDir(root, folder, path) {
		return g.refusal("folder", written.String(), "dirs")
	}
	return nil
}

// allowHost decides on a host in lower case. The error names the host only if its URL may be shown.
func (g *grants) allowHost(host string, url hclread.Text) error {
	if g == nil || matchesAny(g.patterns["hosts"], host) {
		return nil
	}
	name := fmt.Sprintf("%q", host)
	if url.Sensitive {
		name = masked
	}
	return g.refusal("host", name, "hosts")
}

// allowAudience decides on an audience other than the server's URL.
func (g *grants) allowAudience(written hclread.Text) error {
	if g == nil || matchesAny(g.patterns["audiences"], written.Value) {
		return nil
	}
	return g.refusal("audience", written.String(), "audiences")
}

// HostGrant says how a team was granted a host, and thereby whether somebody else may resolve its name.
type HostGrant int

// The kinds of grants.
const (
	AnyHost       HostGrant = iota // there are no allow blocks, and the team may use every host
	HostByPattern                  // a pattern with a wildcard grants it: the team may have made the name
	HostByName                     // the platform team wrote the name
)

// hostGrant returns how a host in lower case was granted.
func (g *grants) hostGrant(host string) HostGrant {
	switch {
	case g == nil:
		return AnyHost
	case slices.ContainsFunc(g.patterns["hosts"], func(p Pattern) bool { return p.String() == host }):
		return HostByName
	}
	return HostByPattern
}

// allowPrefix decides on the prefix of names, "" for names without one.
func (g *grants) allowPrefix(prefix string) error {
	switch {
	case g == nil || !g.prefixesCount || prefix == "" && g.bare || prefix != "" && matchesAny(g.patterns["prefixes"], prefix):
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

// decodeCounts decodes the attributes of an upstream that cost the gateway memory.
func (g *grants) decodeCounts(b *hclread.Block, u *Upstream) {
	// Where allow blocks exist, one team must not be able to take what all need.
	for name, dst := range map[string]*int{
		"max_message": &u.MaxMessage, "max_prompts": &u.MaxPrompts, "concurrency": &u.Concurrency,
	} {
		ceiling := maxCount
		if g != nil {
			ceiling = g.most[name]
		}
		*dst = min(*dst, ceiling) // the default, too, stays below a ceiling that was lowered
		hclread.Int(b, name, maxCount, dst)
		if *dst > ceiling {
			b.Error(b.ValueRange(name), summaryRefused, "Team %q may set %s to at most %d; "+
				"the platform team can raise that with %s in allow %q.", g.team, name, ceiling, name, g.team)
		}
	}
}

// checkVariable checks one entry of env.
func (g *grants) checkVariable(name, value string) error {
	// A granted command runs its arguments, which are for the team to decide; a variable could turn
	// it into another program, so that commands would bound nothing at all.
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

// matchesDir reports whether a folder is beneath the folder of the team's file, or is or is beneath
// one that matches a pattern.
func (g *grants) matchesDir(root, folder, path string) bool {
	path = hclread.Absolute(path)
	if regular.IsBeneath(hclread.Absolute(folder), path) {
		return true
	}
	for ; !g.matchesPath("dirs", root, path); path = filepath.Dir(path) {
		if path == filepath.Dir(path) {
			return false
		}
	}
	return true
}

// matchesPath compares a path below root relative to it.
func (g *grants) matchesPath(attribute, root, path string) bool {
	// A path outside only matches a pattern that starts with a slash, so that neither ".." nor a
	// "*" leads out.
	root, err := filepath.Abs(root)
	if err != nil {
		return false
	}
	if path, err = filepath.Abs(path); err != nil {
		return false
	}
	if relative, err := filepath.Rel(root, path); err == nil && filepath.IsLocal(relative) {
		return matchesAny(g.patterns[attribute], WithoutMounts(relative))
	}
	return slices.ContainsFunc(g.patterns[attribute], func(p Pattern) bool {
		return filepath.IsAbs(p.String()) && p.Match(WithoutMounts(path))
	})
}

var mountVersion = hclread.Lazily(`^\.\.[0-9]{4}(_[0-9]{2}){5}\.[0-9]+$`)

// WithoutMounts returns a path with slashes. It leaves out the folders through which Kubernetes
// mounts files: everyone knows secrets/..data/token as secrets/token, and if the --config folder is
// itself a mount, ..data/token as token.
func WithoutMounts(path string) string {
	return strings.Join(slices.DeleteFunc(strings.Split(filepath.ToSlash(path), "/"), isMountFolder), "/")
}

// isMountFolder reports whether Kubernetes made a folder: the link ..data, or a folder named for
// the time of a version.
func isMountFolder(folder string) bool {
	return folder == "..data" || mountVersion().MatchString(folder)
}

func matchesAny(patterns []Pattern, name string) bool {
	return slices.ContainsFunc(patterns, func(p Pattern) bool { return p.Match(name) })
}

// choosesCode reports whether common loaders, shells, runtimes or launchers take programs,
// libraries, options or configuration from a variable. Case is ignored, as Windows and npm do.
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
