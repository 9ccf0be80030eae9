package console

import (
	"fmt"
	"net/http"

	. "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/admin"
)

// configuration shows the configuration in use, or the part of it that is of a team.
func (c *console) configuration(r *http.Request, p *page) (Node, error) {
	team := r.FormValue("team")
	// Each team has a page of its own.
	files := c.view.Snapshot().Config.Shown(func(block, _ string) bool { return block != "team" })
	if team != "" {
		var err error
		if files, err = c.view.Files(team); err != nil {
			return nil, err
		}
	}
	state := c.view.Configuration()
	p.name, p.title = "configuration", "Configuration: in use"
	if state.Refused != nil {
		p.title = "Configuration: the last one was refused"
	}
	return Group{
		H1(Text("Configuration"), If(team != "", Group{Text(" of "), bdi(team)})),
		loaded(p, state),
		Form(Action("/reload"), Method("post"), hidden("next", p.uri), P(Button(Text("Reload")))),
		section("settings", "In use",
			quiet(Text("As written, without comments, and loadable. Secrets are masked; env and "+
				"file are not evaluated. As JSON: "),
				A(href(p.link("/api/config", "team", team)), Text("/api/config")), Text(".")),
			documents(files)),
		teamLinks(p, c.view.Snapshot().Config.Teams, team),
	}, nil
}

// documents shows files under their names.
func documents(files []config.ShownFile) (all Group) {
	for i, f := range files {
		id := fmt.Sprintf("file-%d", i)
		all = append(all, H3(ID(id), bdi(f.Name)), code(id+"-text", id, f.Text))
	}
	return all
}

// loaded says since when the configuration is in use, and what is wrong with it.
func loaded(p *page, state *admin.ConfigurationState) Node {
	warned := ", without warnings."
	if n := len(state.Warnings); n > 0 {
		warned = ", with " + count(n, "warning") + "."
	}
	return Div(live("loaded"), refused(p, state),
		If(state.Refused == nil, quiet(Text("In use since "), moment(state.Loaded), Text(warned))),
		If(len(state.Warnings) > 0,
			section("warnings", "Warnings", Class("card poor"), problems(state.Warnings))))
}

// teamLinks lead to the parts of the configuration that are of one team each.
func teamLinks(p *page, teams []config.Team, team string) Node {
	to := func(team string, name Node) Node {
		return Li(A(href(p.link("/configuration", "team", team)), name))
	}
	return Nav(Aria("labelledby", "each"), H2(ID("each"), Text("Teams")),
		Ul(Class("chips"), If(team != "", to("", Text("all teams"))),
			Map(teams, func(t config.Team) Node {
				return to(t.Name, bdi(t.Name))
			})))
}
