package config

import (
	"errors"
	"regexp"
	"slices"

	"github.com/promptweir/promptweir/config/internal/hclread"
)

// Screen is a screen block: what definitions and results must not contain.
type Screen struct {
	// Label names the screen in reports.
	Label string
	// Content is the allowed content types of messages; nil allows all.
	Content []string
	// MaxSize bounds a definition and a result, in bytes of JSON; 0 is no bound.
	MaxSize int
	// Patterns must not match any text. None of them matches the empty text.
	Patterns []*regexp.Regexp
	// Invisible forbids characters that people cannot see.
	Invisible bool
	// WellFormed demands of messages what the protocol does: roles, base64, MIME types and URIs.
	WellFormed bool
	// Skills lets in only skills of texts and images that ask for no tools and no hooks.
	Skills bool
	Action ScreenAction
	Place  Place
}

// ScreenAction says what happens to a definition or a result in which a screen finds something.
type ScreenAction string

// The values of the action attribute.
const (
	ScreenReject ScreenAction = "reject" // leaves a definition out, fails a get
	ScreenStrip  ScreenAction = "strip"  // removes the finding from texts; rejects it in anything else
	ScreenWarn   ScreenAction = "warn"   // only reports the finding
)

// ScreensFor returns the screens for a team's prompts: its own, then the gateway's.
func (c *Config) ScreensFor(team string) []Screen {
	for i := range c.Teams {
		if c.Teams[i].Name == team {
			return slices.Concat(c.Teams[i].Screens, c.Gateway.Screens)
		}
	}
	return c.Gateway.Screens
}

func screenSchema() hclread.Schema {
	return hclread.Schema{Plain: []string{"content", "max_size", "patterns", "invisible", "wellformed", "skills", "action"}}
}

// decodeScreens decodes the screen blocks of the gateway or of a team.
func decodeScreens(outer *hclread.Block) (screens []Screen) {
	for _, b := range outer.Inner("screen") {
		screens = append(screens, decodeScreen(b))
	}
	return screens
}

func decodeScreen(b *hclread.Block) Screen {
	s := Screen{Label: b.Label(), Action: ScreenReject, Place: placeOf(b.Range())}
	const ambiguous = "An empty list could mean everything or nothing; fill it, or remove it."
	isForbidden := func(pattern string) (*regexp.Regexp, error) { return parseForbidden(b, pattern) }
	s.Content = hclread.NonEmptyList(b, "content", hclread.OneOf("text", "image", "audio", "resource", "resource_link"), ambiguous)
	s.Patterns = hclread.NonEmptyList(b, "patterns", isForbidden, ambiguous)
	hclread.Int(b, "max_size", maxCount, &s.MaxSize)
	hclread.Bool(b, "invisible", &s.Invisible)
	hclread.Bool(b, "wellformed", &s.WellFormed)
	hclread.Set(b, "skills", &s.Skills, func(s string) (bool, error) {
		_, err := hclread.OneOf("text")(s)
		return true, err
	})
	hclread.Set(b, "action", &s.Action, hclread.OneOf(ScreenReject, ScreenStrip, ScreenWarn))
	if b.Lacks("content") && b.Lacks("max_size") && b.Lacks("patterns") && b.Lacks("invisible") && b.Lacks("wellformed") && b.Lacks("skills") {
		b.Error(b.Range(), "Nothing to screen for", "A screen block needs content, "+
			"max_size, patterns, invisible, wellformed or skills.")
	}
	if s.Action == ScreenStrip && (b.Has("content") || b.Has("max_size") || b.Has("wellformed") || b.Has("skills")) {
		b.Error(b.ValueRange("action"), "Cannot be stripped", "strip only removes characters, so "+
			"it does not work with content, max_size, wellformed or skills; move those to another screen block.")
	}
	return s
}

// parseForbidden compiles a pattern of texts that must not be there.
func parseForbidden(b *hclread.Block, s string) (*regexp.Regexp, error) {
	program, err := b.Compile(s)
	if err != nil {
		return nil, err
	}
	if program.Regexp().MatchString("") { // "x*", most likely meant as "x"
		return nil, errors.New("matches the empty text, and therefore every text; correct it")
	}
	return program.Regexp(), nil
}
