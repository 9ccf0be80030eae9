package config

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
)

// maxExpression bounds a forbidden pattern, in bytes.
const maxExpression = 1024

// Screen is a screen block: what definitions and results may not have.
type Screen struct {
	Label string
	// Content is the content types that a message may have; nil is all.
	Content []string
	// MaxSize bounds a definition and a result, in bytes of JSON; 0 is no bound.
	MaxSize int
	// Patterns must not match any text. None of them matches the empty one.
	Patterns []*regexp.Regexp
	// Invisible forbids characters that nobody sees.
	Invisible bool
	Action    ScreenAction
	Place     Place
}

// ScreenAction says what becomes of a definition or a result in which something is found.
type ScreenAction string

// The values of the action attribute.
const (
	ScreenReject ScreenAction = "reject" // a definition is left out, a get fails
	ScreenStrip  ScreenAction = "strip"  // what was found is taken out of texts; elsewhere it rejects
	ScreenWarn   ScreenAction = "warn"   // it is reported only
)

// ScreensFor returns the blocks that hold for a team's prompts: its own, then the gateway's.
func (c *Config) ScreensFor(team string) []Screen {
	for i := range c.Teams {
		if c.Teams[i].Name == team {
			return slices.Concat(c.Teams[i].Screens, c.Gateway.Screens)
		}
	}
	return c.Gateway.Screens
}

// screens reads the screen blocks of the gateway or of a team.
func (f fields) screens() (all []Screen) {
	for _, b := range f.inner("screen") {
		all = append(all, b.screen())
	}
	return all
}

func (f fields) screen() Screen {
	f.items(schema{attributes: []string{"content", "max_size", "patterns", "invisible", "action"}})
	s := Screen{Label: f.label(), Action: ScreenReject, Place: f.place()}
	mistakes := len(f.diags)
	s.Content = list(f, "content", shown, oneOf([]string{"text", "image", "audio", "resource", "resource_link"}))
	s.Patterns = list(f, "patterns", shown, parseForbidden)
	sound := len(f.diags) == mistakes
	for name, empty := range map[string]bool{"content": len(s.Content) == 0, "patterns": len(s.Patterns) == 0} {
		if empty && f.has(name) && sound {
			f.error(f.at(name), "Invalid "+name, "An empty list forbids nothing or everything; write what is meant, or remove it.")
		}
	}
	f.count("max_size", maxCount, &s.MaxSize)
	f.flag("invisible", &s.Invisible)
	field(f, "action", shown, &s.Action, oneOf([]ScreenAction{ScreenReject, ScreenStrip, ScreenWarn}))
	if f.lacks("content") && f.lacks("max_size") && f.lacks("patterns") && f.lacks("invisible") {
		f.error(f.block.DefRange(), "Nothing to look for", "A block \"screen\" needs content, max_size, patterns or invisible.")
	}
	if s.Action == ScreenStrip && (f.has("content") || f.has("max_size")) {
		f.error(f.at("action"), "Cannot be stripped", "strip takes characters out of texts and cannot make content fit; put content and max_size into a screen block of their own.")
	}
	return s
}

func parseForbidden(s string) (*regexp.Regexp, error) {
	if len(s) > maxExpression {
		return nil, fmt.Errorf("is over %d bytes long", maxExpression)
	}
	re, err := regexp.Compile(s)
	if err != nil {
		return nil, errors.New("is not a regular expression (RE2): " + err.Error())
	}
	if re.MatchString("") {
		return nil, errors.New("matches the empty text, and so every text; correct it")
	}
	return re, nil
}
