package config

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

// grants are what an allow block lets one team's file use. A nil *grants allows everything: without any
// allow block there is one owner, who is trusted.
type grants struct {
	team                        string
	env, files, commands, hosts []Pattern
}

// decodeGrants reads all allow blocks into l.grants, which stays nil when there is none.
func (l *loader) decodeGrants(blocks []fields) {
	if len(blocks) == 0 && len(l.declared("allow")) == 0 {
		return
	}
	l.grants = map[string]*grants{}
	for _, f := range blocks {
		f.items(schema{attributes: []string{"env", "files", "commands", "hosts"}})
		team := f.label()
		if f.labelled() {
			l.checkAllowed(f, team)
		}
		g := &grants{
			team:     team,
			env:      f.granted("env", parsePattern),
			files:    f.granted("files", parsePattern),
			commands: f.granted("commands", parsePattern),
			hosts:    f.granted("hosts", func(s string) (Pattern, error) { return parsePattern(strings.ToLower(s)) }),
		}
		if l.grants[team] == nil {
			l.grants[team] = g
		}
	}
	for _, team := range l.declared("allow") {
		if _, decoded := l.grants[team]; !decoded {
			l.grants[team] = nil // its block is in a broken file: nothing is known to be refused
		}
	}
}

func (l *loader) checkAllowed(f fields, team string) {
	l.unique("allow block of team", team, f.labelRange())
	if err := l.declaredTeam(team); err != nil {
		f.error(f.labelRange(), "Unknown team", "%q %s", team, sentence(err))
	}
}

// granted reads one list of an allow block. A list with a mistake grants everything for the rest of this
// Load, which fails anyway: one mistake is not to show up again wherever the team uses what it was for.
func (f fields) granted(name string, parse func(string) (Pattern, error)) []Pattern {
	before := len(f.diags)
	patterns := list(f, name, shown, parse)
	if len(f.diags) > before {
		everything, _ := ParsePattern("*")
		return []Pattern{everything}
	}
	return patterns
}

// grantsOf returns what a team may use.
func (l *loader) grantsOf(team string) *grants {
	if l.grants == nil {
		return nil
	}
	if g, ok := l.grants[team]; ok {
		return g
	}
	return &grants{team: team}
}

// reserve notes what the cursor keys are made from. Whoever has a key can make every token that the gateway makes, so where
// allow blocks exist no team gets one, whatever it was granted.
func (l *loader) reserve() {
	for _, f := range l.top("gateway") {
		attribute := f.block.Body.Attributes["cursor_keys"]
		if attribute == nil {
			continue
		}
		functions := maps.Clone(l.guarded)
		functions["env"] = noting(func(name string) { l.reserved["env "+name] = true })
		functions["file"] = noting(func(path string) {
			if !filepath.IsAbs(path) {
				path = filepath.Join(f.scope.dir, path)
			}
			if actual, err := filepath.EvalSymlinks(path); err == nil {
				l.reserved["file "+absolute(actual)] = true
			}
		})
		_, _ = attribute.Expr.Value(&hcl.EvalContext{Functions: functions}) // what is wrong with it was reported
	}
}

// noting is a function whose result is not known, so that an evaluation goes every way that there is, and which notes what
// it is called with.
func noting(note func(name string)) function.Function {
	return function.New(&function.Spec{
		VarParam: &function.Parameter{Name: "name", Type: cty.String, AllowUnknown: true},
		Type:     function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			if len(args) > 0 && args[0].IsKnown() {
				note(args[0].AsString())
			}
			return cty.UnknownVal(cty.String), nil
		},
	})
}

func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

func errReserved(what string) error {
	return &problem{"Not for a team", what + " is a cursor key of the gateway, with which every session and cursor can be made; no team may use it."}
}

func (s *scope) allowEnv(name string) error {
	if s.grants != nil && s.reserved["env "+name] {
		return errReserved(fmt.Sprintf("The environment variable %q", name))
	}
	return s.grants.allowEnv(name)
}

// allowResolved checks where the links of a path led.
func (s *scope) allowResolved(actual string, name text) error {
	if s.grants != nil && s.reserved["file "+absolute(actual)] {
		return errReserved("The file " + name.String())
	}
	return s.grants.allowResolved(s.root, actual, name)
}

func (g *grants) allowEnv(name string) error {
	if g == nil || matchesAny(g.env, name) {
		return nil
	}
	return g.refusal("the environment variable", fmt.Sprintf("%q", name), "env")
}

// allowFile checks a path as it was written, before anything is looked up on disk.
func (g *grants) allowFile(root, path string, name text) error {
	if g == nil || g.grantsPath(root, path) {
		return nil
	}
	return g.refusal("the file", name.String(), "files")
}

// allowResolved checks where the links of a path led.
func (g *grants) allowResolved(root, actual string, name text) error {
	if g == nil {
		return nil
	}
	root, err := filepath.EvalSymlinks(root)
	if err != nil {
		return err
	}
	return g.allowFile(root, actual, name)
}

// grantsPath compares a path below the --config folder relative to it. What is outside only matches a
// pattern that starts with a slash, so that neither ".." nor a "*" leads out.
func (g *grants) grantsPath(root, path string) bool {
	root, err := filepath.Abs(root)
	if err != nil {
		return false
	}
	if path, err = filepath.Abs(path); err != nil {
		return false
	}
	if relative, err := filepath.Rel(root, path); err == nil && filepath.IsLocal(relative) {
		return matchesAny(g.files, visiblePath(relative))
	}
	for _, p := range g.files {
		if filepath.IsAbs(p.String()) && p.Match(visiblePath(path)) {
			return true
		}
	}
	return false
}

// visiblePath leaves out the folders through which Kubernetes mounts files: secrets/..data/token is what
// everybody knows as secrets/token, and where the --config folder is a mount itself, ..data/token as token.
func visiblePath(path string) string {
	return strings.Join(slices.DeleteFunc(strings.Split(filepath.ToSlash(path), "/"), mounted), "/")
}

// mounted reports whether a folder is one of those that Kubernetes makes in a mount: the link ..data, and one
// named for the time of each version.
func mounted(folder string) bool {
	version, _ := regexp.MatchString(`^\.\.[0-9]{4}(_[0-9]{2}){5}\.[0-9]+$`, folder)
	return version || folder == "..data"
}

// checkVariable checks one name of env. A granted command runs what its arguments say, which is the team's to
// decide; a variable could make another program of it, so that commands would be no border at all.
func (g *grants) checkVariable(name, value string) error {
	if g != nil && choosesCode(name) {
		return errors.New("decides which code a command runs, so no team may set it where allow blocks exist; " +
			"remove it, or have the platform team grant a script that sets it")
	}
	return checkVariable(name, value)
}

// choosesCode knows the variables through which the usual loaders, shells, runtimes and launchers take other
// programs, libraries, options or configuration than their own. Windows and npm do not mind the case.
func choosesCode(name string) bool {
	name = strings.ToUpper(name)
	for _, prefix := range []string{
		"LD_", "DYLD_", "BASH_", "NPM_CONFIG_", "PNPM_CONFIG_", "YARN_", "BUN_", "DENO_", "TS_NODE_", "UV_", "PIP_", "PIPX_",
		"BUNDLE_", "LUA_", "CORECLR_", "COR_", "OPENSSL_", "GIT_SSH", "GIT_CONFIG",
	} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	switch name {
	case "PATH", "PATHEXT", "COMSPEC", "SHELL", "HOME", "USERPROFILE", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "GCONV_PATH",
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
		"GIT_PAGER", "GIT_TEMPLATE_DIR":
		return true
	}
	return false
}

func (g *grants) allowCommand(command text) error {
	if g == nil || matchesAny(g.commands, command.value) {
		return nil
	}
	return g.refusal("the command", command.String(), "commands")
}

func (g *grants) allowHost(host string, shown text) error {
	if g == nil || matchesAny(g.hosts, host) {
		return nil
	}
	name := fmt.Sprintf("%q", host)
	if shown.sensitive {
		name = masked
	}
	return g.refusal("the host", name, "hosts")
}

func (g *grants) refusal(kind, name, attribute string) error {
	return &problem{
		"Not allowed for this team",
		fmt.Sprintf("Team %q may not use %s %s; the platform team can add it to %s in allow %q.", g.team, kind, name, attribute, g.team),
	}
}

func matchesAny(patterns []Pattern, name string) bool {
	for _, p := range patterns {
		if p.Match(name) {
			return true
		}
	}
	return false
}

// checkReach reports an upstream address that no team may use, whatever it was granted. Names are resolved
// and checked again when they are dialled; here only what is certain from the text is refused.
func (l *loader) checkReach(at hcl.Range, host, port string) {
	switch own := l.ownListener(host, port); {
	case linkLocal(host):
		l.error(at, "Upstream not reachable", "Link-local and cloud metadata addresses hold the machine's own credentials; no upstream may be there.")
	case own != "":
		l.error(at, "Upstream not reachable", "This is the gateway's own %s; give the address of the upstream.", own)
	}
}

// linkLocal reports whether a host is a link-local address or a name under which clouds serve metadata.
func linkLocal(host string) bool {
	switch host {
	case "metadata", "metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal",
		"100.100.100.200", "fd00:ec2::254":
		return true
	}
	ip, err := netip.ParseAddr(host)
	ip = ip.Unmap()
	return err == nil && (ip.IsLinkLocalUnicast() || ip.IsLinkLocalMulticast())
}

// listener is an address of the gateway's own.
type listener struct{ name, host, port string }

// ownListener returns the name of the attribute that listens where an upstream would be.
func (l *loader) ownListener(host, port string) string {
	for _, own := range l.listeners {
		if own.port == port && port != "0" && overlap(own.host, host) {
			return own.name
		}
	}
	return ""
}
