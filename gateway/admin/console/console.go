package console

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/gateway/admin"
	"github.com/promptweir/promptweir/upstream/wire"
)

//go:embed pages
var pagesFS embed.FS

//go:embed static
var staticFS embed.FS

// Options are what a console needs beside what it shows.
type Options struct {
	Logger *slog.Logger
	// Call carries out a prompts/get or completion/complete for an operator, who may be asked
	// during a get.
	Call func(ctx context.Context, o Operator, method string, params wire.Object, reply Reply) (jsontext.Value, error)
	// Reload loads the configuration again, and SetDrained takes an upstream out of service or lets
	// it serve again, for the operator at a network address.
	Reload     func(ctx context.Context, client string) error
	SetDrained func(ctx context.Context, client, upstream string, drained bool) (since time.Time, err error)
}

// New returns the pages of the console.
func New(view *admin.View, operators *admin.Operators, opts Options) admin.Console {
	c := &console{view: view, operators: operators, opts: opts, static: newStaticFiles()}
	c.parse("overview", "prompts", "prompt", "upstreams", "configuration", "sign-in", "problem")
	return admin.Console{
		Pages: map[string]http.HandlerFunc{
			"GET /{$}":           c.serve(c.overview),
			"GET /prompts":       c.serve(c.prompts),
			"GET /prompt":        c.serve(c.prompt),
			"GET /upstreams":     c.serve(c.upstreams),
			"GET /configuration": c.serve(c.configuration),
			"GET /changes":       c.serveChanges,
			"POST /reload":       c.acts(c.reload),
			"POST /drain":        c.acts(c.drain),
			"POST /sign-out":     c.signOut,
			"POST /try":          c.proven(c.try),
			"POST /try/{id}":     c.proven(c.answerRun),
			"POST /complete":     c.proven(c.complete),
		},
		Entrance: map[string]http.HandlerFunc{
			"GET /sign-in":       c.serve(c.askForToken),
			"POST /sign-in":      c.signIn,
			"GET /static/{name}": c.static.serve,
			"GET /favicon.ico":   c.static.serveIcon, // where browsers look for one without a page
		},
	}
}

type console struct {
	view      *admin.View
	operators *admin.Operators
	opts      Options
	static    staticFiles
	runs      runs
	templates map[string]func() *template.Template
}

// parse has the templates of pages parsed when the page is first shown. Each has its own definition
// of what is between header and footer. Of all pages they are 600 KB in small pieces, which is a
// fourth of what each garbage collection of a gateway with few prompts looks at.
func (c *console) parse(names ...string) {
	c.templates = map[string]func() *template.Template{}
	for _, name := range names {
		c.templates[name] = sync.OnceValue(func() *template.Template {
			t := template.New(name).Funcs(functions()).Funcs(template.FuncMap{"static": c.static.address})
			return template.Must(t.ParseFS(pagesFS, "pages/layout.html", "pages/parts.html",
				"pages/"+name+".html"))
		})
	}
}

// page is what each page has.
type page struct {
	// Name is that of its template, Title what the window is called.
	Name, Title string
	// As is whose view is shown, in all links; empty for everybody's.
	As string
	// Query is what was searched for.
	Query string
	// Version is that of what is shown, see [admin.View.Version]; empty where nothing of the
	// gateway is.
	Version string
	Now     time.Time
	// SignedIn says that there is a session to end, Exposed that it can be read on the way.
	SignedIn, Exposed bool
	// HasToken says that an admin token is configured, Proven that the caller has it.
	HasToken, Proven bool
	// Known are principals to choose from.
	Known []string
	// URI is the path and query of the page, or of the page to go back to.
	URI string
	// Content is what the page itself needs.
	Content any
}

// Link returns the address of another page with a query, whose names and values follow each other.
// It keeps whose view is shown.
func (p *page) Link(path string, query ...string) string {
	values := url.Values{}
	for i := 0; i+1 < len(query); i += 2 {
		if query[i+1] != "" {
			values.Set(query[i], query[i+1])
		}
	}
	if p.As != "" && !values.Has("as") {
		values.Set("as", p.As)
	}
	if len(values) == 0 {
		return path
	}
	return path + "?" + values.Encode()
}

// Everybody returns the address of the same page without a principal.
func (p *page) Everybody() string {
	u, err := url.Parse(p.URI)
	if err != nil {
		return "/"
	}
	values := u.Query()
	values.Del("as")
	return (&url.URL{Path: u.Path, RawQuery: values.Encode()}).String()
}

// serve serves a page whose content a function makes.
func (c *console) serve(fill func(r *http.Request, p *page) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		p := &page{
			Now: time.Now(), SignedIn: c.operators.HasSession(r), Exposed: c.operators.Exposed(r),
			HasToken: c.operators.HaveToken(),
			Proven:   c.operators.Proven(r), As: r.FormValue("as"), URI: r.URL.RequestURI(),
		}
		if c.operators.Include(r) {
			p.Version = c.view.Version()
		}
		status := http.StatusOK
		err := fill(r, p)
		if query, ok := errors.AsType[*admin.QueryError](err); ok {
			status = http.StatusBadRequest
			p.Name, p.Title, p.Content = "problem", "This cannot be shown", query.Error()
			if p.As == "" {
				p.URI = "/"
			} else { // most likely that is what cannot be read, here and on any other page
				p.URI, p.As = p.Everybody(), ""
			}
		} else if redirect, ok := errors.AsType[*redirectError](err); ok {
			http.Redirect(w, r, redirect.to, http.StatusSeeOther)
			return
		}
		c.write(w, status, p)
	}
}

// redirectError sends the browser to another page.
type redirectError struct{ to string }

func (e *redirectError) Error() string { return "see " + e.to }

// contentPolicy allows the console's own files, and the images and sounds that a page itself has.
const contentPolicy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; media-src data:; " +
	"base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// write writes a page.
func (c *console) write(w http.ResponseWriter, status int, p *page) {
	var out bytes.Buffer
	if err := c.templates[p.Name]().ExecuteTemplate(&out, "layout", p); err != nil {
		c.opts.Logger.Error("console page failed", slog.String("page", p.Name),
			slog.Any("error", err))
		http.Error(w, "internal error: the log says what happened", http.StatusInternalServerError)
		return
	}
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Security-Policy", contentPolicy)
	header.Set("X-Frame-Options", "DENY")
	header.Set("Referrer-Policy", "same-origin") // with no-referrer, browsers would send forms with the Origin "null"
	header.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(out.Bytes()) // an error means that the caller has gone
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
	header.Set("Cache-Control", "no-cache")
	if r.URL.RawQuery == file.hash {
		header.Set("Cache-Control", "max-age=31536000, immutable")
	}
	_, _ = w.Write(file.content) // an error means that the caller has gone
}
