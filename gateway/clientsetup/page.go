package clientsetup

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"net/http"
	"strings"
	"sync"
)

//go:embed page.html
var pageHTML string

//go:embed page.css
var pageCSS string

// pageTemplate is parsed when the first browser comes, and only once: it is filled with an address
// and the kind of access.
var pageTemplate = sync.OnceValue(func() *template.Template { //nolint:gochecknoglobals // constant
	return template.Must(template.New("page").Parse(pageHTML))
})

// pagePolicy allows nothing but the one style sheet, whatever the address may contain.
var pagePolicy = func() string { //nolint:gochecknoglobals // constant
	sum := sha256.Sum256([]byte(pageCSS))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}()

// page is the data of the template.
type page struct {
	Style    template.CSS
	Endpoint string
	Access   Access
	Clients  []Client
}

// SignsIn, NeedsToken and NeedsCertificate say which access it is, to the template.
func (p page) SignsIn() bool { return p.Access == SignIn }

// NeedsToken reports whether clients need a token.
func (p page) NeedsToken() bool { return p.Access == Token }

// NeedsCertificate reports whether clients need a certificate.
func (p page) NeedsCertificate() bool { return p.Access == Certificate }

// TokenVariable is [TokenVariable].
func (p page) TokenVariable() string { return TokenVariable }

// ServePage answers a browser with a page on how to point clients at an endpoint.
func ServePage(w http.ResponseWriter, endpoint string, access Access) {
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Security-Policy", pagePolicy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cache-Control", "no-store")
	header.Add("Vary", "Accept")
	_ = pageTemplate().Execute(w, page{template.CSS(pageCSS), endpoint, access, For(endpoint, "prompts", access)}) // an error means that the browser has gone
}

// IsBrowser reports whether a request comes from the address bar of a browser rather than from an
// MCP client: it wants HTML, by name, and no stream of events.
func IsBrowser(r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	wantsHTML := false
	for _, value := range r.Header["Accept"] {
		for item := range strings.SplitSeq(value, ",") {
			name, _, _ := strings.Cut(item, ";")
			switch strings.ToLower(strings.TrimSpace(name)) {
			case "text/html":
				wantsHTML = true
			case "text/event-stream":
				return false
			}
		}
	}
	return wantsHTML
}
