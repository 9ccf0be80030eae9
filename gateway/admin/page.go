package admin

import (
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/promptweir/promptweir/upstream"
)

// The page shows what /readyz says, for somebody who was woken up by it: what is wrong comes first, with what to do about
// it. It is one document without scripts that loads nothing.

//go:embed page.html
var pageHTML string

//go:embed page.css
var pageCSS string

// page is the data of the template.
type page struct {
	Readiness

	Style template.CSS
	Now   time.Time
	// Rows are the upstreams; those that need attention come first.
	Rows []pageRow
	// Troubled counts those that need attention.
	Troubled int
}

// pageRow is an upstream as the page shows it.
type pageRow struct {
	UpstreamHealth

	// Level sorts and colours the row; Condition is the same in words.
	Level     pageLevel
	Condition string
}

// pageLevel is how urgently something needs attention. Its text is a class of the style sheet.
type pageLevel int

const (
	levelBad pageLevel = iota
	levelPoor
	levelGood
)

func (l pageLevel) String() string { return [...]string{"bad", "poor", "good"}[l] }

func newPage(r Readiness, now time.Time) page {
	p := page{Readiness: r, Style: template.CSS(pageCSS), Now: now}
	for _, u := range r.Upstreams {
		row := pageRow{UpstreamHealth: u}
		row.Level, row.Condition = u.condition()
		if row.Level != levelGood {
			p.Troubled++
		}
		p.Rows = append(p.Rows, row)
	}
	slices.SortStableFunc(p.Rows, func(a, b pageRow) int { return cmp.Compare(a.Level, b.Level) })
	return p
}

// condition describes an upstream in a word or two.
func (h *UpstreamHealth) condition() (pageLevel, string) {
	down := 0
	for _, endpoint := range h.Endpoints {
		if endpoint.Reason != "" {
			down++
		}
	}
	switch {
	case h.Reason == string(upstream.Draining):
		return levelPoor, "drained by an operator"
	case h.Reason != "" && !h.Connected:
		return levelBad, "down"
	case h.Failing:
		return levelBad, "connected, but gets fail"
	case h.Reason != "":
		return levelPoor, "connected, but its list is not fresh"
	case !h.Listed:
		return levelPoor, "starting"
	case down > 0:
		return levelPoor, fmt.Sprintf("up, but %s of %d in trouble", count(down, "replica"), len(h.Endpoints))
	case !h.Connected:
		return levelPoor, "not connected"
	}
	return levelGood, "up"
}

// Level returns that of the whole gateway.
func (p *page) Level() pageLevel {
	switch {
	case !p.Ready:
		return levelBad
	case p.Attention() != "":
		return levelPoor
	}
	return levelGood
}

// Attention says what needs attention; it is empty where nothing does.
func (p *page) Attention() string {
	var all []string
	if p.Store != nil && !p.Store.Here {
		all = append(all, "the store is away, and each replica works alone; the log says why")
	}
	if p.AuditProblem != "" {
		all = append(all, "the audit log cannot be written: "+p.AuditProblem)
	}
	if p.Configuration.Refused != nil {
		all = append(all, "the last configuration was refused")
	}
	if p.Troubled > 0 {
		all = append(all, fmt.Sprintf("%d of %s in trouble", p.Troubled, count(len(p.Rows), "upstream")))
	}
	if n := len(p.Reports); n > 0 {
		all = append(all, count(n, "report")+" to fix")
	}
	return strings.Join(all, ", ")
}

// When returns a time, and how long ago it was.
func (p *page) When(t time.Time) string {
	return t.UTC().Format("2006-01-02 15:04:05 MST") + " (" + p.For(t) + " ago)"
}

// For returns how long ago a time was, as precisely as a reader needs.
func (p *page) For(t time.Time) string {
	const day = 24 * time.Hour
	switch d := p.Now.Sub(t); {
	case d < time.Minute:
		return fmt.Sprintf("%d s", max(0, d/time.Second))
	case d < time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d < 2*day:
		return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
	default:
		return fmt.Sprintf("%d days", d/day)
	}
}

// count returns a number of things.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// sentence makes a sentence of a clause.
func sentence(clause string) string {
	if clause == "" {
		return ""
	}
	first, size := utf8.DecodeRuneInString(clause)
	return string(unicode.ToUpper(first)) + clause[size:] + "."
}

func newPageTemplate() (*template.Template, error) {
	return template.New("page").Funcs(template.FuncMap{"count": count, "sentence": sentence}).Parse(pageHTML)
}

// newPageHandler serves the page. Its content security policy allows nothing but the one style sheet, whatever an
// upstream's names may contain.
func newPageHandler(ready func() Readiness) http.HandlerFunc {
	sum := sha256.Sum256([]byte(pageCSS))
	policy := "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	shown := template.Must(newPageTemplate())
	return func(w http.ResponseWriter, _ *http.Request) {
		header := w.Header()
		header.Set("Content-Type", "text/html; charset=utf-8")
		header.Set("Content-Security-Policy", policy)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Cache-Control", "no-store")
		p := newPage(ready(), time.Now())
		_ = shown.Execute(w, &p) // an error means that the caller has gone
	}
}
