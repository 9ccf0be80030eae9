package admin

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/publish"
)

// Options configure the admin listener.
type Options struct {
	View      *View
	Operators *Operators
	Console   Console
	// Reload loads the configuration again. client is the operator's network address.
	Reload func(ctx context.Context, client string) error
	// Metrics serves /metrics.
	Metrics http.Handler
	// Debug serves /debug/, for operators only. It may be nil.
	Debug http.Handler
}

// Console contains the handlers of the console, by their patterns for [http.ServeMux].
type Console struct {
	// Pages are for operators only.
	Pages map[string]http.HandlerFunc
	// Entrance is for everybody: the sign-in page and the static files.
	Entrance map[string]http.HandlerFunc
	// NotFound is the page for a path without a handler.
	NotFound http.HandlerFunc
}

// New returns the handler of the admin listener: the console, /healthz, /readyz, /metrics, the API,
// POST /-/reload, POST /-/link and /debug/. It checks Host and Origin like the MCP endpoint. Pages of
// other origins, including other ports of this machine, can change nothing, and embed nothing except
// /healthz. Only operators can use the console, the API, the details of /readyz, reloading, links and
// debugging.
func New(opts Options) http.Handler {
	h := handler{opts}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", h.serveReady)
	mux.Handle("GET /metrics", opts.Metrics)
	mux.HandleFunc("POST /-/reload", h.operatorsOnly(h.serveReload))
	mux.HandleFunc("POST /-/link", h.answers(func(*http.Request) (any, error) { return opts.Operators.writeLink() }))
	h.addAPI(mux)
	if opts.Debug != nil {
		mux.HandleFunc("/debug/", h.operatorsOnly(opts.Debug.ServeHTTP))
	}
	for pattern, page := range opts.Console.Entrance {
		mux.HandleFunc(pattern, page)
	}
	for pattern, page := range opts.Console.Pages {
		mux.HandleFunc(pattern, h.operatorsOnly(page))
	}
	// Also check Sec-Fetch-Site: the origin check accepts pages on other ports of this machine.
	protection := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if isPlainCheck(r) {
			mux.ServeHTTP(w, r)
			return
		}
		err := opts.View.Snapshot().AdminOrigins.Request(r)
		if err == nil {
			err = protection.Check(r)
		}
		// Pages of other origins may embed only /healthz, to show whether the gateway runs.
		if err == nil && isEmbedded(r) && r.URL.Path != "/healthz" {
			err = errEmbedded
		}
		if err != nil {
			http.Error(w, "forbidden: "+err.Error(), http.StatusForbidden)
			return
		}
		// Show browsers a page for a path without a handler: the mux would respond in plain text.
		if _, pattern := mux.Handler(r); pattern == "" && r.Method == http.MethodGet && wantsPage(r) {
			opts.Console.NotFound(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// isPlainCheck reports whether a request is a load balancer's health check by HTTP/1.0. It has no Host,
// which browsers always send.
func isPlainCheck(r *http.Request) bool {
	return r.Host == "" && r.Header.Get("Origin") == "" &&
		(r.URL.Path == "/healthz" || r.URL.Path == "/readyz")
}

// wantsPage reports whether a browser would show the response as a page.
func wantsPage(r *http.Request) bool { return strings.Contains(r.Header.Get("Accept"), "text/html") }

var errEmbedded = errors.New("a page of another origin embeds it, or leads to a profile")

// isEmbedded reports whether a page of another origin embeds the resource as a script, image or frame.
// Such a page cannot read the response. But it could make the gateway search in the name of its
// visitor, and draw conclusions from the response time. A link to a page is allowed, but not to a
// profile in /debug/, because profiles cost time and memory. Requests without the header
// Sec-Fetch-Site are not from browsers, so they embed nothing.
func isEmbedded(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return false
	}
	return strings.HasPrefix(r.URL.Path, "/debug/") || r.Header.Get("Sec-Fetch-Mode") != "navigate" ||
		r.Header.Get("Sec-Fetch-Dest") != "document"
}

type handler struct{ opts Options }

// operatorsOnly calls next for operators. If an admin token is configured, it redirects the browsers of
// other people to the sign-in page. For all other callers, it responds with 403.
func (h handler) operatorsOnly(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch {
		case h.opts.Operators.Include(r):
			next(w, r)
		case h.opts.Operators.askToSignIn(w, r):
		case h.opts.Operators.HaveToken():
			http.Error(w, "forbidden: call with the admin token", http.StatusForbidden)
		default:
			http.Error(w,
				"forbidden: call from this machine, or configure an admin token and call with it", http.StatusForbidden)
		}
	}
}

func (h handler) serveReady(w http.ResponseWriter, r *http.Request) {
	readiness := Readiness{Ready: h.opts.View.IsReady()}
	if h.opts.Operators.Include(r) {
		readiness = h.opts.View.Ready()
	}
	status := http.StatusOK
	if !readiness.Ready {
		status = http.StatusServiceUnavailable
	}
	WriteJSON(w, status, readiness)
}

// serveReload loads the configuration again and responds with the result. The reload continues if the
// caller disconnects.
func (h handler) serveReload(w http.ResponseWriter, r *http.Request) {
	err := h.opts.Reload(context.WithoutCancel(r.Context()), h.opts.Operators.Client(r))
	status := http.StatusOK
	switch {
	case errors.Is(err, publish.ErrStopped):
		status = http.StatusServiceUnavailable
	case err != nil:
		status = http.StatusUnprocessableEntity // the configuration was refused
	}
	WriteJSON(w, status, h.opts.View.Configuration())
}

// WriteJSON responds with a value as JSON, which browsers do not store.
func WriteJSON(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	_ = encoder.Encode(value) // an error means that the client has disconnected
}

// addAPI adds the API: the content of the console's pages as JSON.
func (h handler) addAPI(mux *http.ServeMux) {
	mux.HandleFunc("GET /api/catalog", h.answers(func(r *http.Request) (any, error) {
		query, err := ReadQuery(r)
		if err != nil {
			return nil, err
		}
		return h.opts.View.Search(query)
	}))
	mux.HandleFunc("GET /api/upstreams", h.answers(func(r *http.Request) (any, error) {
		upstreams, err := h.opts.View.Upstreams(r.FormValue("team"))
		return struct {
			Upstreams []UpstreamHealth `json:"upstreams"`
		}{upstreams}, err
	}))
	mux.HandleFunc("GET /api/explain", h.answers(func(r *http.Request) (any, error) {
		return h.opts.View.Explain(r.FormValue("name"), r.FormValue("as"))
	}))
	mux.HandleFunc("GET /api/usage", h.answers(func(*http.Request) (any, error) { return h.opts.View.Usage() }))
	mux.HandleFunc("GET /api/config", h.answers(func(*http.Request) (any, error) {
		state := h.opts.View.Configuration()
		return struct {
			Hash        string              `json:"hash"`
			Loaded      time.Time           `json:"loaded"`
			Refused     *time.Time          `json:"refused,omitempty"`
			Files       []LoadedFile        `json:"files"`
			Diagnostics []config.Diagnostic `json:"diagnostics"`
		}{h.opts.View.Snapshot().Config.Hash, state.Loaded, state.Refused, state.Files, state.Diagnostics}, nil
	}))
}

// answers returns a handler that responds to operators with the result of a function as JSON. For an
// error, the response is 400 or 500 with an object that contains the error's text.
func (h handler) answers(answer func(r *http.Request) (any, error)) http.HandlerFunc {
	return h.operatorsOnly(func(w http.ResponseWriter, r *http.Request) {
		value, err := answer(r)
		status := http.StatusOK
		if err != nil {
			status, value = http.StatusInternalServerError, map[string]string{"error": err.Error()}
			if _, ok := errors.AsType[*QueryError](err); ok {
				status = http.StatusBadRequest
			}
		}
		WriteJSON(w, status, value)
	})
}

// ReadQuery parses the form values q, team, as and page of a request. The error is a [*QueryError].
func ReadQuery(r *http.Request) (CatalogQuery, error) {
	q := CatalogQuery{Text: r.FormValue("q"), Team: r.FormValue("team"), As: r.FormValue("as")}
	if page := r.FormValue("page"); page != "" {
		var err error
		if q.Page, err = strconv.Atoi(page); err != nil || q.Page < 1 {
			return CatalogQuery{}, &QueryError{"page: write a number from 1 on"}
		}
	}
	return q, nil
}
