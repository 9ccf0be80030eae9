package config

import (
	"errors"
	"regexp"
	"slices"

	"github.com/promptweir/promptweir/config/internal/hclread"
)

// Screen is a screen block. The meaning of its attributes is in [Screen.table].
type Screen struct {
	Label      string   // names the screen in reports
	Content    []string // nil allows all
	MaxSize    int      // 0 means no bound
	Patterns   []*regexp.Regexp
	Invisible  bool
	WellFormed bool
	Skills     bool
	Action     ScreenAction
	Place      Place
}

// ScreenAction is the action on a finding in a definition or a result.
type ScreenAction string

// The values of the action attribute.
const (
	ScreenReject ScreenAction = "reject" // leaves out the definition or fails the get
	ScreenStrip  ScreenAction = "strip"  // removes findings from texts and rejects other findings
	ScreenWarn   ScreenAction = "warn"   // only reports findings
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

// table returns the attributes of a screen block. Decoding charges the memory of compiled patterns to the budget of
// b's file.
func (s *Screen) table(b *hclread.Block) []hclread.Attribute {
	forbidden := func(pattern string) (*regexp.Regexp, error) { return parseForbidden(b, pattern) }
	const ambiguous = "An empty list could mean everything or nothing; fill it, or remove it."
	contents := hclread.OneOf("text", "image", "audio", "resource", "resource_link")
	parseSkills := func(s string) (bool, error) {
		_, err := hclread.OneOf("text")(s)
		return true, err
	}
	return []hclread.Attribute{
		hclread.Plain("content", hclread.Filled(&s.Content, contents, ambiguous),
			"The allowed content types of messages, and of what links lead to: `\"text\"`, `\"image\"`, `\"audio\"`, `\"resource\"`, `\"resource_link\"`. All unless set."),
		hclread.Plain("max_size", hclread.Count(&s.MaxSize, maxCount), "Bytes of a definition or a result."),
		hclread.Plain("patterns", hclread.Filled(&s.Patterns, forbidden, ambiguous), "Forbidden regular expressions (RE2), up to 1024 bytes each."),
		hclread.Plain("invisible", hclread.Flag(&s.Invisible), "Forbids invisible characters: tags, reversed text, controls, zero width."),
		hclread.Plain("wellformed", hclread.Flag(&s.WellFormed),
			"Requires the role `user` or `assistant`; base64 and a MIME type for images, audio and blobs; a URI, a MIME type and text or a blob for resources; a URI for links."),
		hclread.Plain("skills", hclread.String(&s.Skills, parseSkills),
			"`\"text\"` admits only [skills](#skills) without `allowed-tools` and `hooks` whose files have the extension of Markdown, text, JSON, YAML, CSV or images; a file that begins like a "+
				"script or a program is refused when read."),
		hclread.Plain("action", hclread.String(&s.Action, hclread.OneOf(ScreenReject, ScreenStrip, ScreenWarn)),
			"`\"reject\"` leaves a definition out and fails a get with `reason: \"screened\"`; `\"strip\"` removes findings from texts and rejects others; `\"warn\"` only reports."),
	}
}

func newScreen() *Screen { return &Screen{Action: ScreenReject} }

func screenSchema() hclread.Schema { return hclread.Schema{Attributes: newScreen().table(nil)} }

func decodeScreens(outer *hclread.Block) (screens []Screen) {
	for _, b := range outer.Inner("screen") {
		screens = append(screens, decodeScreen(b))
	}
	return screens
}

func decodeScreen(b *hclread.Block) Screen {
	s := newScreen()
	s.Label, s.Place = b.Label(), placeOf(b.Range())
	b.Decode(s.table(b))
	if b.Lacks("content") && b.Lacks("max_size") && b.Lacks("patterns") && b.Lacks("invisible") && b.Lacks("wellformed") && b.Lacks("skills") {
		b.Error(b.Range(), "Nothing to screen for", "A screen block needs content, max_size, patterns, invisible, wellformed or skills.")
	}
	if s.Action == ScreenStrip && (b.Has("content") || b.Has("max_size") || b.Has("wellformed") || b.Has("skills")) {
		b.Error(b.ValueRange("action"), "Cannot be stripped", "strip only removes characters, so "+
			"it does not work with content, max_size, wellformed or skills; move those to another screen block.")
	}
	return *s
}

// parseForbidden compiles a forbidden pattern. It refuses a pattern that matches the empty text.
func parseForbidden(b *hclread.Block, s string) (*regexp.Regexp, error) {
	program, err := b.Compile(s)
	if err != nil {
		return nil, err
	}
	if program.MatchString("") { // such as "x*", probably meant as "x"
		return nil, errors.New("matches the empty text, and therefore every text; correct it")
	}
	return program.Regexp, nil
}
