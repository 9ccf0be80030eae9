package admin

import (
	"fmt"
	"html/template"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestPage_BeginsWithWhatNeedsAttention(t *testing.T) {
	now := time.Date(2026, 11, 20, 3, 0, 0, 0, time.UTC)
	at := func(ago time.Duration) *time.Time {
		t := now.Add(-ago)
		return &t
	}
	up := UpstreamHealth{Connected: true, Listed: true}
	named := func(name string, h UpstreamHealth) UpstreamHealth {
		h.Name = name
		return h
	}
	r := Readiness{
		Ready: true, Configuration: &ConfigurationState{Loaded: *at(time.Hour)},
		Upstreams: []UpstreamHealth{
			named("fine", up),
			named("new", UpstreamHealth{}),
			named("half", UpstreamHealth{Connected: true, Listed: true, Endpoints: []EndpointHealth{{Connected: true}, {Trouble: Trouble{Reason: "timeout"}}, {Trouble: Trouble{Reason: "denied"}}}}),
			named("gone", UpstreamHealth{Listed: true, Trouble: Trouble{Reason: "unreachable"}}),
			named("stale", UpstreamHealth{Connected: true, Listed: true, Trouble: Trouble{Reason: "list_refused"}}),
			named("idle", UpstreamHealth{Listed: true}),
			named("good", up),
		},
	}
	p := newPage(r, now)
	var got []string
	for _, row := range p.Rows {
		got = append(got, fmt.Sprintf("%s %s: %s", row.Level, row.Name, row.Condition))
	}
	want := []string{
		"bad gone: down",
		"poor new: starting",
		"poor half: up, but 2 replicas of 3 in trouble",
		"poor stale: connected, but its list is not fresh",
		"poor idle: not connected",
		"good fine: up",
		"good good: up",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	says := func(level pageLevel, attention string) {
		t.Helper()
		p := newPage(r, now)
		if p.Level() != level || p.Attention() != attention {
			t.Errorf("%s %q, want %s %q", p.Level(), p.Attention(), level, attention)
		}
	}
	says(levelPoor, "5 of 7 upstreams in trouble")
	r.Upstreams = r.Upstreams[:1]
	says(levelGood, "")
	r.Reports, r.Configuration.Refused = []string{"a"}, at(time.Minute)
	says(levelPoor, "the last configuration was refused, 1 report to fix")
	r.Ready = false
	says(levelBad, "the last configuration was refused, 1 report to fix")

	for ago, want := range map[time.Duration]string{
		-time.Second: "0 s", 59 * time.Second: "59 s", time.Minute: "1 min", 90 * time.Minute: "1 h 30 min", 47 * time.Hour: "47 h 0 min", 50 * time.Hour: "2 days",
	} {
		if got := p.For(*at(ago)); got != want {
			t.Errorf("for %v: %q, want %q", ago, got, want)
		}
	}
	if got, want := p.When(*at(time.Hour)), "2026-11-20 02:00:00 UTC (1 h 0 min ago)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestPage_EscapesWhatServersSend(t *testing.T) {
	const evil = `<script>alert("x")</script><img src=x onerror="y">`
	at := time.Now()
	p := newPage(Readiness{
		Version: evil, Started: &at, Reports: []string{evil},
		Configuration: &ConfigurationState{Refused: &at, Problems: []string{evil}},
		Upstreams: []UpstreamHealth{{
			Name: evil, Team: evil, Place: evil, Revision: evil, Differences: []string{evil},
			Trouble:   Trouble{Reason: evil, Since: &at, Cause: evil, Remedy: evil},
			Endpoints: []EndpointHealth{{Address: evil, Revision: evil, Trouble: Trouble{Reason: evil, Cause: evil, Remedy: evil}}},
		}},
	}, at)
	var b strings.Builder
	if err := template.Must(newPageTemplate()).Execute(&b, &p); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "<script") || strings.Contains(b.String(), "<img") || strings.Contains(b.String(), `="y"`) {
		t.Errorf("markup is not escaped:\n%s", b.String())
	}
	if got, want := strings.Count(b.String(), "&lt;script&gt;"), 17; got != want {
		t.Errorf("%d texts of servers are shown, want %d:\n%s", got, want, b.String())
	}
}
