package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
)

// Bounds of single settings.
const (
	maxPrefix   = 64
	maxAttempts = 10
	// A rate between these is a time between calls that a Duration can hold and that somebody may mean.
	minRate, maxRate = 1e-6, 1e6
)

func (l *loader) team(f fields) Team {
	f.items(schema{
		attributes: []string{"members", "lock"},
		single:     []string{"limit"},
		labelled:   []string{"upstream", "expose", "hide", "prompt", "screen"},
		elsewhere:  map[string]string{"rate": "a limit block, or an upstream"},
	})
	before := len(l.diags)
	t := Team{Name: f.label(), Place: f.place()}
	l.checkName("team", f)
	t.Members = list(f, "members", shown, parseMember)
	t.Lock = f.locking()
	t.Limit = f.limit()
	t.Screens = f.screens()
	for _, b := range f.inner("upstream") {
		t.Upstreams = append(t.Upstreams, l.upstream(b, t.Name))
	}
	for _, b := range f.inner("expose") {
		t.Exposes = append(t.Exposes, l.expose(b))
	}
	t.nameLimits()
	for _, b := range f.inner("hide") {
		t.Hides = append(t.Hides, l.hide(b))
	}
	for _, b := range f.inner("prompt") {
		t.Overrides = append(t.Overrides, l.shape(b, t.Name))
	}
	if l.separator != "" && !l.diags[before:].HasErrors() {
		l.warnIdle(f, t)
	}
	return t
}

// checkName reports a label that is no name or that is taken.
func (l *loader) checkName(kind string, f fields) {
	if !f.labelled() {
		return
	}
	if !isName(f.label()) {
		l.error(f.labelRange(), "Invalid "+kind+" name", "%q is not a name; use letters, digits, \"-\" and \"_\".", f.label())
		return
	}
	l.unique(kind, f.label(), f.labelRange())
}

func parseMember(s string) (Selector, error) {
	sel, err := parseSelector(s)
	switch {
	case err != nil:
	case sel.Kind != User && sel.Kind != Group:
		err = errors.New(`cannot be a member; write "user:NAME" or "group:NAME"`)
	case sel == Selector{User, anonymous}:
		err = errors.New(`cannot be a member, because callers without a token are in no team; give them prompts in an expose block, to = ["*"]`)
	}
	return sel, err
}

func (l *loader) hide(f fields) Rule {
	f.items(schema{attributes: []string{"prompts", "when"}})
	return Rule{Label: f.label(), Place: f.place(), Prompts: required(f, "prompts", parsePattern), When: f.condition()}
}

func (l *loader) expose(f fields) Rule {
	f.items(schema{attributes: []string{"prompts", "to", "when"}, single: []string{"limit"}})
	return Rule{
		Label:   f.label(),
		Place:   f.place(),
		Prompts: required(f, "prompts", parsePattern),
		To:      required(f, "to", l.parseAudience),
		When:    f.condition(),
		Limit:   f.limit(),
	}
}

func (l *loader) parseAudience(s string) (Selector, error) {
	sel, err := parseSelector(s)
	if err == nil && sel.Kind == TeamMembers {
		err = l.declaredTeam(sel.Name)
	}
	return sel, err
}

func (l *loader) declaredTeam(name string) error {
	if slices.Contains(l.teams, name) {
		return nil
	}
	return fmt.Errorf("names a team that no team block declares%s", suggest(name, l.teams))
}

func (l *loader) upstream(f fields, team string) Upstream {
	f.items(schema{
		attributes: []string{
			"url", "urls", "headers", "command", "env", "transport", "protocol", "prefix", "timeout", "refresh",
			"concurrency", "rate", "max_prompts", "max_message", "when_down", "grace",
		},
		single: []string{"breaker", "retry", "tls", "oauth"},
		elsewhere: map[string]string{
			"lock": "the team block", "limit": "the team block", "prompt": "the team block", "screen": "the team block",
		},
	})
	l.checkName("upstream", f)
	u := Upstream{
		Name:        f.label(),
		Team:        team,
		Place:       f.place(),
		Protocol:    "auto",
		Prefix:      f.label(),
		Timeout:     DefaultTimeout,
		Refresh:     DefaultRefresh,
		Concurrency: DefaultConcurrency,
		MaxPrompts:  DefaultMaxPrompts,
		MaxMessage:  DefaultMaxMessage,
		Attempts:    DefaultAttempts,
		WhenDown:    WhenDownKeep,
		Grace:       DefaultGrace,
		Breaker:     Breaker{DefaultBreakerFailures, DefaultBreakerCooldown},
	}
	l.endpoint(f, &u)
	l.prefix(f, &u)
	field(f, "protocol", shown, &u.Protocol, oneOf([]string{"auto", "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"}))
	if u.Transport == SSE && u.Protocol == "2026-07-28" {
		f.error(f.at("protocol"), "Protocol does not fit", "That revision has no HTTP+SSE; change protocol or transport.")
	}
	field(f, "timeout", shown, &u.Timeout, parseDuration)
	field(f, "refresh", shown, &u.Refresh, parseRefresh)
	f.count("concurrency", maxCount, &u.Concurrency)
	f.number("rate", minRate, maxRate, &u.Rate)
	f.count("max_prompts", maxCount, &u.MaxPrompts)
	f.count("max_message", maxCount, &u.MaxMessage)
	l.whenDown(f, &u)
	for _, b := range f.inner("breaker") {
		l.breaker(b, &u.Breaker)
	}
	for _, b := range f.inner("retry") {
		l.retry(b, &u)
	}
	return u
}

// whenDown reads what becomes of the prompts of an upstream that is down.
func (l *loader) whenDown(f fields, u *Upstream) {
	known := field(f, "when_down", shown, &u.WhenDown, oneOf([]WhenDown{WhenDownKeep, WhenDownHide})) || !f.has("when_down")
	field(f, "grace", shown, &u.Grace, parseDuration)
	if known && f.has("grace") && u.WhenDown != WhenDownHide {
		f.error(f.block.Body.Attributes["grace"].NameRange, "grace without hide",
			"The prompts are kept for as long as the upstream is down; set when_down = %q or remove grace.", WhenDownHide)
	}
}

func (l *loader) breaker(f fields, b *Breaker) {
	f.items(schema{attributes: []string{"failures", "cooldown"}})
	f.count("failures", maxCount, &b.Failures)
	field(f, "cooldown", shown, &b.Cooldown, parseDuration)
}

func (l *loader) retry(f fields, u *Upstream) {
	f.items(schema{attributes: []string{"attempts"}})
	if f.lacks("attempts") {
		f.error(f.block.DefRange(), "Missing attempts", "A block %q without attempts has no effect; write attempts = 3 to try a call three times in all.", f.block.Type)
	}
	f.count("attempts", maxAttempts, &u.Attempts)
}

func parseDuration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, errors.New(`is not a duration; write a number and a unit, like "10s" or "5m"`)
	}
	if d <= 0 {
		return 0, errors.New(`is not more than zero; write it like "10s"`)
	}
	return d, nil
}

// parseRefresh is parseDuration for how often a server is listed.
func parseRefresh(s string) (time.Duration, error) {
	d, err := parseDuration(s)
	if err == nil && d < MinRefresh {
		return 0, fmt.Errorf(`is less than %s, as often as a server may be listed; write it like "5m"`, MinRefresh)
	}
	return d, err
}

// prefix reads the namespace of an upstream and claims it for the team.
func (l *loader) prefix(f fields, u *Upstream) {
	if f.has("prefix") && !field(f, "prefix", shown, &u.Prefix, checked(checkPrefix)) || !isName(f.label()) {
		return
	}
	at, what := f.at("prefix"), fmt.Sprintf("prefix %q", u.Prefix)
	if !f.has("prefix") {
		at, what = f.labelRange(), fmt.Sprintf("label %q, which is the prefix,", u.Prefix)
	}
	// The separator's first occurrence must end the prefix, or the prefix "a-" with the separator "--"
	// would reach into the namespace of "a".
	if u.Prefix != "" && l.separator != "" && strings.Index(u.Prefix+l.separator, l.separator) != len(u.Prefix) {
		f.error(at, "Separator in prefix", "The %s contains the separator %q; set prefix to something else.", what, l.separator)
		return
	}
	l.claim(f, at, u)
}

// claim reports a prefix that another team has.
func (l *loader) claim(f fields, at hcl.Range, u *Upstream) {
	first, taken := l.prefixes[u.Prefix]
	if !taken {
		l.prefixes[u.Prefix] = claim{u.Team, placeOf(at)}
		return
	}
	if first.team != u.Team {
		f.error(at, "Prefix belongs to another team", "%q is a prefix of team %q since %s; set prefix to something else.", u.Prefix, first.team, first.place)
	}
}

func checkPrefix(s string) error {
	if s != "" && (!printable(s) || len(s) > maxPrefix) {
		return fmt.Errorf("is not a prefix; use up to %d bytes without white space", maxPrefix)
	}
	return nil
}
