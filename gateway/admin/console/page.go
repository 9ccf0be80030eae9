package console

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	. "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"
)

// page is the frame around a page's content.
type page struct {
	// name identifies the page's link in the navigation.
	name string
	// title is the title of the window.
	title string
	// as is the principal of *View as*. It is empty for everybody. All links contain it.
	as string
	// sees is a sentence about the principal and the page's prompt. It is nil for pages without a prompt.
	sees Node
	// query is the text of the search.
	query string
	// version is [admin.View.Version]. It is empty if the caller is not an operator.
	version string
	now     time.Time
	// signedIn is true if the caller has a session.
	signedIn bool
	// exposed is true if the token and the session can be read on the network.
	exposed bool
	// uri is the path and query of the page, or of the page to return to.
	uri string
}

// link returns the URL of a page. query contains names and values in turn. Empty values are left out.
// The URL also contains the principal of *View as*.
func (p *page) link(path string, query ...string) string {
	values := url.Values{}
	for i := 0; i+1 < len(query); i += 2 {
		if query[i+1] != "" {
			values.Set(query[i], query[i+1])
		}
	}
	if p.as != "" && !values.Has("as") {
		values.Set("as", p.as)
	}
	if len(values) == 0 {
		return path
	}
	return path + "?" + values.Encode()
}

// everybody returns the URL of the same page without *View as*.
func (p *page) everybody() string {
	u, err := url.Parse(p.uri)
	if err != nil {
		return "/"
	}
	values := u.Query()
	values.Del("as")
	return (&url.URL{Path: u.Path, RawQuery: values.Encode()}).String()
}

// document returns the HTML document with the page's frame around its content. version is the hash of
// the static files.
func (p *page) document(version string, content Node) Node {
	static := func(name string) string { return "/static/" + name + "?" + version }
	return Doctype(HTML(Lang("en"),
		Head(
			Raw(`<meta charset="utf-8"><meta name="color-scheme" content="light dark">`+
				`<meta name="viewport" content="width=device-width, initial-scale=1">`),
			TitleEl(Text(p.title+" – promptweir")),
			Link(Rel("icon"), href(static("icon.svg")), Type("image/svg+xml")),
			Link(Rel("stylesheet"), href(static("console.css"))),
			Script(src(static("console.js")), Defer()),
		),
		Body(Data("version", p.version),
			Raw(`<a class="skip" href="#main">Skip to the content</a>`),
			Header(Class("top"), Div(Class("bar"), A(Class("brand"), href(p.link("/")), Text("promptweir")),
				If(p.version != "", p.navigation()))),
			p.banners(),
			Main(ID("main"), TabIndex("-1"), content),
			p.footer(),
			Raw(`<p id="announce" class="unseen" role="status" aria-live="polite"></p>`),
		),
	))
}

func (p *page) navigation() Node {
	to := func(path, name, title string) Node {
		return A(href(p.link(path)), If(p.name == name, Aria("current", "page")), Text(title))
	}
	return Group{
		Nav(Aria("label", "Console"), to("/", "overview", "Overview"),
			to("/prompts", "prompts", "Prompts"), to("/upstreams", "upstreams", "Upstreams"),
			to("/usage", "usage", "Usage"), to("/configuration", "configuration", "Configuration")),
		If(p.signedIn, Raw(`<form class="out" action="/sign-out" method="post"><button class="plain">`+
			`Sign out</button></form>`)),
	}
}

func (p *page) banners() Node {
	sees := p.sees
	if sees == nil {
		sees = Group{Text("Lists show what "), B(bdi(p.as)), Text(" sees.")}
	}
	return Group{
		If(p.as != "", Aside(Class("banner viewing"), Aria("label", "View"),
			P(sees, Text(" "), A(href(p.everybody()), Text("See everything"))))),
		If(p.exposed, Raw(`<aside class="banner exposed" aria-label="Warning"><p>`+
			`<b>This connection is not encrypted.</b> Anyone on the network path can read the `+
			`admin token and your session. Put a proxy with TLS in front of the admin listener, and name it in `+
			`<code>trusted_proxies</code>.</p></aside>`)),
	}
}

func (p *page) footer() Node {
	if p.version == "" {
		return Footer(P(Text("promptweir")))
	}
	return Footer(P(Text("As of "), moment(p.now), Raw(`<span id="live" hidden>, live</span>. `+
		`As JSON: <a href="/readyz">/readyz</a>, <a href="/api/upstreams">/api/upstreams</a>, `+
		`<a href="/api/catalog">/api/catalog</a>. <a href="/metrics">Metrics</a>.`)))
}

// searchForm is a form that searches prompts or upstreams. If team is not empty, it searches only that
// team.
func (p *page) searchForm(action Node, placeholder, label, team string) Node {
	return Form(Class("search"), Role("search"), action, Method("get"),
		If(p.as != "", hidden("as", p.as)), If(team != "", hidden("team", team)),
		Label(Class("unseen"), For("q"), Text(label)), p.queryField(Placeholder(placeholder)),
		Button(Text("Search")))
}

// queryField is the field for the search text. The script focuses it when a person presses "/".
func (p *page) queryField(more ...Node) Node {
	return Input(ID("q"), Type("search"), Name("q"), Value(p.query), Group(more), AutoComplete("off"),
		Attr("spellcheck", "false"), MaxLength("200"))
}

// asField is the field for *View as*, with suggestions.
func (p *page) asField(suggestions []string) Node {
	return Group{
		Label(For("as"), Text("View as")),
		Input(ID("as"), Name("as"), Value(p.as), List("known"), Placeholder("user:ann,group:payments"),
			AutoComplete("off"), Attr("spellcheck", "false"), MaxLength("2000")),
		DataList(ID("known"), Map(suggestions, func(name string) Node { return Option(Value(name)) })),
	}
}

// pager links to the previous and next page of a list. A list of one page has no pager.
func (p *page) pager(path, team string, number, pages int) Node {
	if pages < 2 {
		return nil
	}
	to := func(rel, title string, number int) Node {
		if number < 1 || number > pages {
			return note(Text(title))
		}
		address := p.link(path, "q", p.query, "team", team, "page", strconv.Itoa(number))
		return A(Rel(rel), href(address), Text(title))
	}
	return Nav(Class("pager"), Aria("label", "Pages"), to("prev", "Previous", number-1),
		Span(Textf("Page %d of %d", number, pages)), to("next", "Next", number+1))
}

// href is the target of a link. It is left out unless the address is a path of the console: a
// javascript: URL, for example, becomes no link.
func href(address string) Node { return If(localPath(address) == address, Href(address)) }

// src is the source of an image, sound or script. It is left out if the address is neither a static
// file nor a data: URL of an image or sound.
func src(address string) Node {
	own := strings.HasPrefix(address, "/static/") || strings.HasPrefix(address, "data:image/") ||
		strings.HasPrefix(address, "data:audio/")
	return If(own, Src(address))
}

// bdi is a line of foreign text, isolated from the direction of the surrounding text.
func bdi(s string) Node { return El("bdi", Text(line(s))) }

// bdis are lines of foreign text with a separator between them.
func bdis(lines []string, between string) Node {
	var all Group
	for i, s := range lines {
		all = append(all, If(i > 0, Text(between)), bdi(s))
	}
	return all
}

// prose is foreign text in a box that can be scrolled with the keyboard.
func prose(class, label, s string) Node {
	return Div(Class(class), Role("group"), Aria("label", label), TabIndex("0"), El("bdi", Text(text(s))))
}

// code shows s in a box that can be scrolled with the keyboard. heading is the id of the box's label.
func code(id, heading, s string) Node {
	return Pre(ID(id), TabIndex("0"), Role("group"), Aria("labelledby", heading), Code(Text(text(s))))
}

// section is a section of a page with a heading. id is the id of the heading.
func section(id, heading string, children ...Node) Node {
	return Section(Aria("labelledby", id), H2(ID(id), Text(heading)), Group(children))
}

// live marks an element that the script replaces when its content has changed.
func live(id string) Node { return Group{ID(id), Attr("data-live")} }

func quiet(children ...Node) Node { return P(Class("quiet"), Group(children)) }

func note(children ...Node) Node { return Span(Class("quiet"), Group(children)) }

// unseen is a text for screen readers only.
func unseen(s string) Node { return Span(Class("unseen"), bdi(s)) }

func remedy(s string) Node { return Span(Class("remedy"), Text(s)) }

func location(s string) Node { return Span(Class("place"), bdi(s)) }

// moment is a time in UTC. The script converts it to the reader's time zone.
func moment(t time.Time) Node {
	t = t.UTC()
	return Time(DateTime(t.Format(time.RFC3339)), Text(t.Format("2006-01-02 15:04:05 MST")))
}

func dot() Node { return Span(Class("dot"), Aria("hidden", "true")) }

func condition(s string) Node { return Span(Class("condition"), dot(), Text(s)) }

func hidden(name, value string) Node { return Input(Type("hidden"), Name(name), Value(value)) }

// problems is a numbered list of sentences about problems.
func problems(all []string) Node {
	return Ol(Class("problems"), Map(all, func(s string) Node { return Li(bdi(s)) }))
}
