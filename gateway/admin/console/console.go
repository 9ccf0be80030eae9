package console

import (
	"bufio"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	. "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"

	"github.com/promptweir/promptweir/gateway/admin"
	"github.com/promptweir/promptweir/upstream/wire"
)

//go:embed static
var staticFS embed.FS

// Options are the actions of the console. In all of them, client is the operator's network address.
type Options struct {
	Logger *slog.Logger
	// Call handles a prompts/get or completion/complete for an operator.
	Call func(ctx context.Context, o Operator, method string, params wire.Object) (jsontext.Value, error)
	// Reload loads the configuration again.
	Reload func(ctx context.Context, client string) error
	// Connect makes an upstream that is down connect now, without waiting for its next attempt.
	Connect func(client, upstream string) error
}

// New returns the handlers of the console.
func New(view *admin.View, operators *admin.Operators, opts Options) admin.Console {
	c := &console{view: view, operators: operators, opts: opts, version: hashStatic()}
	return admin.Console{
		Pages: map[string]http.HandlerFunc{
			"GET /{$}":           c.serve(c.overview),
			"GET /prompts":       c.serve(c.prompts),
			"GET /prompt":        c.serve(c.prompt),
			"POST /prompt":       c.serve(c.prompt), // with arguments in the body
			"GET /upstreams":     c.serve(c.upstreams),
			"GET /usage":         c.serve(c.usage),
			"GET /configuration": c.serve(c.configuration),
			"GET /changes":       c.serveChanges,
			"POST /reload":       c.acts(c.reload),
			"POST /connect":      c.acts(c.connect),
			"POST /sign-out":     c.signOut,
			"POST /try":          c.proven(c.try),
			"POST /complete":     c.proven(c.complete),
		},
		Entrance: map[string]http.HandlerFunc{
			"GET /sign-in":       c.askForToken,
			"POST /sign-in":      c.signIn,
			"GET /static/{name}": c.serveStatic,
			// Browsers request this path without a link to it.
			"GET /favicon.ico": http.RedirectHandler("/static/icon.svg", http.StatusFound).ServeHTTP,
		},
		NotFound: c.notFound,
	}
}

type console struct {
	view      *admin.View
	operators *admin.Operators
	opts      Options
	version   string       // the hash of the static files
	trying    atomic.Int32 // the number of running gets of all operators
}

// page returns the frame of the requested page.
func (c *console) page(r *http.Request) *page {
	p := &page{
		as: r.FormValue("as"), now: time.Now(), uri: r.URL.RequestURI(),
		signedIn: c.operators.HasSession(r), exposed: c.operators.Exposed(r),
	}
	// For callers who are not operators, the version stays empty: it would reveal changes.
	if c.operators.Include(r) {
		p.version = c.view.Version()
	}
	return p
}

// serve returns a handler that writes a page with the content from fill. The error of fill must be an
// [*admin.QueryError].
func (c *console) serve(fill func(r *http.Request, p *page) (Node, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		// POST /prompt has arguments in its body.
		r.Body = http.MaxBytesReader(w, r.Body, maxTried)
		p := c.page(r)
		content, err := fill(r, p)
		if query, ok := errors.AsType[*admin.QueryError](err); ok {
			if p.as == "" {
				p.uri = "/"
			} else { // remove the principal: if it is invalid, it fails on every page
				p.uri, p.as = p.everybody(), ""
			}
			c.writeProblem(w, http.StatusBadRequest, p, "This cannot be shown", query)
			return
		}
		c.write(w, http.StatusOK, p, content)
	}
}

// contentPolicy allows only the console's own files, and images and sounds in data: URLs.
const contentPolicy = "default-src 'none'; style-src 'self'; script-src 'self'; " +
	"connect-src 'self'; img-src 'self' data:; media-src data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// write writes a page.
func (c *console) write(w http.ResponseWriter, status int, p *page, content Node) {
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Security-Policy", contentPolicy)
	header.Set("X-Frame-Options", "DENY")
	// Not no-referrer: browsers would then send forms with the Origin "null", which is refused.
	header.Set("Referrer-Policy", "same-origin")
	header.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	buffered := bufio.NewWriter(w)
	_ = p.document(c.version, content).Render(buffered)
	_ = buffered.Flush() // an error means that the client has disconnected
}

// writeProblem writes a page that explains an error, with a link back to p.uri.
func (c *console) writeProblem(w http.ResponseWriter, status int, p *page, title string, err error) {
	p.title = title
	c.write(w, status, p, Section(
		Class("door"), H1(Text(title)), P(Class("card poor"), Role("alert"), bdi(err.Error())),
		P(A(href(p.uri), Text("Back"))),
	))
}

// notFound writes a page for a path without a handler.
func (c *console) notFound(w http.ResponseWriter, r *http.Request) {
	p := c.page(r)
	p.uri = "/"
	c.writeProblem(w, http.StatusNotFound, p, "There is no such page", fmt.Errorf("the console has nothing at %s", r.URL.Path))
}

// serveChanges responds with [admin.View.Version]. The script of a page compares it every two seconds.
func (c *console) serveChanges(w http.ResponseWriter, _ *http.Request) {
	admin.WriteJSON(w, http.StatusOK, map[string]string{"version": c.view.Version()})
}

// hashStatic returns a hash of the static files. URLs of static files have it as their query, so that
// browsers may cache them for ever.
func hashStatic() string {
	hash := sha256.New()
	entries, err := staticFS.ReadDir("static")
	for _, entry := range entries {
		content, readErr := staticFS.ReadFile("static/" + entry.Name())
		err = errors.Join(err, readErr)
		hash.Write(content)
	}
	if err != nil {
		panic(err) // cannot happen: the files are embedded in the program
	}
	return hex.EncodeToString(hash.Sum(nil)[:8])
}

// serveStatic serves the style sheet, the script and the icon.
func (c *console) serveStatic(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; sandbox")
	// Cache only URLs with the current hash: any other URL may have different content after an update.
	header.Set("Cache-Control", "no-cache")
	if r.URL.RawQuery == c.version {
		header.Set("Cache-Control", "max-age=31536000, immutable")
	}
	http.ServeFileFS(w, r, staticFS, "static/"+r.PathValue("name"))
}
