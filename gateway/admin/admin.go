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
	"time"

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
	// SetDrained takes an upstream out of service for the operator at an address, or lets it serve again, and records that. An
	// unknown one is a [snapshot.ErrUnknownUpstream].
	SetDrained func(ctx context.Context, client, upstream string, drained bool) (since time.Time, err error)
	// Metrics is served as /metrics, Debug under /debug/ to operators; Debug may be nil.
	Metrics, Debug http.Handler
	// Refused is called with the address of a caller whose token was refused, and Acted with that of an operator and what that one
	// did, before the answer.
	Refused func(client string)
	Acted   func(client, act string, err error)
}

// New returns the handler of the admin listener: the console, /healthz, /readyz, /metrics, POST
// /-/reload, POST /api/drain and what is under /debug/. Host and Origin are checked as on the MCP endpoint. The page, what /readyz says beyond
// its status, reloading, draining and debugging are for operators only, and closed to pages of other origins in an operator's browser.
func New(opts Options) http.Handler {
	h := handler{opts}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", h.operatorsOnly(newPageHandler(opts.Ready)))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", h.serveReady)
	mux.Handle("GET /metrics", opts.Metrics)
	mux.HandleFunc("POST /-/reload", h.operatorsOnly(h.serveReload))
	mux.HandleFunc("POST /api/drain", h.operatorsOnly(h.serveDrain))
	if opts.Debug != nil {
		mux.HandleFunc("/debug/", h.operatorsOnly(sameOriginOnly(opts.Debug.ServeHTTP)))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isPlainCheck(r) {
			mux.ServeHTTP(w, r)
			return
		}
		if err := opts.Snapshot().AdminOrigins.Request(r); err != nil {
			http.Error(w, "forbidden: "+err.Error(), http.StatusForbidden)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// isPlainCheck reports whether a request is a load balancer's health check in HTTP/1.0, which names no host. Browsers always do.
func isPlainCheck(r *http.Request) bool {
	return r.Host == "" && r.Header.Get("Origin") == "" && (r.URL.Path == "/healthz" || r.URL.Path == "/readyz")
}

type handler struct{ Options }

// operatorsOnly refuses everybody else.
func (h handler) operatorsOnly(next http.HandlerFunc) http.HandlerFunc {
	// A page on another port of this machine is on the same site: the origin check lets it pass, this does not.
	protection := http.NewCrossOriginProtection()
	return func(w http.ResponseWriter, r *http.Request) {
		switch err := protection.Check(r); {
		case err != nil:
			http.Error(w, "forbidden: "+err.Error(), http.StatusForbidden)
		case !h.isOperator(r) && h.hasToken():
			if r.Header.Get("Authorization") != "" {
				h.Refused(r.RemoteAddr)
			}
			http.Error(w, "forbidden: call with the admin token", http.StatusForbidden)
		case !h.isOperator(r):
			http.Error(w, "forbidden: call from this machine, or configure an admin token and call with it", http.StatusForbidden)
		default:
			next(w, r)
		}
	}
}

// sameOriginOnly refuses requests by pages of other origins, GETs included: a profile costs time and memory. Programs
// other than browsers do not send the header.
func sameOriginOnly(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("Sec-Fetch-Site") {
		case "", "same-origin", "none":
			next(w, r)
		default:
			http.Error(w, "forbidden: cross-origin request", http.StatusForbidden)
		}
	}
}

// isOperator reports whether a request comes from somebody who runs the gateway: with the admin token or, where none is
// configured, from this machine.
func (h handler) isOperator(r *http.Request) bool {
	if !h.hasToken() {
		return fromLoopback(r)
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	sum, want := sha256.Sum256([]byte(token)), h.Snapshot().Config.Admin.TokenSHA256.Reveal()
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(sum[:], want[:]) == 1
}

func (h handler) hasToken() bool {
	return h.Snapshot().Config.Admin.TokenSHA256.Reveal() != [sha256.Size]byte{}
}

// fromLoopback reports whether a request comes from this machine. A forwarding proxy on this machine would hide where a
// request comes from, so one that says that it forwards does not count.
func fromLoopback(r *http.Request) bool {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil || isForwarded(r.Header) {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// isForwarded reports whether a header shows that a proxy forwarded the request.
func isForwarded(header http.Header) bool {
	for name := range header {
		switch {
		case name == "Forwarded", name == "Via", name == "X-Real-Ip", strings.HasPrefix(name, "X-Forwarded-"):
			return true
		}
	}
	return false
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
	h.Acted(r.RemoteAddr, "reload", err)
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
