package console

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"go.mau.fi/util/exslices"
	. "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"

	"github.com/promptweir/promptweir/gateway/admin"
)

// upstreamsPerPage is the number of upstreams on one page.
const upstreamsPerPage = 100

// upstreams shows one page of the found upstreams, the most urgent first.
func (c *console) upstreams(r *http.Request, p *page) (Node, error) {
	query, err := admin.ReadQuery(r)
	if err != nil {
		return nil, err
	}
	all, err := c.view.Upstreams(query.Team)
	if err != nil {
		return nil, err
	}
	name := strings.ToLower(query.Text)
	names := exslices.CastFunc(all, func(u admin.UpstreamHealth) string { return u.Name })
	all = worstFirst(slices.DeleteFunc(all, func(u admin.UpstreamHealth) bool {
		return !strings.Contains(strings.ToLower(u.Name), name)
	}))
	shown, at, pages := admin.PageOf(all, query.Page, upstreamsPerPage)
	p.name, p.title, p.query = "upstreams", "Upstreams", query.Text
	if query.Text != "" || query.Team != "" {
		p.title += ": " + number(len(all)) + " found"
	}
	nothing := "None is configured."
	if query.Text != "" {
		nothing = guess(query.Text, names)
	}
	return Group{
		H1(Text("Upstreams"), If(query.Team != "", Group{Text(" of "), bdi(query.Team)})),
		p.searchForm(Action("/upstreams"), "Search upstreams", "Search upstreams by name", query.Team),
		Div(live("upstreams"),
			quiet(Text(count(len(all), "upstream")), If(query.Text != "", Text(" found")),
				If(query.Team != "", Group{
					Text(" of this team · "),
					A(href(p.link("/prompts", "team", query.Team)), Text("its prompts")), Text(" · "),
					A(href(p.link("/upstreams")), Text("all upstreams")),
				})),
			legend(),
			H2(Class("unseen"), Text("The condition of each")),
			upstreamCards(c.view.History, p, shown, If(len(shown) == 0, Li(Class("card"), Text(nothing))))),
		p.pager("/upstreams", query.Team, at, pages),
	}, nil
}

func upstreamCards(h *admin.History, p *page, all []admin.UpstreamHealth, more ...Node) Node {
	return Ul(Class("cards"), Map(all, func(u admin.UpstreamHealth) Node {
		return upstreamCard(h, p, &u)
	}), Group(more))
}

// upstreamCard shows an upstream's condition, its last hour, and a button to connect.
func upstreamCard(h *admin.History, p *page, u *admin.UpstreamHealth) Node {
	return Li(Class("card "+u.Level.String()), Data("upstream", u.Name),
		Div(Class("head"), H3(bdi(u.Name)), condition(u.Condition), sparkline(h.Upstream(u.Name, p.now))),
		trouble(u),
		quiet(If(u.Team != "", Group{
			A(href(p.link("/upstreams", "team", u.Team)), Text("team "), bdi(u.Team)), Text(" · "),
		}), location(u.Place), revision(u.Revision), Text(" · "+listed(u))),
		connectButton(p, u))
}

func revision(of string) Node { return If(of != "", Group{Text(" · revision "), bdi(of)}) }

// listed describes an upstream's list: its size, and whether it is current.
func listed(u *admin.UpstreamHealth) string {
	switch prompts := count(u.Prompts, "prompt"); {
	case u.Listed && u.Problem != nil && !u.Failing:
		return prompts + " in its last list"
	case u.Listed:
		return prompts
	case u.Prompts > 0:
		return prompts + " saved earlier"
	}
	return "never listed"
}

// connectButton is a button that makes an upstream connect now, or nil if the upstream is not down.
// The page shows the result, and the script announces it.
func connectButton(p *page, u *admin.UpstreamHealth) Node {
	if u.Connected || u.Problem == nil {
		return nil
	}
	name := line(u.Name)
	return Form(Class("act"), Action("/connect"), Method("post"), hidden("upstream", u.Name), hidden("next", p.uri),
		Button(Data("done", "Connected to "+name+"."), Data("failed", "Not connected to "+name+": "),
			Text("Connect now"), unseen(" to "+name)))
}

// trouble shows the upstream's problem with its cause and remedy. It returns nil if there is no problem.
func trouble(u *admin.UpstreamHealth) Node {
	if u.Problem == nil {
		return nil
	}
	return P(Class("cause"), Text(line(string(u.Reason))), Text(" since "), moment(u.Since), Text(": "),
		bdi(u.Cause), Text("."), If(u.Remedy != "", Group{Text(" "), remedy(sentence(line(u.Remedy)))}))
}

// The layout of a sparkline, in units of its grid.
const (
	barsHeight = 14.0
	stripTop   = 16.0
	stripSize  = 4.0
)

// sparkline draws the last hour on a grid of 60 by 20: a bar per minute for the gets, and below it a
// strip for the upstream's level. It returns nil for a nil hour.
func sparkline(hour *admin.Hour) Node {
	if hour == nil {
		return nil
	}
	var gets, errors strings.Builder
	var strips [admin.Good + 1]strings.Builder
	var minutes [admin.Good + 1]int
	most := uint32(1)
	for _, m := range hour {
		most = max(most, m.Gets)
	}
	for x, m := range hour {
		if m.Gets > 0 {
			// At least 1.5: a single get must be visible beside many.
			height := max(1.5, barsHeight*float64(m.Gets)/float64(most))
			failed := height * float64(m.Errors) / float64(m.Gets)
			bar(&gets, x, barsHeight-height, height-failed)
			bar(&errors, x, barsHeight-failed, failed)
		}
		if m.Known {
			bar(&strips[m.Level], x, stripTop, stripSize)
			minutes[m.Level]++
		}
	}
	all, failed := hour.Sum()
	label := "Last hour: " + count(all, "get")
	if failed > 0 {
		label += ", " + count(failed, "error")
	}
	if bad := minutes[admin.Bad]; bad > 0 {
		label += ", down for " + count(bad, "minute")
	}
	if poor := minutes[admin.Poor]; poor > 0 {
		label += ", in trouble for " + count(poor, "minute")
	}
	path := func(class, data string) Node { return El("path", Class(class), Attr("d", data)) }
	return SVG(Class("spark"), Attr("viewBox", "0 0 60 20"), Attr("preserveAspectRatio", "none"),
		Role("img"), Aria("label", label), TitleEl(Text(label)), path("track", "M0 16h60v4h-60z"),
		path("gets", gets.String()), path("errors", errors.String()),
		path("good", strips[admin.Good].String()), path("poor", strips[admin.Poor].String()),
		path("bad", strips[admin.Bad].String()))
}

// legend explains the colours of the sparklines.
func legend() Node {
	return Raw(`<p class="legend quiet">The last hour, minute by minute: <i class="gets"></i> gets, ` +
		`<i class="errors"></i> of them errors; beneath, <i class="good"></i> up, <i class="poor"></i> ` +
		`in trouble, <i class="bad"></i> down, <i class="track"></i> not known</p>`)
}

// bar appends a bar to the data of an SVG path, unless its height is 0.
func bar(path *strings.Builder, x int, y, height float64) {
	if height > 0 {
		fmt.Fprintf(path, "M%d %.1fh.8v%.1fh-.8z", x, y, height)
	}
}
