package config

import (
	"errors"
	"fmt"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
)

const maxPrefix = 64

func (l *loader) team(f fields) Team {
	f.items(schema{
		attributes: []string{"members"},
		labelled:   []string{"upstream", "expose", "hide"},
		later:      []string{"prompt", "limit", "screen", "rate", "lock"},
	})
	t := Team{Name: f.label(), Place: f.place(), MembersPlace: f.place()}
	l.checkName("team", f)
	if attr := f.block.Body.Attributes["members"]; attr != nil {
		t.MembersPlace = placeOf(attr.NameRange)
	}
	t.Members = list(f, "members", shown, parseMember)
	for _, b := range f.inner("upstream") {
		t.Upstreams = append(t.Upstreams, l.upstream(b, t.Name))
	}
	for _, b := range f.inner("expose") {
		t.Exposes = append(t.Exposes, l.expose(b))
	}
	for _, b := range f.inner("hide") {
		t.Hides = append(t.Hides, l.hide(b))
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
	if err == nil && sel.Kind != User && sel.Kind != Group {
		err = errors.New(`cannot be a member; write "user:NAME" or "group:NAME"`)
	}
	return sel, err
}

func (l *loader) hide(f fields) Rule {
	f.items(schema{attributes: []string{"prompts"}})
	return Rule{Label: f.label(), Place: f.place(), Prompts: required(f, "prompts", parsePattern)}
}

func (l *loader) expose(f fields) Rule {
	f.items(schema{attributes: []string{"prompts", "to"}, later: []string{"when"}})
	return Rule{
		Label:   f.label(),
		Place:   f.place(),
		Prompts: required(f, "prompts", parsePattern),
		To:      required(f, "to", l.parseAudience),
	}
}

func (l *loader) parseAudience(s string) (Selector, error) {
	sel, err := parseSelector(s)
	if err == nil && sel.Kind == TeamOf {
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
			"url", "headers", "command", "env", "transport", "protocol", "prefix", "timeout", "refresh",
			"concurrency", "max_prompts", "max_message", "when_down",
		},
		single: []string{"breaker"},
		later:  []string{"urls", "rate", "retry", "oauth", "tls", "lock", "limit", "prompt", "screen"},
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
		Breaker:     Breaker{DefaultBreakerFailures, DefaultBreakerCooldown},
	}
	l.endpoint(f, &u)
	l.prefix(f, &u)
	field(f, "protocol", shown, &u.Protocol, oneOf([]string{"auto", "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"}))
	field(f, "timeout", shown, &u.Timeout, parseDuration)
	field(f, "refresh", shown, &u.Refresh, parseDuration)
	f.count("concurrency", maxCount, &u.Concurrency)
	f.count("max_prompts", maxCount, &u.MaxPrompts)
	f.count("max_message", maxCount, &u.MaxMessage)
	keep := "keep"
	field(f, "when_down", shown, &keep, oneOf([]string{"keep"}, "hide"))
	for _, b := range f.inner("breaker") {
		l.breaker(b, &u.Breaker)
	}
	return u
}

func (l *loader) breaker(f fields, b *Breaker) {
	f.items(schema{attributes: []string{"failures", "cooldown"}})
	f.count("failures", maxCount, &b.Failures)
	field(f, "cooldown", shown, &b.Cooldown, parseDuration)
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

// endpoint reads how an upstream is reached.
func (l *loader) endpoint(f fields, u *Upstream) {
	remote, local := f.has("url"), f.has("command")
	switch {
	case remote && local:
		f.error(f.at("command"), "Two ways to one upstream", "url and command exclude each other; remove one.")
	case !remote && !local && !f.has("urls"):
		f.error(f.block.DefRange(), "No way to the upstream", "Set url to reach it by HTTP, or command to start it.")
	}
	if remote {
		u.Transport = StreamableHTTP
		l.remote(f, u)
	}
	if local {
		u.Transport = Stdio
		l.local(f, u)
	}
	l.transport(f, remote, local)
	u.Headers = f.secrets("headers", checkHeader)
	u.Env = f.secrets("env", checkVariable)
	if f.has("headers") && local && !remote {
		f.error(f.block.Body.Attributes["headers"].NameRange, "headers without url", "A child process gets no headers; use env.")
	}
	if f.has("env") && remote && !local {
		f.error(f.block.Body.Attributes["env"].NameRange, "env without command", "A server behind a url gets no environment; use headers.")
	}
}

// transport checks what is only worth writing down for the reader: url or command has decided.
func (l *loader) transport(f fields, remote, local bool) {
	var t Transport
	if !field(f, "transport", shown, &t, oneOf([]Transport{StreamableHTTP, Stdio}, "sse")) || remote == local {
		return
	}
	if (t == Stdio) != local {
		f.error(f.at("transport"), "Transport does not fit", "%s goes with url, %s with command; change one or leave transport out.", StreamableHTTP, Stdio)
	}
}

// remote reads url and checks that the team may reach it.
func (l *loader) remote(f fields, u *Upstream) {
	given, ok := f.string("url", public)
	if !ok {
		return
	}
	if given.sensitive {
		u.address = masked
	}
	if given.unset {
		return
	}
	parsed, err := parseURL(given.value)
	if err != nil {
		f.error(given.at, "Invalid upstream URL", "%s %s", f.withoutPassword(given), sentence(err))
		return
	}
	u.URL = given.value
	host := strings.ToLower(strings.TrimSuffix(parsed.Hostname(), "."))
	l.checkReach(given.at, host, portOf(parsed))
	if err := f.scope.grants.allowHost(host, given); err != nil {
		f.invalid("url", given, err)
	}
}

func portOf(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	default:
		return "80"
	}
}

// local reads command and checks that the team may start it.
func (l *loader) local(f fields, u *Upstream) {
	before := len(f.diags)
	words := f.texts("command", public)
	shown := make([]string, len(words))
	for i, w := range words {
		u.Command = append(u.Command, w.value)
		shown[i] = w.value
		if w.sensitive {
			shown[i], u.address = masked, masked
		}
		if strings.Contains(w.value, "\x00") {
			f.invalid("command", w, errors.New("has a zero byte in it"))
		}
	}
	if u.address != "" {
		u.address = strings.Join(shown, " ")
	}
	switch {
	case len(words) == 0 && len(f.diags) == before:
		f.error(f.at("command"), "Invalid command", "The list is empty; write the program first, its arguments after it.")
	case len(words) == 0 || words[0].unset:
	case words[0].value == "":
		f.invalid("command", words[0], errors.New("is no program; write it first, its arguments after it"))
	default:
		if err := f.scope.grants.allowCommand(words[0]); err != nil {
			f.invalid("command", words[0], err)
		}
	}
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

// checkHeader never speaks of the value.
func checkHeader(name, value string) error {
	switch {
	case !validToken(name):
		return errors.New("is not a header name; use letters, digits and \"-\"")
	case reservedHeader(textproto.CanonicalMIMEHeaderKey(name)):
		return errors.New("is set by the gateway itself; remove it")
	case !validHeaderValue(value):
		return errors.New("has a value with a line break or control character; use trimspace() around file()")
	}
	return nil
}

// reservedHeader knows what belongs to the protocol and what net/http would drop or misread.
func reservedHeader(canonical string) bool {
	switch canonical {
	case "Host", "Accept", "Accept-Encoding", "Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return true
	}
	return strings.HasPrefix(canonical, "Mcp-") || strings.HasPrefix(canonical, "Content-")
}

// validToken reports whether s is a token of RFC 9110, which names of headers are.
func validToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r > '~' || r <= ' ' || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	})
}

// validHeaderValue reports whether s is a field value of RFC 9110.
func validHeaderValue(s string) bool {
	return s == strings.TrimFunc(s, func(r rune) bool { return r == ' ' || r == '\t' }) &&
		!strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}

func checkVariable(name, value string) error {
	if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(value, "\x00") {
		return errors.New("cannot be in an environment; names have no \"=\", and no zero byte may be anywhere")
	}
	return nil
}
