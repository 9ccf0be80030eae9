package admin

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/snapshot"
)

// Options are what the admin listener shows and does.
type Options struct {
	View      *View
	Operators *Operators
	Console   Console
	// Reload loads the configuration again.
	Reload func(context.Context) error
	// Metrics is served as /metrics, Debug under /debug/ to operators; Debug may be nil.
	Metrics, Debug http.Handler
	// Acted is called with the address of an operator and what that one did, before the answer.
	Acted func(client, act string, err error)
}

// Console is the pages for people, by their patterns for [http.ServeMux].
type Console struct {
	// Pages are for operators, Entrance is for everybody: how to sign in, and how the pages look.
	Pages, Entrance map[string]http.HandlerFunc
	// NotFound answers a browser where there is nothing.
	NotFound http.HandlerFunc
}

// New returns the handler of the admin listener: the console, /healthz, /readyz, /metrics, the API,
// POST /-/reload and what is under /debug/. Host and Origin are checked as on the MCP endpoint, and
// pages of other origins can change nothing, another port of this machine included, or request
// anything as a part of themselves. The pages, the API, what /readyz says beyond its status,
// reloading and debugging are for operators only.
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
	// A page on another port of this machine is on the same site: the origin check lets it pass,
	// this does not.
	protection := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = opts.Operators.meet(r)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if isPlainCheck(r) {
			mux.ServeHTTP(w, r)
			return
		}
		err := opts.View.Snapshot().AdminOrigins.Request(r)
		if err == nil {
			err = protection.Check(r)
		}
		// Of which a page may show that it answers.
		if err == nil && isEmbedded(r) && r.URL.Path != "/healthz" {
			err = errEmbedded
		}
		if err != nil {
			http.Error(w, "forbidden: "+err.Error(), http.StatusForbidden)
			return
		}
		// The mux itself would answer in plain text.
		if _, pattern := mux.Handler(r); pattern == "" && r.Method == http.MethodGet && wantsPage(r) {
			opts.Console.NotFound(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// isPlainCheck reports whether a request is a load balancer's health check in HTTP/1.0, which names
// no host. Browsers always do.
func isPlainCheck(r *http.Request) bool {
	return r.Host == "" && r.Header.Get("Origin") == "" &&
		(r.URL.Path == "/healthz" || r.URL.Path == "/readyz")
}

// wantsPage reports whether a request comes from a browser that shows what is answered.
func wantsPage(r *http.Request) bool { return strings.Contains(r.Header.Get("Accept"), "text/html") }

var errEmbedded = errors.New("a page of another origin embeds it, or leads to a profile")

// isEmbedded reports whether a page of another origin requests something by a script, an image or a
// frame. It could not read the answer, but have the gateway search and evaluate, any number of
// times, in the name of whoever looks at the page; and learn from the time that takes. That a
// person follows a link there is fine, but for profiles, which cost time and memory. Programs other
// than browsers do not send the header.
func isEmbedded(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return false
	}
	return strings.HasPrefix(r.URL.Path, "/debug/") || r.Header.Get("Sec-Fetch-Mode") != "navigate" ||
		r.Header.Get("Sec-Fetch-Dest") != "document"
}

type handler struct{ opts Options }

// operatorsOnly refuses everybody else, and sends people to where they can sign in.
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
	w.Header().Set("Content-Type", "application/json")
	if !readiness.Ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	writeIndented(w, readiness)
}

// serveReload reloads, even if the caller does not wait for the end, and answers with the outcome.
func (h handler) serveReload(w http.ResponseWriter, r *http.Request) {
	err := h.opts.Reload(context.WithoutCancel(r.Context()))
	h.opts.Acted(h.opts.Operators.Client(r), "reload", err)
	w.Header().Set("Content-Type", "application/json")
	switch {
	case errors.Is(err, snapshot.ErrStopped):
		w.WriteHeader(http.StatusServiceUnavailable)
	case err != nil:
		// By which commands tell a configuration that is refused from a request that failed.
		w.WriteHeader(http.StatusUnprocessableEntity)
	}
	writeIndented(w, h.opts.View.Configuration())
}

func writeIndented(w io.Writer, value any) {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	_ = encoder.Encode(value) // an error means that the caller has gone
}

// addAPI adds what programs are told: the same as on the pages, as JSON.
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

// answers serves operators what a function returns.
func (h handler) answers(answer func(r *http.Request) (any, error)) http.HandlerFunc {
	return h.operatorsOnly(func(w http.ResponseWriter, r *http.Request) { serveJSON(w, r, answer) })
}

// ReadQuery reads the query of a request.
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

// serveJSON answers with a value or with an object that says what is wrong.
func serveJSON(w http.ResponseWriter, r *http.Request, answer func(r *http.Request) (any, error)) {
	value, err := answer(r)
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Cache-Control", "no-store")
	if err != nil {
		status := http.StatusInternalServerError
		if _, ok := errors.AsType[*QueryError](err); ok {
			status = http.StatusBadRequest
		}
		w.WriteHeader(status)
		value = struct {
			Error string `json:"error"`
		}{err.Error()}
	}
	writeIndented(w, value)
}
