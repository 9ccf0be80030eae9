package admin

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/identity"
	"github.com/promptweir/promptweir/gateway/inspect"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/gateway/snapshot"
)

// View returns the state of a gateway for the API and the console. It calls no upstream. Its methods
// are safe for concurrent use. Do not change its fields after the first call.
type View struct {
	// Snapshot returns the current snapshot.
	Snapshot func() *snapshot.Snapshot
	// IsReady reports whether the gateway is ready.
	IsReady func() bool
	// Ready returns all details of /readyz.
	Ready func() Readiness
	// Configuration returns the result of the last load.
	Configuration func() *ConfigurationState
	History       *History

	usage usageCache
}

// QueryError is the error of a query that cannot be answered. Its text is for the person who wrote the
// query.
type QueryError struct{ text string }

func (e *QueryError) Error() string { return e.text }

// Principal parses the principal of a query, such as "user:ann,group:payments". It returns nil for "",
// which means everybody.
func (v *View) Principal(as string) (*policy.Principal, error) {
	if as == "" {
		return nil, nil //nolint:nilnil // everybody
	}
	principal, err := identity.NamedPrincipal(v.Snapshot().Config, as, "")
	if err != nil {
		return nil, &QueryError{"as: " + err.Error()}
	}
	return &principal, nil
}

// Explain explains who sees the prompt with an exposed name. If as is empty, the answer is about
// everybody.
func (v *View) Explain(name, as string) (*inspect.Answer, error) {
	if name == "" {
		return nil, &QueryError{"name: write the exposed name of a prompt"}
	}
	principal, err := v.Principal(as)
	if err != nil {
		return nil, err
	}
	return inspect.Ask(v.Snapshot(), principal, name), nil
}

// Upstreams returns the state of a team's upstreams, or of all upstreams if team is empty.
func (v *View) Upstreams(team string) ([]UpstreamHealth, error) {
	if err := v.checkTeam(team); err != nil {
		return nil, err
	}
	all := v.Ready().Upstreams
	if team == "" {
		return all, nil
	}
	return slices.DeleteFunc(all, func(u UpstreamHealth) bool { return u.Team != team }), nil
}

// Version returns a text that changes with every change of an upstream, the catalog or the
// configuration.
func (v *View) Version() string {
	loaded := v.Configuration()
	version := fmt.Sprintf("%d-%d", v.Snapshot().Number(), loaded.Loaded.UnixNano())
	// Add the time of a refused load, which changes neither the snapshot's number nor Loaded.
	if loaded.Refused != nil {
		version += fmt.Sprintf("-%d", loaded.Refused.UnixNano())
	}
	return version
}

// checkTeam returns a [*QueryError] for a team that is not in the configuration. It accepts "".
func (v *View) checkTeam(name string) error {
	teams := v.Snapshot().Config.TeamNames()
	if name == "" || slices.Contains(teams, name) {
		return nil
	}
	return &QueryError{fmt.Sprintf("team: the configuration has no team %q%s", name,
		config.Suggest(name, teams))}
}

// maxPrincipals bounds the principals that [View.Principals] returns.
const maxPrincipals = 1000

// Principals returns the users and groups in the configuration, as suggestions for a query. It returns
// at most 1000.
func (v *View) Principals() []string {
	all := v.Snapshot().Config.Principals()
	return all[:min(len(all), maxPrincipals)]
}

// Endpoint returns the URL of the MCP endpoint for clients. If there is no public_url, it is the
// gateway's listen address. If the gateway listens on all addresses, the URL contains the host of r, an
// operator's request.
func (v *View) Endpoint(r *http.Request) string {
	return v.Snapshot().Config.Gateway.Endpoint((&url.URL{Host: r.Host}).Hostname()).String()
}
