package console

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	. "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"

	"github.com/promptweir/promptweir/gateway/admin"
	"github.com/promptweir/promptweir/gateway/snapshot"
)

const (
	// maxTroubled bounds the upstreams with problems on the overview.
	maxTroubled = 50
	// maxReports bounds the reports on the overview.
	maxReports = 50
)

// overview shows the gateway's problems, teams and figures.
func (c *console) overview(_ *http.Request, p *page) (Node, error) {
	ready := c.view.Ready()
	upstreams := worstFirst(ready.Upstreams)
	troubled := 0
	for troubled < len(upstreams) && upstreams[troubled].Level != admin.Good {
		troubled++
	}
	findings := findings(&ready, upstreams[:troubled])
	p.name, p.title = "overview", findings.headline()
	// Show upstreams that are down before a refused configuration, as in the headline.
	first, second := refused(p, ready.Configuration), troubledCards(c.view.History, p, upstreams[:troubled])
	if troubled > 0 && upstreams[0].Level == admin.Bad {
		first, second = second, first
	}
	return Group{
		status(&ready, findings),
		p.searchForm(Action("/prompts"), "Search prompts", "Search prompts by name, title or description", ""),
		Div(live("wrong"), auditProblem(ready.AuditProblem), first, second, storeProblem(ready.Store), reports(ready.Reports)),
		section("teams", "Teams", Div(live("team-rows"), teamTable(p, teams(c.view.Snapshot(), &ready)))),
		section("gateway", "The gateway", facts(c.view.History.All(p.now), p, &ready)),
	}, nil
}

// worstFirst returns upstreams sorted by urgency, the most urgent first, and by name.
func worstFirst(all []admin.UpstreamHealth) []admin.UpstreamHealth {
	return slices.SortedStableFunc(slices.Values(all), func(a, b admin.UpstreamHealth) int {
		return cmp.Or(cmp.Compare(a.Level, b.Level), cmp.Compare(a.Name, b.Name))
	})
}

// attention contains the gateway's problems.
type attention struct {
	level   admin.Level // of the worst problem
	clauses []string    // one per problem, the worst first
}

func (a *attention) add(holds bool, level admin.Level, clause string) {
	if holds {
		a.level, a.clauses = min(a.level, level), append(a.clauses, clause)
	}
}

// headline returns the worst problem, or "All is well".
func (a *attention) headline() string {
	if len(a.clauses) == 0 {
		return "All is well"
	}
	return strings.TrimSuffix(sentence(a.clauses[0]), ".")
}

// findings returns the gateway's problems. troubled are the upstreams with problems.
func findings(r *admin.Readiness, troubled []admin.UpstreamHealth) *attention {
	a := &attention{level: admin.Good}
	upstreams := func(level admin.Level, are string) {
		of := slices.DeleteFunc(slices.Clone(troubled), func(u admin.UpstreamHealth) bool {
			return u.Level != level
		})
		switch {
		case len(of) == 1:
			a.add(true, level, "upstream "+line(of[0].Name)+" is "+of[0].Condition)
		case len(of) > 0:
			a.add(true, level, fmt.Sprintf("%s of %s %s", number(len(of)), count(len(r.Upstreams), "upstream"), are))
		}
	}
	a.add(r.Draining, admin.Bad, "the gateway is stopping")
	a.add(!r.Ready && !r.Draining && r.AuditProblem == "", admin.Bad, "the gateway is starting")
	a.add(r.AuditProblem != "", admin.Bad, "the audit log cannot be written")
	upstreams(admin.Bad, "are down")
	a.add(r.Configuration.Refused != nil, admin.Bad, refusal(r.Configuration))
	upstreams(admin.Poor, "need attention")
	a.add(r.Store != nil && !r.Store.Here, admin.Poor, "the store is unavailable, and each replica counts limits alone")
	a.add(len(r.Reports) > 0, admin.Poor, count(len(r.Reports), "report")+" to fix")
	return a
}

// status shows the headline, then the other problems and whether clients are served.
func status(r *admin.Readiness, a *attention) Node {
	serves := "The gateway serves clients."
	switch {
	case r.Draining:
		serves = "Load balancers are told to send no new clients."
	case !r.Ready:
		serves = "Load balancers are told to send no clients yet."
	}
	if len(a.clauses) > 1 {
		serves = "Also: " + strings.Join(a.clauses[1:], ", ") + ". " + serves
	}
	return Section(live("status"), Class("status "+a.level.String()),
		Data("announce", a.headline()+". "+serves), H1(dot(), bdi(a.headline())), P(bdi(serves)))
}

func storeProblem(store *admin.StoreHealth) Node {
	if store == nil || store.Here {
		return nil
	}
	return section("store", "The store is unavailable", Class("card poor"),
		P(Text("Since "), moment(store.Since), Text(" each replica counts limits alone. "),
			remedy("The log says why.")))
}

func auditProblem(problem string) Node {
	return If(problem != "", section("audit-problem", "The audit log cannot be written",
		Class("card bad"), P(bdi(problem), Text(". "), remedy("Make room, or correct the path "+
			"or its permissions; the gateway retries by itself."))))
}

// refusal returns a clause about the configuration or the team files that were refused.
func refusal(state *admin.ConfigurationState) string {
	switch teams := slices.Collect(maps.Keys(state.Teams)); {
	case !state.IsInUse():
		return "the last configuration was refused"
	case len(teams) != 1:
		return "files of " + count(len(teams), "team") + " are not in use"
	case state.Teams[teams[0]] == "out":
		return "team " + line(teams[0]) + " is left out"
	default:
		return "team " + line(teams[0]) + " runs on its previous file"
	}
}

// refused explains why the last loaded configuration is not or only partly in use. It returns nil if
// all of it is in use.
func refused(p *page, state *admin.ConfigurationState) Node {
	if state.Refused == nil {
		return nil
	}
	result := Group{Text(" failed, " + ago(p.now, *state.Refused) + " ago. The gateway keeps the configuration loaded at "), moment(state.Loaded)}
	if state.IsInUse() {
		result = Group{Text(", " + ago(p.now, *state.Refused) + " ago, found mistakes in these files. Everything else is in use")}
	}
	files := func(about string, names []string) Node {
		return If(len(names) > 0, P(Text("Of each of these files, "+about+" in use: "), bdis(names, ", ")))
	}
	return section("refused", strings.TrimSuffix(sentence(refusal(state)), "."), ID("configuration"), Class("card bad"),
		P(Text("The reload at "), moment(*state.Refused), result, Text(". "), remedy("Correct these mistakes; the gateway reloads when a file changes.")),
		files("the previous text is", state.LastGood), files("nothing is", state.Out),
		If(len(state.Teams) > 0, P(
			Text("Teams: "), Map(slices.Sorted(maps.Keys(state.Teams)), func(name string) Node {
				return Group{bdi(name), Text(" " + state.Teams[name] + ". ")}
			}))),
		problems(state.Problems))
}

func troubledCards(h *admin.History, p *page, all []admin.UpstreamHealth) Node {
	if len(all) == 0 {
		return nil
	}
	shown := all[:min(len(all), maxTroubled)]
	more := len(all) - len(shown)
	return section("troubled", "In trouble", legend(),
		upstreamCards(h, p, shown),
		If(more > 0, P(A(href(p.link("/upstreams")), Text(count(more, "upstream")+" more in trouble")))),
	)
}

func reports(all []string) Node {
	if len(all) == 0 {
		return nil
	}
	shown := all[:min(len(all), maxReports)]
	more := len(all) - len(shown)
	return section("reports", "To fix",
		Ul(Class("cards"), Map(shown, func(s string) Node { return Li(Class("card poor"), bdi(sentence(s))) })),
		If(more > 0, quiet(Text(count(more, "report")+" more: see "), Raw(`<a href="/readyz">/readyz</a>.`))),
	)
}

// teamRow is a team on the overview.
type teamRow struct {
	name               string
	upstreams, prompts int
	down, poor         int
}

// teams returns a row for each team. Teams with problems come first.
func teams(s *snapshot.Snapshot, r *admin.Readiness) []*teamRow {
	rows := map[string]*teamRow{}
	for _, name := range s.Config.TeamNames() {
		rows[name] = &teamRow{name: name}
	}
	// The row of an unknown team is discarded: after a reload, s and r may be of different configurations.
	of := func(team string) *teamRow { return cmp.Or(rows[team], &teamRow{}) }
	for i := range r.Upstreams {
		row := of(r.Upstreams[i].Team)
		row.upstreams++
		switch r.Upstreams[i].Level {
		case admin.Bad:
			row.down++
		case admin.Poor:
			row.poor++
		}
	}
	for _, entry := range s.Catalog.Entries() {
		of(entry.Team).prompts++
	}
	return slices.SortedFunc(maps.Values(rows), func(a, b *teamRow) int {
		return cmp.Or(cmp.Compare(a.level(), b.level()), cmp.Compare(a.name, b.name))
	})
}

func (t *teamRow) level() admin.Level {
	switch {
	case t.down > 0:
		return admin.Bad
	case t.poor > 0:
		return admin.Poor
	}
	return admin.Good
}

func (t *teamRow) condition() string {
	var parts []string
	if t.down > 0 {
		parts = append(parts, number(t.down)+" down")
	}
	if t.poor > 0 {
		parts = append(parts, number(t.poor)+" in trouble")
	}
	switch {
	case t.upstreams == 0:
		return "no upstreams"
	case len(parts) == 0:
		return "up"
	}
	return strings.Join(parts, ", ")
}

// teamTable is the table of teams. In a narrow window, the style sheet shows the rows as blocks. The
// roles tell screen readers that it is a table.
func teamTable(p *page, teams []*teamRow) Node {
	column := func(title string, attributes ...Node) Node {
		return Th(Scope("col"), Role("columnheader"), Group(attributes), Text(title))
	}
	return Table(Class("rows"), Role("table"), Aria("labelledby", "teams"),
		THead(Role("rowgroup"), Tr(Role("row"), column("Team"), column("Condition"),
			column("Upstreams", Class("n")), column("Prompts", Class("n")))),
		TBody(Role("rowgroup"), Map(teams, func(t *teamRow) Node { return t.row(p) }),
			If(len(teams) == 0, Raw(`<tr role="row"><td colspan="4" role="cell">None is configured.`+
				`</td></tr>`))))
}

func (t *teamRow) row(p *page) Node {
	return Tr(Class(t.level().String()), Data("team", t.name), Role("row"),
		Th(Scope("row"), Role("rowheader"), A(href(p.link("/upstreams", "team", t.name)), bdi(t.name))),
		Td(Class("condition"), Role("cell"), dot(), Text(t.condition())),
		Td(Class("n"), Role("cell"), Data("label", "Upstreams"), Text(number(t.upstreams))),
		Td(Class("n"), Role("cell"), Data("label", "Prompts"),
			A(href(p.link("/prompts", "team", t.name)), Text(number(t.prompts)))))
}

// facts shows figures about the whole gateway.
func facts(hour *admin.Hour, p *page, r *admin.Readiness) Node {
	fact := func(title string, values ...Node) Node {
		return Div(Dt(Text(title)), Dd(Group(values)))
	}
	gets, errors := hour.Sum()
	warnings := len(r.Configuration.Warnings)
	return Dl(live("facts"), Class("facts"),
		fact("Prompts", Text(number(r.Entries))),
		fact("Gets, last hour", Text(number(gets)),
			If(errors > 0, Group{Text(" "), Span(Class("bad-text"), Text(count(errors, "error")))}),
			If(gets > 0, sparkline(hour))),
		fact("Streams", Text(number(r.Streams)), note(Text(" open to clients"))),
		fact("Server requests", Text(number(r.Waiting)), note(Text(" waiting for clients"))),
		fact("Configuration", Text(ago(p.now, r.Configuration.Loaded)), note(Text(" in use"),
			If(r.Configuration.Refused != nil, Text(", a later one was refused")),
			If(warnings > 0, Text(", "+count(warnings, "warning"))))),
		fact("Version", Text(cmp.Or(r.Version, "unknown")), Iff(r.Started != nil, func() Node {
			return note(Text(", up for " + ago(p.now, *r.Started)))
		})))
}
