package console

import (
	"net/http"

	. "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"

	"github.com/promptweir/promptweir/gateway/admin"
	"github.com/promptweir/promptweir/gateway/audit"
)

// usage shows the use of the prompts, the longest unused first.
func (c *console) usage(r *http.Request, p *page) (Node, error) {
	query, err := admin.ReadQuery(r)
	if err != nil {
		return nil, err
	}
	p.name, p.title = "usage", "Usage"
	report, err := c.view.Usage()
	if err != nil {
		return Group{H1(Text("Usage")), P(Class("nothing"), Text(sentence(err.Error())))}, nil
	}
	shown, at, pages := admin.PageOf(report.Prompts, query.Page, admin.PageSize)
	column := func(title string) Node { return Th(Scope("col"), Role("columnheader"), Text(title)) }
	return Group{
		H1(ID("usage"), Text("Usage")),
		quiet(bdi(report.Summary), Text(". Gets at this console do not count. As JSON: "), A(href("/api/usage"), Text("/api/usage")), Text(".")),
		Table(Class("rows"), Role("table"), Aria("labelledby", "usage"),
			THead(Role("rowgroup"), Tr(Role("row"), column("Prompt"), column("Last used"), column("Users"), column("Outcomes"))),
			TBody(Role("rowgroup"), Map(shown, p.usageRow))),
		p.pager("/usage", "", at, pages),
	}, nil
}

func (p *page) usageRow(u audit.PromptUsage) Node {
	return Tr(Data("prompt", u.Name), Role("row"),
		Th(Scope("row"), Role("rowheader"), A(href(p.link("/prompt", "name", u.Name)), bdi(u.Name))),
		Td(Role("cell"), Data("label", "Last used"), If(!u.Last.IsZero(), moment(u.Last)),
			If(u.Last.IsZero(), Text("never")), If(u.Unused, Group{Text(" "), Span(Class("tag"), Text("unused"))})),
		Td(Role("cell"), Data("label", "Users"), bdi(audit.Names(u.Users))),
		Td(Role("cell"), Data("label", "Outcomes"), bdi(u.Counts())))
}
