package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/identity"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/gateway/publish"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/wire"
)

// query contains the common flags of list, get, explain and sync: the server or configuration, the caller, and the
// output format.
type query struct {
	app                *app
	lists              listSource
	who                principalFlags
	url, token, output string
	caFile             string
	isTokenGiven       func() bool // reports whether --token is set; it is nil for commands without --url
	// isDefault is true if url is defaultEndpoint. If the server there is not promptweir, the command fails,
	// and the error names the flags in required.
	isDefault bool
	required  string
	// skills decides whether lists contain prompts, which is the zero value, or skills.
	skills config.SkillsMode
}

func newQuery(a *app) *query { return &query{app: a, lists: listSource{app: a}} }

func (q *query) addTo(command *cobra.Command) {
	q.addServerTo(command)
	q.required = "--url URL or --config PATH"
	q.who.addTo(command, q.app,
		"with --config, the prompts of `PRINCIPAL`, for example user:alice,group:payments")
}

// addServerTo declares only the flags for a running gateway.
func (q *query) addServerTo(command *cobra.Command) {
	flags := command.Flags()
	q.required = "--url URL"
	flags.StringVar(&q.url, "url", "",
		"connect to the running gateway, or any other MCP server, at `URL` (default: PROMPTWEIR_URL, else "+
			defaultEndpoint+")")
	flags.StringVar(&q.caFile, "ca-file", "",
		"the certificates in `FILE` sign that of --url; by default the system's, on Linux those in SSL_CERT_FILE")
	q.isTokenGiven = func() bool { return flags.Changed("token") }
	addSecret(flags, &q.token, "PROMPTWEIR_TOKEN", "bearer `TOKEN` for --url; the variable's goes to the address in PROMPTWEIR_URL only")
}

// credential returns the token for a server. The token in PROMPTWEIR_TOKEN is only for the address in
// PROMPTWEIR_URL, not for other servers at --url.
func (q *query) credential(server *url.URL) (token string, err error) {
	own, _ := url.Parse(os.Getenv("PROMPTWEIR_URL"))
	switch isOwn := own != nil && own.Scheme == server.Scheme && own.Host == server.Host; {
	case isOwn, q.token == "":
		return q.token, nil
	case !q.isTokenGiven():
		return "", nil
	case server.Scheme == "http" && !config.IsLoopback(server.Hostname()):
		return "", &usageError{"--token: everybody on the way can read it over http; use https, or set PROMPTWEIR_URL to this address"}
	}
	return q.token, nil
}

// defaultEndpoint is used without --url, PROMPTWEIR_URL and a configuration. Tests replace it.
var defaultEndpoint = "http://" + config.DefaultListen + config.DefaultPath //nolint:gochecknoglobals // only tests change it

// chooseServer sets the URL from --url, PROMPTWEIR_URL or the default, in this order.
func (q *query) chooseServer() {
	q.url = cmp.Or(q.url, os.Getenv("PROMPTWEIR_URL"))
	if q.isDefault = q.url == ""; q.isDefault {
		q.url = defaultEndpoint
	}
}

func (q *query) check() error {
	if q.app.config == "" {
		q.chooseServer()
	}
	switch {
	case q.url != "" && q.app.configGiven():
		return &usageError{"--config and --url are mutually exclusive; leave one out"}
	case q.url != "" && q.who != principalFlags{}:
		return &usageError{"--as requires --config: a running gateway identifies its caller by --token"}
	case q.url == "" && (q.caFile != "" || q.isTokenGiven()):
		return &usageError{"--token and --ca-file require --url: an upstream block has headers and ca_file"}
	case q.url != "" && q.lists.live:
		return &usageError{"--live requires --config: a running gateway has lists of its own"}
	}
	return nil
}

// loadConfig returns the configuration and the principal of --as. Without --as, the principal is nil, which
// sees everything.
func (q *query) loadConfig() (*config.Config, *policy.Principal, error) {
	cfg, err := q.app.load(q.lists.options())
	if err != nil {
		return nil, nil, err
	}
	principal, err := q.who.principal(cfg)
	if principal != nil && principal.ClaimsUnknown && cfg.ReadsClaims() {
		q.app.warn("the claims of %s are unknown: prompts that depend on claims are left out; "+
			"set them with --claims", principal.Subject)
	}
	return cfg, principal, err
}

// withSession calls use with a session to --url.
func (q *query) withSession(
	ctx context.Context, options client.SessionOptions, use func(*client.Session) error,
) error {
	u, err := parseURL("--url", q.url, config.DefaultListen+config.DefaultPath)
	if err != nil {
		return err
	}
	token, err := q.credential(u)
	if err != nil {
		return err
	}
	server := serverAt(u, token)
	server.Skills = q.skills
	if q.caFile != "" {
		if server.TLS, err = config.ReadCAs(q.caFile); err != nil {
			return &usageError{"--ca-file: " + err.Error()}
		}
	}
	waiting := q.app.tellLater(func() { q.app.warn("waiting for %s", server.Name) })
	session, err := client.ConnectFor(ctx, server, client.Options{Name: gateway.Name, Version: buildVersion()}, options)
	waiting.Stop()
	if err == nil {
		defer session.Close()
	}
	switch {
	case err != nil && q.isDefault:
		return &usageError{q.required + " is required; tried the default: " + connectError(ctx, server, err).Error()}
	case err != nil:
		return connectError(ctx, server, err)
	case q.isDefault && !isPromptweir(ctx, session):
		return &usageError{q.required + " is required; the server at the default, " + server.Name + ", is not promptweir"}
	}
	return use(session)
}

// isPromptweir reports whether a server identifies itself as promptweir.
func isPromptweir(ctx context.Context, s *client.Session) bool {
	// promptweir supports server/discover. If the request fails, the name is empty.
	result, _ := s.Call(ctx, &client.Request{Method: wire.Discover}, nil)
	name, _ := wire.Members(result.JSON).Object("_meta").Object(wire.MetaServerInfo).Text("name")
	return name == gateway.Name
}

// chooseSource is the remedy in messages about unknown lists.
const chooseSource = "use --live to connect to the upstreams, or write " + config.LockFile + " with: promptweir lock --config PATH --live"

// listSource is the flag --live, which chooses the source of the upstreams' lists. Without it, only prompts
// in files and in the lock file are known: the configuration may be an untrusted pull request, so no server
// is started or contacted unasked.
type listSource struct {
	app  *app
	live bool
}

func (l *listSource) addTo(command *cobra.Command) {
	command.Flags().BoolVar(&l.live, "live", false,
		"connect to the upstreams for their lists; starts those with a command")
}

// options returns the options for loading a configuration. Environment variables must be set only if servers
// are started.
func (l *listSource) options() config.Options { return config.Options{AllowUnsetEnv: !l.live} }

// suffices reports whether the list of every upstream is available: with --live, or from files and the lock
// file.
func (l *listSource) suffices(cfg *config.Config, locked snapshot.Lists) bool {
	return l.live || !slices.ContainsFunc(cfg.Upstreams(), func(u config.Upstream) bool {
		_, isLocked := locked[u.Name]
		return u.Files == nil && !isLocked
	})
}

// evaluate calls use with a snapshot of the configuration: with --live from a running gateway, otherwise with
// the prompts in files and in the lock file.
func (l *listSource) evaluate(ctx context.Context, cfg *config.Config, use func(*snapshot.Snapshot) error) error {
	if l.live {
		return l.app.withUpstreams(ctx, cfg, func(g *gateway.Gateway) error { return use(g.Snapshot()) })
	}
	lists, err := l.app.lockedLists(cfg, l.app.config)
	if err != nil {
		return err
	}
	s, err := publish.Evaluate(ctx, cfg, lists, publish.Options{})
	if err != nil {
		return err
	}
	return use(s)
}

// lockedLists returns the lists in the lock file of the configuration at path. Without a lock file, they are
// empty.
func (a *app) lockedLists(cfg *config.Config, path string) (snapshot.Lists, error) {
	lock, err := a.readLock(config.LockPath(path))
	return snapshot.LockedLists(cfg, lock), err
}

// readLock reads a lock file and prints its diagnostics. Without a file the lock is empty.
func (a *app) readLock(path string) (config.Lock, error) {
	lock, diagnostics, err := config.ReadLock(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return lock, a.report(diagnostics)
}

// principalFlags are the flags --as and --claims.
type principalFlags struct{ as, claims string }

// addTo declares the flags. usage describes --as, whose values are completed from the configuration.
func (p *principalFlags) addTo(command *cobra.Command, a *app, usage string) {
	addPrincipal(command, a, &p.as, usage)
	command.Flags().StringVar(&p.claims, "claims", "",
		"with --as, the claims of its token, a `JSON` object; without them, rules that read claims are undecided")
}

// principal returns the principal of the flags, or nil if --as is not set.
func (p *principalFlags) principal(cfg *config.Config) (*policy.Principal, error) {
	switch _, err := wire.ParseObject([]byte(p.claims)); {
	case p.as == "" && p.claims != "":
		return nil, &usageError{"--claims requires --as: name the principal"}
	case p.as == "":
		return nil, nil //nolint:nilnil // each command decides what a nil principal means
	case p.claims != "" && err != nil:
		return nil, &usageError{"--claims: write a JSON object: " + err.Error()}
	}
	principal, err := identity.NamedPrincipal(cfg, p.as, p.claims)
	if err != nil {
		return nil, &usageError{"--as: " + err.Error()}
	}
	return &principal, nil
}

// addPrincipal declares the flag --as. Several of them are one principal.
func addPrincipal(command *cobra.Command, a *app, as *string, usage string) {
	command.Flags().Func("as", usage, func(value string) error {
		if !strings.Contains(","+*as+",", ","+value+",") { // completion parses the flags twice
			*as = strings.TrimPrefix(*as+","+value, ",")
		}
		return nil
	})
	completeFlag(command, "as", a.completePrincipal)
}

// anyProtocol lets both sides negotiate the newest common revision.
const anyProtocol = "auto"

// serverAt returns the MCP server at a URL.
func serverAt(u *url.URL, token string) config.Upstream {
	server := config.Upstream{
		// Errors and logs contain the name, and the URL may have a password.
		Name: u.Redacted(), Transport: config.StreamableHTTP, URL: u.String(),
		Protocol: anyProtocol, Timeout: config.DefaultTimeout,
		Concurrency: config.DefaultConcurrency,
		MaxMessage:  config.DefaultMaxMessage,
	}
	if token != "" {
		server.Headers = map[string]config.Secret{"Authorization": config.NewSecret("Bearer " + token)}
	}
	return server
}

// connectError explains why a server cannot be used, with a remedy for the user of --url.
func connectError(ctx context.Context, server config.Upstream, err error) error {
	cause := client.CauseOf(err)
	cause.Remedy = cmp.Or(urlRemedies[cause.Kind], cause.Remedy)
	switch cause.Kind {
	case client.CredentialRefused, client.AccessDenied: // the server refuses the user's token
		if server.Headers != nil {
			_, details, _ := strings.Cut(cause.Problem, " (")
			cause.Problem = "it refuses your token (" + details
			cause.Remedy = "pass another with --token, without the word Bearer, or in PROMPTWEIR_TOKEN for the address in PROMPTWEIR_URL"
		}
	case client.NothingThere, client.WebPage, client.NotMCP:
		u, _ := url.Parse(server.URL) // it was formatted from a URL
		if isAdminListener(ctx, u.Scheme+"://"+u.Host) {
			return fmt.Errorf("%s is a gateway's admin listener: use its endpoint for clients, "+
				"for example http://%s", server.Name, config.DefaultListen+config.DefaultPath)
		}
	case client.UnexplainedFailure:
		return fmt.Errorf("%s: %w", server.Name, err)
	}
	return fmt.Errorf("%s: %s", server.Name, cause)
}

// urlRemedies replace the remedies of package client, which name attributes of an upstream block: --url has
// no block.
var urlRemedies = map[client.Kind]string{ //nolint:gochecknoglobals // a constant table
	client.ProxyFailed:        "correct HTTPS_PROXY, HTTP_PROXY or NO_PROXY in the environment, or see the log of the proxy",
	client.AnswerTimeout:      "find out why the server hangs",
	client.EndOfAnswer:        "find out why the server is slow",
	client.StreamTimeout:      "correct the path in the URL",
	client.CertificateName:    "correct the host in the URL",
	client.CertificateIssuer:  "pass the issuer's certificate with --ca-file, or in SSL_CERT_FILE",
	client.CertificateMissing: "write an upstream block with cert_file and key_file for it, and use --config",
	client.CertificateRefused: "write an upstream block with cert_file and key_file for it, and use --config",
	client.CredentialMissing:  "pass a valid token with --token, or in PROMPTWEIR_TOKEN for the address in PROMPTWEIR_URL",
	client.RequestDenied:      "give your token the right to list and get prompts",
	client.AccessDenied:       "pass a token with --token that has the right to list and get prompts",
	client.TooManyRequests:    "try again later",
	client.PauseWanted:        "try again then",
	client.RequestRefused:     "correct the URL: the server may not speak MCP",
	client.NotMCP:             "correct the URL, or the server; a proxy in front of it may change its answers",
	client.ListNotUsable:      "correct the server",
	client.NoPromptsOffered:   "turn on the server's prompts",
}
