package admin

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

	"github.com/promptweir/promptweir/gateway/snapshot"
)

// Options are what the admin listener shows and does.
type Options struct {
	// Snapshot returns the current one.
	Snapshot func() *snapshot.Snapshot
	// Ready returns the gateway's health.
	Ready func() Readiness
	// Reload loads the configuration again, and Configuration returns the outcome of the last load.
	Reload        func(context.Context) error
	Configuration func() *ConfigurationState
	// Metrics is served as /metrics, Debug under /debug/ to operators; Debug may be nil.
	Metrics, Debug http.Handler
}

// New returns the handler of the admin listener: a page that says how everything is, /healthz, /readyz, /metrics, POST
// /-/reload and what is under /debug/. Host and Origin are checked as on the MCP endpoint. The page, what /readyz says beyond
// its status, reloading and debugging are for operators only.
func New(opts Options) http.Handler {
	h := handler{opts}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", h.operatorsOnly(newPageHandler(opts.Ready)))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", h.serveReady)
	mux.Handle("GET /metrics", opts.Metrics)
	mux.HandleFunc("POST /-/reload", h.operatorsOnly(h.serveReload))
	if opts.Debug != nil {
		mux.HandleFunc("/debug/", h.operatorsOnly(opts.Debug.ServeHTTP))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := opts.Snapshot().AdminOrigins.Request(r); err != nil {
			http.Error(w, "forbidden: "+err.Error(), http.StatusForbidden)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

type handler struct{ Options }

// operatorsOnly refuses everybody else.
func (h handler) operatorsOnly(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !h.isOperator(r) {
			http.Error(w, "forbidden: call from this machine, or with the admin token", http.StatusForbidden)
			return
		}
		next(w, r)
	}
}

// isOperator reports whether a request comes from somebody who runs the gateway: from this machine, or with the admin token.
func (h handler) isOperator(r *http.Request) bool {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	sum, want := sha256.Sum256([]byte(token)), h.Snapshot().Config.Admin.TokenSHA256.Reveal()
	known := want != [sha256.Size]byte{} && strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(sum[:], want[:]) == 1
	return known || fromLoopback(r)
}

// fromLoopback reports whether a request comes from this machine. A forwarding proxy on this machine would hide where a
// request comes from, so one that says that it forwards does not count.
func fromLoopback(r *http.Request) bool {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil || r.Header.Get("X-Forwarded-For") != "" || r.Header.Get("Forwarded") != "" {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

func (h handler) serveReady(w http.ResponseWriter, r *http.Request) {
	readiness := h.Ready()
	w.Header().Set("Content-Type", "application/json")
	if !readiness.Ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	if !h.isOperator(r) {
		readiness = Readiness{Ready: readiness.Ready}
	}
	writeIndented(w, readiness)
}

// serveReload reloads, even if the caller does not wait for the end, and answers with the outcome.
func (h handler) serveReload(w http.ResponseWriter, r *http.Request) {
	err := h.Reload(context.WithoutCancel(r.Context()))
	w.Header().Set("Content-Type", "application/json")
	switch {
	case errors.Is(err, snapshot.ErrStopped):
		w.WriteHeader(http.StatusServiceUnavailable)
	case err != nil:
		w.WriteHeader(http.StatusUnprocessableEntity)
	}
	writeIndented(w, h.Configuration())
}

func writeIndented(w io.Writer, value any) {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	_ = encoder.Encode(value) // an error means that the caller has gone
}
