package console

import (
	"fmt"
	"net/http"
	"strings"

	. "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/admin"
)

// configuration shows the configuration in use, or the part of it that is of a team.
func (c *console) configuration(r *http.Request, p *page) (Node, error) {
	team := r.FormValue("team")
	settings, err := c.view.Settings(team)
	if err != nil {
		return nil, err
	}
	var shown strings.Builder
	for _, setting := range settings {
		if team == "" && setting.Name == "teams" { // each has a page of its own
			continue
		}
		writeSetting(&shown, setting.Name, setting.Value, "")
	}
	state := c.view.Configuration()
	p.name, p.title = "configuration", "Configuration: in use since "+when(state.Loaded)
	if state.Refused != nil {
		p.title = "Configuration: the last one was refused"
	}
	return Group{
		H1(Text("Configuration"), If(team != "", Group{Text(" of "), bdi(team)})),
		loaded(p, state),
		Form(Action("/reload"), Method("post"), hidden("next", p.uri), P(Button(Text("Load it again")))),
		section("settings", "In use",
			quiet(Text("With defaults filled in. What is secret, or came from the environment or a "+
				"file, is masked. As JSON: "),
				A(href(p.link("/api/config", "team", team)), Text("/api/config")), Text(".")),
			code("shown", "settings", shown.String())),
		teamLinks(p, c.view.Snapshot().Config.Teams, team),
	}, nil
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

// writeSetting writes a setting as it could stand in a file, for people.
func writeSetting(out *strings.Builder, name string, value any, indent string) {
	switch value := value.(type) {
	case config.Settings:
		fmt.Fprintf(out, "%s%s {\n", indent, name)
		for _, setting := range value {
			writeSetting(out, setting.Name, setting.Value, indent+"  ")
		}
		fmt.Fprintf(out, "%s}\n", indent)
	case []any:
		if _, blocks := value[0].(config.Settings); blocks {
			for _, block := range value {
				writeSetting(out, strings.TrimSuffix(name, "s"), block, indent)
			}
			return
		}
		var words []string
		for _, element := range value {
			words = append(words, plain(element))
		}
		fmt.Fprintf(out, "%s%s = [%s]\n", indent, name, strings.Join(words, ", "))
	default:
		fmt.Fprintf(out, "%s%s = %s\n", indent, name, plain(value))
	}
}

// plain writes a value without settings of its own.
func plain(value any) string {
	if text, ok := value.(string); ok {
		return fmt.Sprintf("%q", text)
	}
	return fmt.Sprint(value)
}
