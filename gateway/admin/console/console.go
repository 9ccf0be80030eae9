package console

import (
	"bufio"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"path"
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

// Options are what a console needs beside what it shows.
type Options struct {
	Logger *slog.Logger
	// Call carries out a prompts/get or completion/complete for an operator.
	Call func(ctx context.Context, o Operator, method string, params wire.Object) (jsontext.Value, error)
	// Reload loads the configuration again, and Connect ends an upstream's wait for the next attempt
	// to connect, for the operator at a network address.
	Reload  func(ctx context.Context, client string) error
	Connect func(client, upstream string) error
}

// New returns the pages of the console.
func New(view *admin.View, operators *admin.Operators, opts Options) admin.Console {
	c := &console{view: view, operators: operators, opts: opts, static: newStaticFiles()}
	return admin.Console{
		Pages: map[string]http.HandlerFunc{
			"GET /{$}":           c.serve(c.overview),
			"GET /prompts":       c.serve(c.prompts),
			"GET /prompt":        c.serve(c.prompt),
			"POST /prompt":       c.serve(c.prompt), // with arguments, which no address has
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
			"GET /sign-in":       c.serve(c.askForToken),
			"POST /sign-in":      c.signIn,
			"GET /static/{name}": c.static.serve,
			"GET /favicon.ico":   c.static.serveIcon, // where browsers look for one without a page
		},
		NotFound: c.notFound,
	}
}

type console struct {
	view      *admin.View
	operators *admin.Operators
	opts      Options
	static    staticFiles
	// trying counts the gets that are being tried, by all operators.
	trying atomic.Int32
}

// page returns what the page that a request is for has around its content.
func (c *console) page(r *http.Request) *page {
	p := &page{
		as: r.FormValue("as"), now: time.Now(), uri: r.URL.RequestURI(),
		signedIn: c.operators.HasSession(r), exposed: c.operators.Exposed(r),
	}
	// Others are not even told when something changes.
	if c.operators.Include(r) {
		p.version = c.view.Version()
	}
	return p
}

// serve serves a page whose content a function makes.
func (c *console) serve(fill func(r *http.Request, p *page) (Node, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		// The page of a prompt is sent the arguments that are being tried.
		r.Body = http.MaxBytesReader(w, r.Body, maxTried)
		p := c.page(r)
		content, err := fill(r, p)
		if query, ok := errors.AsType[*admin.QueryError](err); ok {
			if p.as == "" {
				p.uri = "/"
			} else { // most likely that is what cannot be read, here and on any other page
				p.uri, p.as = p.everybody(), ""
			}
			c.writeProblem(w, http.StatusBadRequest, p, "This cannot be shown", query)
			return
		}
		if redirect, ok := errors.AsType[*redirectError](err); ok {
			http.Redirect(w, r, redirect.to, http.StatusSeeOther)
			return
		}
		c.write(w, http.StatusOK, p, content)
	}
}

// redirectError sends the browser to another page.
type redirectError struct{ to string }

func (e *redirectError) Error() string { return "see " + e.to }

// contentPolicy allows the console's own files, and the images and sounds that a page itself has.
const contentPolicy = "default-src 'none'; style-src 'self'; script-src 'self'; " +
	"connect-src 'self'; img-src 'self' data:; media-src data:; " +
	"base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// write writes a page.
func (c *console) write(w http.ResponseWriter, status int, p *page, content Node) {
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Security-Policy", contentPolicy)
	header.Set("X-Frame-Options", "DENY")
	// With no-referrer, browsers would send forms with the Origin "null".
	header.Set("Referrer-Policy", "same-origin")
	header.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	buffered := bufio.NewWriter(w)
	_ = p.document(c.static, content).Render(buffered)
	_ = buffered.Flush() // an error means that the caller has gone
}

// writeProblem writes a page that says what is wrong and leads back to the page's own address.
func (c *console) writeProblem(
	w http.ResponseWriter, status int, p *page, title string, err error,
) {
	p.title = title
	c.write(w, status, p, Section(
		Class("door"), H1(Text(title)), P(Class("card poor"), Role("alert"), bdi(err.Error())),
		P(A(href(p.uri), Text("Back"))),
	))
}

// notFound says to a person that there is nothing, and where there is something.
func (c *console) notFound(w http.ResponseWriter, r *http.Request) {
	p := c.page(r)
	p.title = "Not found"
	c.write(w, http.StatusNotFound, p, Section(Class("door"), H1(Text("There is no such page")),
		P(Text("The console has nothing at "), Code(bdi(r.URL.Path)), Text(".")),
		P(A(href("/"), Text("The overview")), Text(" and "), A(href("/prompts"), Text("all prompts")),
			Text(" are a good start.")),
		If(c.operators.Include(r) && r.URL.Path == c.view.Snapshot().Config.Gateway.Path,
			P(Text("Clients use "), Code(bdi(c.view.Endpoint(r))), Text(".")))))
}

// serveChanges says which version of everything is the present one.
func (c *console) serveChanges(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	// an error means that the caller has gone
	_ = json.NewEncoder(w).Encode(map[string]string{"version": c.view.Version()})
}

// staticFiles are the style and the scripts, by name.
type staticFiles map[string]staticFile

type staticFile struct {
	kind, hash string
	content    []byte
}

func newStaticFiles() staticFiles {
	files := staticFiles{}
	kinds := map[string]string{
		".css": "text/css; charset=utf-8",
		".js":  "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
	}
	entries, err := staticFS.ReadDir("static")
	if err != nil {
		panic(err) // they are part of the program
	}
	for _, entry := range entries {
		content, err := staticFS.ReadFile("static/" + entry.Name())
		if err != nil {
			panic(err)
		}
		sum := sha256.Sum256(content)
		files[entry.Name()] = staticFile{
			kinds[path.Ext(entry.Name())], hex.EncodeToString(sum[:8]),
			content,
		}
	}
	return files
}

// address returns where a file is. It changes with the content, so that browsers may keep it.
func (f staticFiles) address(name string) string { return "/static/" + name + "?" + f[name].hash }

func (f staticFiles) serve(w http.ResponseWriter, r *http.Request) {
	f.serveNamed(w, r, r.PathValue("name"))
}

func (f staticFiles) serveIcon(w http.ResponseWriter, r *http.Request) {
	f.serveNamed(w, r, "icon.svg")
}

func (f staticFiles) serveNamed(w http.ResponseWriter, r *http.Request, name string) {
	file, ok := f[name]
	if !ok {
		http.NotFound(w, r)
		return
	}
	header := w.Header()
	header.Set("Content-Type", file.kind)
	header.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; sandbox")
	// Without the hash, the address may mean another version's file after an update.
	header.Set("Cache-Control", "no-cache")
	if r.URL.RawQuery == file.hash {
		header.Set("Cache-Control", "max-age=31536000, immutable")
	}
	_, _ = w.Write(file.content) // an error means that the caller has gone
}
