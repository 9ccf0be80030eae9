package gateway

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/promptweir/promptweir/upstream"
)

// Admin serves the operators' side: a page that says how all is, /healthz, /readyz, /metrics, which is the handler given,
// POST /-/reload, and what Options.Debug serves. Host and Origin are checked as on the MCP endpoint. The page, what /readyz
// says beyond its status, the reload and the debugging are for operators only.
func (g *Gateway) Admin(metrics http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", g.operatorsOnly(newPageHandler(g.Ready)))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", g.serveReady)
	mux.Handle("GET /metrics", metrics)
	mux.HandleFunc("POST /-/reload", g.operatorsOnly(g.serveReload))
	if g.opts.Debug != nil {
		mux.HandleFunc("/debug/", g.operatorsOnly(g.opts.Debug.ServeHTTP))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := g.setup().adminHosts.check(r); err != nil {
			http.Error(w, "forbidden: "+err.Error(), http.StatusForbidden)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// operatorsOnly refuses everybody else.
func (g *Gateway) operatorsOnly(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !g.operator(r) {
			http.Error(w, "forbidden: this is for callers on this machine, or with the admin token", http.StatusForbidden)
			return
		}
		next(w, r)
	}
}

// Readiness is the body of /readyz, and what the admin page shows.
type Readiness struct {
	Ready   bool       `json:"ready"`
	Version string     `json:"version,omitempty"`
	Started *time.Time `json:"started,omitempty"`
	Entries int        `json:"entries,omitempty"`
	// Streams are open to clients, and Waiting calls wait for an answer of theirs.
	Streams   int              `json:"streams,omitempty"`
	Waiting   int              `json:"waiting,omitempty"`
	Upstreams []UpstreamHealth `json:"upstreams,omitempty"`
	// Reports are sentences about names that somebody should put right.
	Reports []string `json:"reports,omitempty"`
	// Configuration is what became of the last reload.
	Configuration *ConfigurationState `json:"configuration,omitempty"`
}

// ConfigurationState says since when the configuration at work is the one, and why a later one is not.
type ConfigurationState struct {
	Loaded time.Time `json:"loaded"`
	// Refused and Problems are set while the configuration that was looked at last is not at work.
	Refused  *time.Time `json:"refused,omitempty"`
	Problems []string   `json:"problems,omitempty"`
}

// UpstreamHealth is how one upstream is.
type UpstreamHealth struct {
	Name      string `json:"name"`
	Team      string `json:"team"`
	Connected bool   `json:"connected"`
	// Listed is true once its prompts were listed; they stay when it goes.
	Listed   bool   `json:"listed"`
	Revision string `json:"revision,omitempty"`
	Prompts  int    `json:"prompts"`
	// Reason and Since are set while the list is not fresh.
	Reason string     `json:"reason,omitempty"`
	Since  *time.Time `json:"since,omitempty"`
	// Endpoints are its replicas, where it has several, and Differences the prompts that they define differently.
	Endpoints   []EndpointHealth `json:"endpoints,omitempty"`
	Differences []string         `json:"differences,omitempty"`
}

// EndpointHealth is how one replica of an upstream is.
type EndpointHealth struct {
	Address   string     `json:"address"`
	Connected bool       `json:"connected"`
	Revision  string     `json:"revision,omitempty"`
	Reason    string     `json:"reason,omitempty"`
	Since     *time.Time `json:"since,omitempty"`
}

// Ready says how the gateway is: ready once each upstream has been tried and at least one has been listed, or where
// none is configured. It stays ready when a reload adds an upstream.
func (g *Gateway) Ready() Readiness {
	e := g.edition.Load()
	readiness := Readiness{
		Version: g.opts.Version, Started: &g.started, Entries: len(e.snapshot.Entries()),
		Streams: g.streams(), Waiting: g.waits.waiting() + g.questions.waiting(), Configuration: g.loading.Load().state(),
	}
	for _, r := range e.reports() {
		readiness.Reports = append(readiness.Reports, r.Text)
	}
	tried, listed := true, false
	for i, state := range e.states {
		u := e.upstreams[i]
		health := UpstreamHealth{
			Name: u.Name, Team: u.Team, Connected: state.Connected, Listed: state.Listed, Revision: state.Revision,
			Prompts: len(e.definitions(i, state)),
		}
		health.Reason, health.Since = trouble(state.Problem)
		health.Differences = state.Differences
		if len(state.Endpoints) > 1 {
			for _, endpoint := range state.Endpoints {
				reason, since := trouble(endpoint.Problem)
				health.Endpoints = append(health.Endpoints, EndpointHealth{
					Address: endpoint.Address, Connected: endpoint.Connected, Revision: endpoint.Revision, Reason: reason, Since: since,
				})
			}
		}
		readiness.Upstreams = append(readiness.Upstreams, health)
		listed = listed || state.Listed
		tried = tried && state.Tried
	}
	if len(e.upstreams) == 0 || (tried && listed) {
		g.ready.Store(true)
	}
	readiness.Ready = g.ready.Load()
	return readiness
}

// trouble is a problem as it may be shown: its cause may hold addresses.
func trouble(p *upstream.Problem) (reason string, since *time.Time) {
	if p == nil {
		return "", nil
	}
	return string(p.Reason), &p.Since
}

func (g *Gateway) serveReady(w http.ResponseWriter, r *http.Request) {
	readiness := g.Ready()
	w.Header().Set("Content-Type", "application/json")
	if !readiness.Ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	if !g.operator(r) {
		readiness = Readiness{Ready: readiness.Ready}
	}
	writeIndented(w, readiness)
}

func writeIndented(w io.Writer, value any) {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	_ = encoder.Encode(value) // the caller has gone
}

// state is what may be shown of a loading: the problems hold nothing sensitive.
func (l *loading) state() *ConfigurationState {
	state := &ConfigurationState{Loaded: l.since}
	if l.problem != nil {
		state.Refused, state.Problems = &l.refused, strings.Split(l.problem.Error(), "\n")
	}
	return state
}

// serveReload reloads, whether or not the caller waits for the end, and answers with what became of it.
func (g *Gateway) serveReload(w http.ResponseWriter, r *http.Request) {
	err := g.Reload(context.WithoutCancel(r.Context()))
	w.Header().Set("Content-Type", "application/json")
	switch {
	case errors.Is(err, errNotRunning):
		w.WriteHeader(http.StatusServiceUnavailable)
	case err != nil:
		w.WriteHeader(http.StatusUnprocessableEntity)
	}
	writeIndented(w, g.loading.Load().state())
}

// operator reports whether a request is from somebody who runs the gateway: from this machine, or with the admin token.
func (g *Gateway) operator(r *http.Request) bool {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	sum, want := sha256.Sum256([]byte(token)), g.setup().cfg.Admin.TokenSHA256.Reveal()
	known := want != [sha256.Size]byte{} && strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(sum[:], want[:]) == 1
	return known || fromLoopback(r)
}

// fromLoopback reports whether a request comes from this machine. A forwarding proxy would hide that, so one that
// says it forwards does not count.
func fromLoopback(r *http.Request) bool {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil || r.Header.Get("X-Forwarded-For") != "" || r.Header.Get("Forwarded") != "" {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
