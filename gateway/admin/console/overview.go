package console

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/promptweir/promptweir/gateway/admin"
)

const (
	// maxTroubled bounds the upstreams in trouble on the overview, and maxReports the reports.
	maxTroubled = 50
	maxReports  = 50
	// maxTeams bounds the teams on the overview.
	maxTeams = 500
	// upstreamsPerPage is how many upstreams a page of all has.
	upstreamsPerPage = 100
)

// overview is what there is to know at a glance.
type overview struct {
	admin.Readiness

	Level admin.Level
	// Attention says what is wrong; empty if nothing is.
	Attention string
	// Troubled are the upstreams in trouble, the worst first, and MoreTroubled how many are left
	// out.
	Troubled     []upstreamRow
	MoreTroubled int
	MoreReports  int
	Teams        []teamRow
	MoreTeams    int
	Gets, Errors int
	Spark        *spark
}

// upstreamRow is an upstream with its last hour.
type upstreamRow struct {
	admin.UpstreamHealth

	Spark *spark
}

// teamRow is what is known of a team.
type teamRow struct {
	Name, Place string
	Level       admin.Level
	Condition   string
	Upstreams   int
	Prompts     int

	down, poor int
}

func (c *console) overview(_ *http.Request, p *page) error {
	o := overview{Readiness: c.view.Ready()}
	rows := worstFirst(o.Upstreams)
	troubled := slices.IndexFunc(rows, func(u admin.UpstreamHealth) bool { return u.Level() == admin.Good })
	if troubled < 0 {
		troubled = len(rows)
	}
	shown := min(troubled, maxTroubled)
	o.Troubled, o.MoreTroubled = c.withHistory(p, rows[:shown]), troubled-shown
	o.Attention = attention(&o.Readiness, troubled)
	switch {
	case !o.Ready:
		o.Level = admin.Bad
	case o.Attention != "":
		o.Level = admin.Poor
	default:
		o.Level = admin.Good
	}
	if len(o.Reports) > maxReports {
		o.Reports, o.MoreReports = o.Reports[:maxReports], len(o.Reports)-maxReports
	}
	o.Teams = c.teams(&o.Readiness)
	if len(o.Teams) > maxTeams {
		o.Teams, o.MoreTeams = o.Teams[:maxTeams], len(o.Teams)-maxTeams
	}
	hour := c.view.History.All(p.Now)
	o.Gets, o.Errors = hour.Gets(), hour.Errors()
	if o.Gets > 0 {
		o.Spark = newSpark(hour)
	}
	p.Name, p.Title, p.Content = "overview", "Ready", &o
	if !o.Ready {
		p.Title = "Not ready"
	}
	if o.Attention != "" {
		p.Title += ": " + o.Attention
	}
	return nil
}

// worstFirst returns the upstreams with those first that need attention most.
func worstFirst(all []admin.UpstreamHealth) []admin.UpstreamHealth {
	return slices.SortedStableFunc(slices.Values(all), func(a, b admin.UpstreamHealth) int { return cmp.Compare(a.Level(), b.Level()) })
}

func (c *console) withHistory(p *page, all []admin.UpstreamHealth) []upstreamRow {
	rows := make([]upstreamRow, len(all))
	for i, u := range all {
		rows[i] = upstreamRow{u, newSpark(c.view.History.Upstream(u.Name, p.Now))}
	}
	return rows
}

// attention says what needs attention; it is empty where nothing does.
func attention(r *admin.Readiness, troubled int) string {
	var all []string
	if r.Draining {
		all = append(all, "the gateway is about to end")
	}
	if r.Store != nil && !r.Store.Here {
		all = append(all, "the store is away, and each replica works alone; the log says why")
	}
	if r.AuditProblem != "" {
		all = append(all, "the audit log cannot be written")
	}
	if r.Configuration.Refused != nil {
		all = append(all, "the last configuration was refused")
	}
	if troubled > 0 {
		all = append(all, fmt.Sprintf("%s of %s in trouble", number(troubled),
			count(len(r.Upstreams), "upstream")))
	}
	if n := len(r.Reports); n > 0 {
		all = append(all, count(n, "report")+" to fix")
	}
	return strings.Join(all, ", ")
}

// teams returns a row for each team, those with trouble first.
func (c *console) teams(r *admin.Readiness) []teamRow {
	s := c.view.Snapshot()
	index := map[string]int{}
	rows := make([]teamRow, len(s.Config.Teams))
	for i := range rows {
		team := &s.Config.Teams[i]
		rows[i], index[team.Name] = teamRow{Name: team.Name, Place: team.Place.String()}, i
	}
	of := func(team string) *teamRow {
		if i, ok := index[team]; ok {
			return &rows[i]
		}
		return &teamRow{} // of a configuration that a reload has replaced just now
	}
	for i := range r.Upstreams {
		row := of(r.Upstreams[i].Team)
		row.Upstreams++
		switch r.Upstreams[i].Level() {
		case admin.Bad:
			row.down++
		case admin.Poor:
			row.poor++
		}
	}
	for _, entry := range s.Catalog.Entries() {
		of(entry.Team).Prompts++
	}
	for i := range rows {
		rows[i].describe()
	}
	slices.SortStableFunc(rows, func(a, b teamRow) int { return cmp.Compare(a.Level, b.Level) })
	return rows
}

func (t *teamRow) describe() {
	var parts []string
	if t.down > 0 {
		parts = append(parts, number(t.down)+" down")
	}
	if t.poor > 0 {
		parts = append(parts, number(t.poor)+" in trouble")
	}
	switch {
	case t.down > 0:
		t.Level = admin.Bad
	case t.poor > 0:
		t.Level = admin.Poor
	default:
		t.Level, parts = admin.Good, []string{"up"}
	}
	if t.Upstreams == 0 {
		parts = []string{"no upstreams"}
	}
	t.Condition = strings.Join(parts, ", ")
}

// upstreamList is a page of upstreams.
type upstreamList struct {
	Team        string
	Rows        []upstreamRow
	Total       int
	Page, Pages int
}

func (c *console) upstreams(r *http.Request, p *page) error {
	query, err := admin.ReadQuery(r)
	if err != nil {
		return err
	}
	all, err := c.view.Upstreams(query.Team)
	if err != nil {
		return err
	}
	if query.Text != "" {
		name := strings.ToLower(query.Text)
		all = slices.DeleteFunc(all, func(u admin.UpstreamHealth) bool { return !strings.Contains(strings.ToLower(u.Name), name) })
	}
	all = worstFirst(all)
	list := upstreamList{
		Team: query.Team, Total: len(all),
		Pages: max(1, (len(all)+upstreamsPerPage-1)/upstreamsPerPage),
	}
	list.Page = min(max(1, query.Page), list.Pages)
	first := (list.Page - 1) * upstreamsPerPage
	list.Rows = c.withHistory(p, all[first:min(first+upstreamsPerPage, len(all))])
	p.Name, p.Title, p.Query, p.Content = "upstreams", "Upstreams", query.Text, &list
	if query.Text != "" || query.Team != "" {
		p.Title += ": " + number(list.Total) + " found"
	}
	return nil
}

// spark is the last hour as a small picture: a bar for the gets of each minute, above a strip of
// how the upstream was. Each field is the data of an SVG path, in a grid of 60 by 20.
type spark struct {
	Gets, Errors    string
	Good, Poor, Bad string
	Summary         string
}

const (
	barsHeight = 14.0 // of the bars
	stripTop   = 16.0
	stripSize  = 4.0
)

// newSpark draws an hour; nil if there is nothing to draw.
func newSpark(hour *admin.Hour) *spark {
	if hour == nil {
		return nil
	}
	s := &spark{}
	var gets, errors strings.Builder
	strips := map[admin.Level]*strings.Builder{admin.Good: {}, admin.Poor: {}, admin.Bad: {}}
	most, poor, bad := max(1, hour.MostGets()), 0, 0
	for x, m := range hour {
		if m.Gets > 0 {
			height := max(1.5, barsHeight*float64(m.Gets)/float64(most))
			failed := height * float64(m.Errors) / float64(m.Gets)
			bar(&gets, x, barsHeight-height, height-failed)
			bar(&errors, x, barsHeight-failed, failed)
		}
		if m.Known {
			bar(strips[m.Level], x, stripTop, stripSize)
			switch m.Level {
			case admin.Bad:
				bad++
			case admin.Poor:
				poor++
			}
		}
	}
	s.Gets, s.Errors = gets.String(), errors.String()
	s.Good, s.Poor, s.Bad = strips[admin.Good].String(), strips[admin.Poor].String(), strips[admin.Bad].String()
	s.Summary = "Last hour: " + count(hour.Gets(), "get")
	if errors := hour.Errors(); errors > 0 {
		s.Summary += ", " + count(errors, "error")
	}
	if bad > 0 {
		s.Summary += ", down for " + count(bad, "minute")
	}
	if poor > 0 {
		s.Summary += ", in trouble for " + count(poor, "minute")
	}
	return s
}

// bar appends a bar to the data of a path.
func bar(path *strings.Builder, x int, y, height float64) {
	if height > 0 {
		fmt.Fprintf(path, "M%d %.1fh.8v%.1fh-.8z", x, y, height)
	}
}
