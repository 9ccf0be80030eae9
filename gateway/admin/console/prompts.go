package console

import (
	"net/http"
	"slices"
	"strings"
	"unicode"

	"go.mau.fi/util/exslices"
	. "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/admin"
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/inspect"
)

// prompts shows one page of the found prompts.
func (c *console) prompts(r *http.Request, p *page) (Node, error) {
	query, err := admin.ReadQuery(r)
	if err != nil {
		return nil, err
	}
	found, err := c.view.Search(query)
	if err != nil {
		return nil, err
	}
	p.name, p.title, p.query = "prompts", "Prompts", query.Text
	if query.Text != "" || query.Team != "" || p.as != "" {
		p.title += ": " + number(found.Total) + " found"
	}
	total := count(found.Total, "prompt")
	return Group{
		H1(Text("Prompts")),
		findForm(c.view, p, query.Team),
		Div(live("found"), Data("announce", total+" found"),
			quiet(ID("total"), Text(total), If(query.Text != "", Text(" found"))),
			If(found.Total > 0, Ul(Class("list"), Map(found.Prompts, p.hit))),
			Iff(found.Total == 0, func() Node { return c.nothing(p, query.Team) }),
			p.pager("/prompts", query.Team, found.Page, found.Pages)),
	}, nil
}

// findForm is the search form of the prompts page. The script searches while a person types.
func findForm(v *admin.View, p *page, team string) Node {
	teams := v.Snapshot().Config.TeamNames()
	slices.Sort(teams)
	return Form(ID("find"), Class("find"), Role("search"), Action("/prompts"), Method("get"),
		Div(Class("field wide"), Label(For("q"), Text("Name, title or description")), p.queryField()),
		Div(Class("field"), Label(For("team"), Text("Team")),
			Select(ID("team"), Name("team"), Option(Value(""), Text("All teams")),
				Map(teams, func(name string) Node {
					return Option(Value(name), If(name == team, Selected()), Text(line(name)))
				}))),
		Div(Class("field"), p.asField(v.Principals())),
		Button(Text("Search")))
}

func (p *page) hit(prompt admin.PromptSummary) Node {
	return Li(Data("prompt", prompt.Name),
		Div(Class("hit"),
			A(Class("name"), href(p.link("/prompt", "name", prompt.Name)), bdi(prompt.Name)),
			If(prompt.Title != "", Group{Text(" "), Span(Class("title"), bdi(prompt.Title))}),
			Map(prompt.Badges, func(badge string) Node {
				return Group{Text(" "), Span(Class("tag "+badge), Text(badge))}
			}),
			If(prompt.Description != "", P(Class("description"), bdi(prompt.Description)))),
		Text(" "), Span(Class("quiet team"), Span(Class("unseen"), Text("team ")), bdi(prompt.Team)))
}

// nothing tells that no prompt was found, with a suggestion for the next step.
func (c *console) nothing(p *page, team string) Node {
	if p.query == "" && p.as == "" && team == "" {
		return Raw(`<p class="nothing">There are no prompts yet: no upstream has listed any. ` +
			`<a href="/">The overview</a> says what is wrong.</p>`)
	}
	principal, _ := c.view.Principal(p.as) // no error: Search has parsed the same principal
	names := exslices.CastFunc(inspect.Entries(c.view.Snapshot(), principal), func(e *catalog.Entry) string { return e.Name })
	found := Group{Class("nothing"), bdi(guess(p.query, names))}
	if p.as == "" {
		return P(found, Text(" Try fewer or other words."))
	}
	return P(found, Text(" "), A(href(p.everybody()), Text("Look at everything")), Text(" instead, or fewer or other words."))
}

// guess tells that nothing was found, and suggests the most similar name or word of a name.
func guess(query string, names []string) string {
	suggestions := slices.Clone(names)
	for _, name := range names {
		suggestions = append(suggestions, strings.FieldsFunc(name, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })...)
	}
	return "Nothing found" + config.Suggest(strings.TrimSpace(query), suggestions)
}
